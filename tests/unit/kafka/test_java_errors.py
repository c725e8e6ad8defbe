"""Errors of Kafka's Java clients, as Spark reports them, become Headwater's."""

from __future__ import annotations

import pytest

from headwater.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    HeadwaterError,
    ProducerFencedError,
    ProducerStateError,
    RecordTooLargeError,
)
from headwater.kafka.java_errors import from_java_error

PACKAGE = "org.apache.kafka.common"
ANN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.jaas.config": 'x.PlainLoginModule required username="ann" password="secret";',
}
FAILED = "dev.headwater.delivery.DeliveryFailedException"
FRAME = "\n\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:251)"


def failed_record(cause: str, message: str) -> str:
    """The text of a task whose record Kafka did not accept."""
    return (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure:"
        " Lost task 0.0 in stage 0.0 (TID 0) (10.0.0.1 executor driver): "
        f"{FAILED}: the record for topic out made from in/0@7: "
        f"{cause}: {message}{FRAME}\nCaused by: {PACKAGE}.errors.{cause}: {message}\n"
    )


def error_of(text: str) -> HeadwaterError:
    error = from_java_error(text, ANN)
    assert error is not None
    return error


def test_a_record_that_is_too_large_is_named_with_its_parent() -> None:
    error = error_of(failed_record("RecordTooLargeException", "The message is 2000000 bytes."))
    assert isinstance(error, RecordTooLargeError)
    assert error.message == (
        "the record for topic out made from in/0@7: "
        "RecordTooLargeException: The message is 2000000 bytes."
    )
    assert "max.message.bytes" in (error.hint or "")
    assert error.attributes == {"exception": "RecordTooLargeException"}


@pytest.mark.parametrize(
    ("text", "needed", "option"),
    [
        (
            failed_record("TopicAuthorizationException", "Not authorized to access topics: [out]"),
            "User:ann needs Write on the topic 'out'",
            "--operation Write --topic out",
        ),
        (
            # An idempotent producer without any Write permission.
            failed_record("ClusterAuthorizationException", "Cluster authorization failed."),
            "User:ann needs Write on the topic 'out'",
            "--operation Write --topic out",
        ),
        (
            failed_record("TransactionalIdAuthorizationException", "not authorized"),
            "User:ann needs Write on the transactional-id 'headwater-*'",
            "--transactional-id headwater- --resource-pattern-type prefixed",
        ),
        (
            f"{PACKAGE}.errors.TopicAuthorizationException: Not authorized to access topics: [in]",
            "User:ann needs Read on the topic 'in'",
            "--operation Read --topic in",
        ),
        (
            f"{PACKAGE}.errors.GroupAuthorizationException: Not authorized to access group: "
            "spark-kafka-source-0d1-driver-0",
            "User:ann needs Read on the group 'spark-kafka-source-*'",
            "--group spark-kafka-source- --resource-pattern-type prefixed",
        ),
        (
            f"{PACKAGE}.errors.GroupAuthorizationException: FindCoordinator request for groupId "
            "`CoordinatorKey(idValue='headwater-1-in-0', type=GROUP)` failed",
            "User:ann needs Read on the group 'headwater-*'",
            "--group headwater- --resource-pattern-type prefixed",
        ),
        (
            f"{FAILED}: task 0 of batch 3 of topic out was not "
            "committed: KafkaException: Unexpected error in TxnOffsetCommitResponse: Topic "
            f"authorization failed.{FRAME}\nCaused by: {PACKAGE}.KafkaException: Unexpected error "
            "in TxnOffsetCommitResponse: Topic authorization failed.\n",
            "User:ann needs Read on the topic 'out'",
            "--operation Read --topic out",
        ),
        (
            f"{PACKAGE}.errors.ClusterAuthorizationException: Cluster authorization failed.",
            "User:ann needs Describe on the cluster",
            "--operation Describe --cluster`",
        ),
    ],
)
def test_the_hint_names_the_missing_permission_and_its_command(
    text: str, needed: str, option: str
) -> None:
    error = error_of(text)
    assert isinstance(error, AuthorizationError)
    assert (error.hint or "").startswith(needed)
    assert "headwater kafka acls --add --allow-principal User:ann" in (error.hint or "")
    assert option in (error.hint or "")
    assert "secret" not in f"{error.message} {error.hint}"


def test_the_innermost_exception_decides_and_all_are_in_the_message() -> None:
    text = (
        f"{FAILED}: task 3 of batch 8 of topic out was not "
        "committed: "
        "KafkaException: Cannot execute transactional method because we are in an error state"
        f"{FRAME}\nCaused by: {PACKAGE}.KafkaException: Cannot execute transactional method "
        f"because we are in an error state{FRAME}\n"
        f"Caused by: {PACKAGE}.errors.ProducerFencedException: There is a newer producer{FRAME}\n"
        f"Caused by: {PACKAGE}.errors.OutOfOrderSequenceException: out of order{FRAME}\n"
    )
    error = error_of(text)
    assert type(error) is ProducerStateError
    start = "task 3 of batch 8 of topic out was not committed: KafkaException: Cannot"
    assert error.message.startswith(start)
    assert error.message.endswith(
        ": ProducerFencedException: There is a newer producer: "
        "OutOfOrderSequenceException: out of order"
    )


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("SaslAuthenticationException: Invalid username or password", AuthenticationError, 4),
        ("TimeoutException: Timed out waiting for a node", BrokerUnavailableError, 3),
        ("ProducerFencedException", ProducerFencedError, 1),
    ],
)
def test_an_exception_of_the_driver_is_named_without_its_package(
    text: str, kind: type[HeadwaterError], code: int
) -> None:
    error = error_of(f"{PACKAGE}.errors.{text}\n")
    assert (type(error), error.message, error.exit_code) == (kind, text, code)


@pytest.mark.parametrize(
    "text",
    [
        "java.util.concurrent.TimeoutException: Futures timed out",
        f"{PACKAGE}.KafkaException: Failed to construct kafka consumer",
        "An error occurred while calling o27.start. TopicAuthorizationException",
        "",
    ],
)
def test_other_errors_are_not_errors_of_kafka(text: str) -> None:
    assert from_java_error(text, {}) is None
