"""Jobs on a cluster with ACLs: a failed query states what Kafka refuses, and what to change."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType
from pyspark.sql import SparkSession
from tests.guarded_broker import GuardedBroker, guarded_broker

from headwater.errors import (
    AuthenticationError,
    AuthorizationError,
    QueryFailedError,
    RecordTooLargeError,
)
from headwater.job import LineageJob
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPICS = ("in", "out", "small")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuardedBroker, Settings]]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as (broker, admin):
        for topic in TOPICS:
            limit = {"max.message.bytes": "1000"} if topic == "small" else {}
            create_topic(topic, 1, admin.kafka, config=limit)
        # Random bytes, because a compressed record could be below the limit.
        large = random.Random(17).randbytes(20_000)  # noqa: S311 - not a secret
        with RecordProducer(admin.kafka) as producer:
            producer.send("in", large, b"key")
        # What the driver needs before the query starts.
        for topic in (*TOPICS, "out-dead-letter", "small-dead-letter"):
            for operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
                broker.allow(operation, topic)
            if topic not in TOPICS:
                create_topic(topic, 1, admin.kafka)
        yield broker, admin


def copy(settings: Settings, target: str, checkpoint: Path, mode: str = "idempotent") -> None:
    # Each test writes to the same topic, with another checkpoint.
    job = LineageJob(
        "copy", settings=settings, checkpoint=checkpoint, delivery=mode, accept=["duplicates"]
    )
    rows = job.read("in").select("key", "value", "lineage")
    job.write(rows, target, trigger={"availableNow": True})


def failure(
    settings: Settings, target: str, checkpoint: Path, mode: str = "idempotent"
) -> QueryFailedError:
    with pytest.raises(QueryFailedError) as caught:
        copy(settings, target, checkpoint, mode)
    error = caught.value
    # No stack trace and no query plan.
    assert error.message.startswith("query 'copy' failed: ")
    assert "\n" not in error.message
    assert error.exit_code == 4
    return error


def test_a_job_names_the_permission_it_lacks_until_it_has_all(
    spark: SparkSession, guarded: tuple[GuardedBroker, Settings], tmp_path: Path
) -> None:
    broker, admin = guarded
    ann = broker.client()
    error = failure(ann, "out", tmp_path / "1")
    assert isinstance(error.cause, AuthorizationError)
    assert "TopicAuthorizationException: Not authorized to access topics: [in]" in error.message
    assert "User:ann needs Read on the topic 'in'" in (error.hint or "")
    broker.allow(AclOperation.READ, "in")
    error = failure(ann, "out", tmp_path / "2")
    assert "the record for topic out made from in/0@0: " in error.message
    assert "User:ann needs Write on the topic 'out'" in (error.hint or "")
    broker.allow(AclOperation.WRITE, "out")
    copy(ann, "out", tmp_path / "3")
    assert len(list(read_topic("out", admin.kafka))) == 1
    prefixed = ResourcePatternType.PREFIXED
    error = failure(ann, "out", tmp_path / "4", "transactional")
    assert "TransactionalIdAuthorizationException" in error.message
    assert "Write on the transactional-id 'headwater-*'" in (error.hint or "")
    broker.allow(AclOperation.WRITE, "headwater-", ResourceType.TRANSACTIONAL_ID, prefixed)
    error = failure(ann, "out", tmp_path / "5", "transactional")
    assert "GroupAuthorizationException" in error.message
    assert "Read on the group 'headwater-*'" in (error.hint or "")
    broker.allow(AclOperation.READ, "headwater-", ResourceType.GROUP, prefixed)
    error = failure(ann, "out", tmp_path / "6", "transactional")
    assert "Topic authorization failed" in error.message
    assert "Read on the topic 'out'" in (error.hint or "")
    broker.allow(AclOperation.READ, "out")
    copy(ann, "out", tmp_path / "7", "transactional")


def test_a_record_that_is_too_large_for_the_topic_ends_the_job_with_its_own_exit_code(
    spark: SparkSession, guarded: tuple[GuardedBroker, Settings], tmp_path: Path
) -> None:
    error = failure(guarded[1], "small", tmp_path / "checkpoint")
    assert isinstance(error.cause, RecordTooLargeError)
    assert "the record for topic small made from in/0@0: RecordTooLarge" in error.message
    assert "max.message.bytes" in (error.hint or "")


def test_a_wrong_password_of_sparks_clients_ends_the_job_promptly(
    spark: SparkSession, guarded: tuple[GuardedBroker, Settings], tmp_path: Path
) -> None:
    broker, _ = guarded
    ann, wrong = broker.client(), broker.client("wrong")
    began = time.monotonic()
    with pytest.raises(AuthenticationError) as caught:
        copy(ann.model_copy(update={"spark": wrong.spark}), "out", tmp_path / "checkpoint")
    assert time.monotonic() - began < 30
    error = caught.value
    assert "SaslAuthenticationException: Authentication failed" in error.message
    assert "\n" not in error.message
    assert "HEADWATER_SPARK__KAFKA_OPTIONS" in (error.hint or "")
