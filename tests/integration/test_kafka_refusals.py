"""What a real cluster refuses: logins, missing ACLs, replication, records and transactions."""

from __future__ import annotations

import asyncio
import random
import re
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.guarded_broker import GuardedBroker, guarded_broker
from tests.support import Headwater

from headwater.catalog.api.problems import ApiError
from headwater.errors import (
    AuthenticationError,
    AuthorizationError,
    DeliveryError,
    HeadwaterError,
    PolicyViolationError,
    ProducerFencedError,
    RecordRejectedError,
    RecordTooLargeError,
    ReplicationFactorError,
)
from headwater.kafka import (
    RecordProducer,
    RecordReader,
    TopicFollower,
    create_topic,
    delete_topics,
    describe_topic,
    end_offsets,
    list_topics,
    max_record_bytes,
    read_topic,
)
from headwater.kafka.client import client_config, kafka_errors
from headwater.model import Address
from headwater.service.record_queries import KafkaRecordQueries
from headwater.service.record_query_pool import RecordQueryPool
from headwater.settings import Settings

pytestmark = pytest.mark.kafka

COMMAND = re.compile(r"`headwater (kafka acls --add [^`]*)`")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuardedBroker, Settings]]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture
def admin(guarded: tuple[GuardedBroker, Settings]) -> Settings:
    return guarded[1]


@pytest.fixture
def ann(guarded: tuple[GuardedBroker, Settings]) -> Settings:
    return guarded[0].client()


def refused(function: Callable[..., Any], *arguments: Any) -> HeadwaterError:
    with pytest.raises(HeadwaterError) as caught:
        function(*arguments)
    return caught.value


def send(settings: Settings, topic: str, value: bytes = b"x", key: bytes | None = b"k") -> None:
    with RecordProducer(settings.kafka) as producer:
        producer.send(topic, value, key)


def fetch(settings: Settings, topic: str) -> Any:
    with RecordReader(settings.kafka) as reader:
        return reader.fetch(Address(topic, 0, 0))


def grant(error: HeadwaterError, headwater: Headwater, admin: Settings) -> None:
    """Run the command of the hint, as the administrator."""
    command = COMMAND.search(error.hint or "")
    assert command, error.hint
    variables = {"KAFKA_BOOTSTRAP_SERVERS": admin.bootstrap_servers}
    done = headwater(*shlex.split(command[1]), settings=admin, **variables)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_password_is_reported_within_seconds_although_the_client_would_retry(
    guarded: tuple[GuardedBroker, Settings],
) -> None:
    for attempt in (list_topics, create_topic, send, fetch):
        # Each with its own client.
        wrong = guarded[0].client(f"wrong for {attempt.__name__}", timeout_seconds=60)
        began = time.monotonic()
        arguments = {
            list_topics: (wrong.kafka,),
            create_topic: ("new", 1, wrong.kafka),
            send: (wrong, "visits"),
            fetch: (wrong, "visits"),
        }[attempt]
        error = refused(attempt, *arguments)
        assert time.monotonic() - began < 15, attempt.__name__
        if isinstance(error, DeliveryError):
            assert error.exit_code == 4
            assert error.cause is not None
            error = error.cause
        assert isinstance(error, AuthenticationError), attempt.__name__
        assert "does not accept the client" in error.message
        assert "Invalid username or password" in error.message
        assert "HEADWATER_KAFKA__CLIENT" in (error.hint or "")
        assert "wrong" not in f"{error.message} {error.hint} {error.attributes}"


def test_a_command_exits_with_4_and_status_and_doctor_give_the_reason(
    guarded: tuple[GuardedBroker, Settings], headwater: Headwater
) -> None:
    wrong = guarded[0].client("wrong")
    variables = {
        "KAFKA_BOOTSTRAP_SERVERS": wrong.bootstrap_servers,
        **{f"HEADWATER_KAFKA__CLIENT__{name}": value for name, value in wrong.kafka.client.items()},
    }
    listed = headwater("topics", "list", settings=wrong, **variables)
    assert listed.returncode == 4, listed.stderr
    assert "error: Kafka at localhost:" in listed.stderr
    assert "hint: check HEADWATER_KAFKA__SECURITY_PROTOCOL" in listed.stderr
    status = headwater("status", settings=wrong, **variables)
    assert "unreachable" in status.stdout, status.stderr
    found = headwater("doctor", settings=wrong, **variables)
    assert "Invalid username or password" in found.stdout + found.stderr


def test_the_service_reports_a_refused_login_without_addresses_and_names(
    guarded: tuple[GuardedBroker, Settings],
) -> None:
    queries = KafkaRecordQueries(guarded[0].client("wrong for the service"))
    pool = RecordQueryPool(queries)
    query = pool.run(lambda: queries.ancestry("visits", 0, 0))
    with pytest.raises(ApiError) as caught:
        asyncio.run(query)
    pool.close()
    assert caught.value.status == 503
    assert caught.value.message == "Kafka refuses the request of the service"
    assert caught.value.errors == ("check its ACLs and credentials",)


