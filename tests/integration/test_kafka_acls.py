"""Commands and jobs run with exactly the ACLs that the docs list for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.secured_broker import PASSWORD, SecuredBroker

from headwater.cli.app import headwater
from headwater.delivery.sink import ERROR_COLUMN, error_of, no_error
from headwater.errors import AuthorizationError, HeadwaterError
from headwater.job import LineageJob
from headwater.jobs import data_synchronization_job as archive
from headwater.kafka import (
    RecordProducer,
    create_topic,
    delete_topics,
    find_topics,
    read_topic,
)
from headwater.kafka.acls import COMMANDS, JOBS, Need, granted, need_of
from headwater.kafka.errors import Access
from headwater.settings import Settings
from headwater.settings.sections import ArchiveSettings

pytestmark = pytest.mark.kafka

NAMES = {"TOPIC": "visits", "INPUT": "visits", "OUTPUT": "clean", "RUNS": "headwater-runs"}
ARGUMENTS = {
    "topics list": ["topics", "list"],
    "topics describe": ["topics", "describe", "visits"],
    "topics create": ["topics", "create", "created"],
    "produce": ["produce", "sent"],
    "generate": ["generate", "visits", "--topic", "sent", "--rows", "3"],
    "consume": ["consume", "visits", "--from-beginning"],
    "trace": ["trace", "clean/0@0"],
    "verify": ["verify", "clean", "--source", "visits"],
    "why-missing": ["why-missing", "visits/0@2", "--in", "clean"],
    "dead-letter list": ["dead-letter", "list", "clean"],
    "dead-letter redrive": ["dead-letter", "redrive", "clean"],
    "archive status": ["archive", "status", "visits"],
}
# Other topics than those that the story has.
OTHERS = {"topics create": "created", "produce": "sent", "generate": "sent"}
CHECKS = {"verify", "why-missing"}
USER = "limited"


def operation_of(access: Access) -> AclOperation:
    words = "".join(f"_{c}" if c.isupper() else c.upper() for c in access.operation).lstrip("_")
    return AclOperation[words]


def allow(broker: SecuredBroker, accesses: Iterable[Access]) -> None:
    """These ACLs, and no others."""
    broker.revoke_all(USER)
    for access in accesses:
        prefixed = access.name.endswith("*")
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        resource = ResourceType[access.resource.upper().replace("-", "_")]
        broker.allow(USER, operation_of(access), access.name.rstrip("*"), resource, pattern)


@pytest.fixture(scope="module")
def limited(secured: SecuredBroker) -> Iterator[Settings]:
    secured.add_user(USER)
    for topic in ("visits", "clean", "clean-dead-letter", "sent"):
        create_topic(topic, 1, secured.admin.kafka)
    with RecordProducer(secured.admin.kafka) as producer:
        for value in (b"good", b"bad"):
            producer.send("visits", value, b"key")
    yield secured.login(USER, jobs={"create_topics": False})
    secured.revoke_all(USER)


def environment(settings: Settings) -> dict[str, str]:
    kafka = settings.kafka
    return {
        "HEADWATER_HOME": str(settings.home_dir),
        "KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "HEADWATER_KAFKA__SASL_MECHANISM": str(kafka.sasl_mechanism),
        "HEADWATER_KAFKA__USERNAME": str(kafka.username),
        "HEADWATER_KAFKA__PASSWORD": PASSWORD,
        "HEADWATER_KAFKA__CA_FILE": str(kafka.ca_file),
        "HEADWATER_KAFKA__TIMEOUT_SECONDS": "20",
    }


def archives(settings: Settings) -> Path:
    """A folder that only `archive status` knows: other commands would read archived records."""
    return settings.home_dir / "known-to-one-command"


def run(what: str, settings: Settings) -> tuple[Result, int]:
    """The result of a command, and its exit code."""
    variables = environment(settings)
    if what == "archive status":
        variables["HEADWATER_ARCHIVE__FOLDER"] = str(archives(settings))
    done = CliRunner().invoke(headwater, ARGUMENTS[what], input="{}\n", env=variables)
    error = done.exception
    return done, error.exit_code if isinstance(error, HeadwaterError) else done.exit_code


def grants_of(need: Need) -> list[Access]:
    other = OTHERS.get(need.what)
    return list(granted([need], {**NAMES, "TOPIC": other} if other else NAMES))


def copy(mode: str, settings: Settings, checkpoint: Path) -> None:
    """A record that is valid, and one that becomes a dead letter."""
    job = LineageJob(
        "clean", settings=settings, checkpoint=checkpoint, delivery=mode, accept=["duplicates"]
    )
    bad = F.when(F.col("value") == F.lit(b"bad"), error_of("bad", F.lit("bad")))
    rows = job.read("visits").withColumn(ERROR_COLUMN, bad.otherwise(no_error()))
    job.write(rows, "clean", trigger={"availableNow": True})


@pytest.mark.spark
@pytest.mark.parametrize("need", JOBS, ids=lambda need: need.what)
def test_a_job_runs_with_the_documented_permissions_of_its_delivery_mode(
    need: Need, spark: SparkSession, secured: SecuredBroker, limited: Settings, tmp_path: Path
) -> None:
    allow(secured, grants_of(need))
    admin = secured.admin.kafka
    before = [len(list(read_topic(topic, admin))) for topic in ("clean", "clean-dead-letter")]
    copy(need.what, limited, tmp_path / "checkpoint")
    after = [len(list(read_topic(topic, admin))) for topic in ("clean", "clean-dead-letter")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1]


def test_every_command_of_the_table_is_run() -> None:
    assert [need.what for need in COMMANDS] == list(ARGUMENTS)


ARCHIVING = need_of("jobs that write to tables, archives and the index")


@pytest.fixture(scope="module")
def written(limited: Settings, secured: SecuredBroker, spark: SparkSession) -> Settings:
    """The output of a job, and an archive of its input, each with the permissions of its row."""
    checkpoints = limited.home_dir / "checkpoints"
    allow(secured, grants_of(need_of("idempotent")))
    copy("idempotent", limited, checkpoints / "clean")
    # Not read by the job: of such a record, `why-missing` looks everywhere.
    with RecordProducer(secured.admin.kafka) as producer:
        producer.send("visits", b"later", b"key")
    allow(secured, grants_of(ARCHIVING))
    archive.main(
        ["--input-topic", "visits", "--available-now", "--quiet"],
        standalone_mode=False,
        obj=limited.model_copy(update={"archive": ArchiveSettings(folder=archives(limited))}),
    )
    return limited


def refused(what: str, settings: Settings, secured: SecuredBroker) -> bool:
    """Whether a command is refused, or does not show what it is asked for."""
    done, code = run(what, settings)
    if what == "topics create":
        # Created, but not seen.
        if find_topics(["created"], secured.admin.kafka):
            delete_topics(["created"], secured.admin.kafka)
    hidden = what == "topics list" and "visits" not in done.output
    hidden |= "not allowed" in done.output
    return code == AuthorizationError.exit_code or hidden


@pytest.mark.spark
@pytest.mark.parametrize("need", COMMANDS, ids=lambda need: need.what)
def test_a_command_runs_with_the_documented_permissions_and_needs_each_of_them(
    need: Need, secured: SecuredBroker, written: Settings
) -> None:
    grants = grants_of(need)
    for left_out in grants:
        allow(secured, [grant for grant in grants if grant != left_out])
        assert refused(need.what, written, secured), f"{left_out} is not needed"
    allow(secured, grants)
    done, code = run(need.what, written)
    # 1: the check found something, such as the copies of the jobs above.
    assert code in ({0, 1} if need.what in CHECKS else {0}), (done.output, done.exception)
    assert "not allowed" not in done.output


@pytest.mark.spark
def test_the_doctor_names_each_permission_that_a_job_lacks(
    secured: SecuredBroker, written: Settings
) -> None:
    grants = grants_of(need_of("idempotent"))
    allow(secured, grants)
    found = doctor(written)
    assert [each for each in found if not each["ok"]] == []
    texts = {each["name"]: each["text"] for each in found}
    assert texts["kafka"].endswith(f"SASL_SSL, as User:{USER}")
    assert re.match(r"visits: [1-9] records to read, none deleted before; ", texts["retention"])
    assert "1 replicas" in texts["replicas"]
    for left_out in grants:
        allow(secured, [grant for grant in grants if grant != left_out])
        failed = [each for each in doctor(written) if not each["ok"]]
        hints = " ".join(each["hint"] for each in failed)
        assert f"--operation {left_out.operation}" in hints, left_out
        assert f"--topic {left_out.name}" in hints, left_out


def doctor(settings: Settings) -> list[dict[str, Any]]:
    arguments = ["doctor", "--kafka", "--job", "clean", "--json"]
    done = CliRunner().invoke(headwater, arguments, env=environment(settings))
    results: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.exit_code == (0 if all(each["ok"] for each in results) else 1)
    return results