@pytest.mark.parametrize(
    ("operation", "request_it"),
    [
        ("Describe", lambda name, settings: describe_topic(name, settings.kafka)),
        ("Describe", lambda name, settings: end_offsets(name, settings.kafka)),
        ("DescribeConfigs", lambda name, settings: max_record_bytes(name, settings.kafka)),
        ("Create", lambda name, settings: create_topic(f"{name}-new", 1, settings.kafka)),
        ("Write", lambda name, settings: send(settings, name)),
    ],
)
def test_a_missing_permission_is_named_with_operation_topic_and_principal(
    operation: str,
    request_it: Callable[[str, Settings], Any],
    admin: Settings,
    ann: Settings,
) -> None:
    name = f"secret-{len(list_topics(admin.kafka))}"
    create_topic(name, 1, admin.kafka)
    began = time.monotonic()
    error = refused(request_it, name, ann)
    assert time.monotonic() - began < 5
    if isinstance(error, DeliveryError):
        assert error.cause is not None
        error = error.cause
    assert isinstance(error, AuthorizationError)
    assert error.exit_code == 4
    assert (error.hint or "").startswith(f"User:ann needs {operation} on the topic '{name}")


def test_the_commands_of_the_hints_are_sufficient_to_write_and_read(
    admin: Settings, ann: Settings, headwater: Headwater
) -> None:
    create_topic("visits", 1, admin.kafka)
    error = refused(send, ann, "visits")
    grant(error, headwater, admin)
    send(ann, "visits")
    reading = refused(lambda: list(read_topic("visits", ann.kafka)))
    assert isinstance(reading, AuthorizationError)
    assert "User:ann needs Read on the topic 'visits'" in (reading.hint or "")
    grant(reading, headwater, admin)
    # Without a permission for a group: readers have none.
    assert [record.value for record in read_topic("visits", ann.kafka)] == [b"x"]
    assert fetch(ann, "visits").value == b"x"
    with TopicFollower("visits", {0: 0}, ann.kafka) as follower:
        deadline = time.monotonic() + 10
        records = follower.poll(1)
        while not records and time.monotonic() < deadline:
            records = follower.poll(1)
    assert [record.value for record in records] == [b"x"]


def test_more_replicas_than_brokers_are_refused_with_exit_code_4(
    admin: Settings, headwater: Headwater
) -> None:
    error = refused(lambda: create_topic("three", 1, admin.kafka, replication_factor=3))
    assert isinstance(error, ReplicationFactorError)
    assert "replication factor of 3" in error.message
    variables = {"KAFKA_BOOTSTRAP_SERVERS": admin.bootstrap_servers}
    command = ("topics", "create", "three", "--replication-factor", "3")
    assert headwater(*command, settings=admin, **variables).returncode == 4


def test_limits_of_the_cluster_are_policies_not_bad_input(admin: Settings) -> None:
    create_topic("kept", 1, admin.kafka)
    assert isinstance(refused(delete_topics, ["kept"], admin.kafka), PolicyViolationError)
    config = client_config(
        admin.kafka, **{"transactional.id": "long", "transaction.timeout.ms": 86_400_000}
    )
    with pytest.raises(PolicyViolationError, match="timeout"):
        with kafka_errors(admin.kafka, "starting a transaction"):
            Producer(config).init_transactions(10)


def test_a_rejected_record_is_not_an_unknown_outcome(admin: Settings) -> None:
    create_topic("compacted", 1, admin.kafka, config={"cleanup.policy": "compact"})
    error = refused(lambda: send(admin, "compacted", key=None))
    assert isinstance(error, DeliveryError)
    assert type(error.cause) is RecordRejectedError
    assert error.exit_code == 4
    assert "key" in (error.hint or "")
    create_topic("small", 1, admin.kafka, config={"max.message.bytes": "1000"})
    # Random bytes, because a compressed record could be below the limit.
    large = random.Random(17).randbytes(20_000)  # noqa: S311 - not a secret
    error = refused(lambda: send(admin, "small", large))
    assert type(error.cause) is RecordTooLargeError
    assert "max.message.bytes" in (error.hint or "")


def test_the_older_of_two_producers_with_one_transactional_id_is_fenced(admin: Settings) -> None:
    create_topic("fenced", 1, admin.kafka)
    config = client_config(admin.kafka, **{"transactional.id": "shared"})
    older, newer = Producer(config), Producer(config)
    for producer in (older, newer):
        producer.init_transactions(20)

    def commit(producer: Producer, value: bytes) -> None:
        with kafka_errors(admin.kafka, "committing"):
            producer.begin_transaction()
            producer.produce("fenced", value)
            producer.commit_transaction(20)

    error = refused(commit, older, b"x")
    assert isinstance(error, ProducerFencedError)
    assert error.exit_code == 1
    assert "transactional id" in (error.hint or "")
    commit(newer, b"y")
    assert [record.value for record in read_topic("fenced", admin.kafka)] == [b"y"]
