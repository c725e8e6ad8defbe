"""Events conform to OpenLineage: checked against the classes generated from its schemas."""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
import uuid
from datetime import UTC, datetime
from typing import Any

import attr
import pytest
from openlineage.client import generated

from headwater.errors import InputError
from headwater.openlineage import (
    LineageRun,
    facets,
    file_location,
    kafka_topic,
    lineage_facet,
)
from headwater.openlineage.events import DatasetName, Event
from headwater.openlineage.run import Redactor
from headwater.openlineage.tables import delta_table, iceberg_table
from headwater.settings import load
from headwater.settings.kafka_security import java_properties

RUN_ID = str(uuid.uuid5(uuid.NAMESPACE_URL, "run"))


def official_classes() -> dict[str, type[Any]]:
    """Schema URL -> class."""
    classes = {}
    for module in pkgutil.iter_modules(generated.__path__):
        loaded = importlib.import_module(f"openlineage.client.generated.{module.name}")
        for each in vars(loaded).values():
            if isinstance(each, type) and attr.has(each) and hasattr(each, "_get_schema"):
                classes[each._get_schema()] = each
    return classes


OFFICIAL = official_classes()


def build(kind: Any, value: Any) -> Any:
    """Create an object of a class from JSON; missing and unknown fields are errors."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        return build(kinds[0], value)
    if origin is list:
        return [build(typing.get_args(kind)[0], each) for each in value]
    if origin is dict:
        return {key: build(typing.get_args(kind)[1], each) for key, each in value.items()}
    if isinstance(kind, type) and attr.has(kind):
        module = importlib.import_module(kind.__module__)
        hints = typing.get_type_hints(kind, {**vars(typing), **vars(module)})
        return kind(**{key: build(hints[key], each) for key, each in value.items()})
    if kind in (str, int, bool):
        assert isinstance(value, kind), f"{value!r} is not of type {kind.__name__}"
    return value


def check_facet(facet: Any) -> None:
    fields = dict(facet)
    assert fields.pop("_producer").startswith("https://headwater.dev/")
    url = fields.pop("_schemaURL")
    if "openlineage.io/spec/facets" in url:
        build(OFFICIAL[url], fields)


def all_facets() -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    identity = {"type": "DIRECT", "subtype": "IDENTITY", "description": "", "masking": False}
    field = {"namespace": "n", "name": "d", "field": "f", "transformations": [identity]}
    return [
        facets.schema([{"name": "a", "type": "struct", "fields": [{"name": "b", "type": "int"}]}]),
        facets.column_lineage({"a": {"inputFields": [field]}}, [field]),
        facets.symlinks([("file", "/tmp/t", "LOCATION")]),
        facets.data_source("kafka://a:1", "kafka://a:1"),
        facets.storage("delta", "parquet"),
        facets.job_type("STREAMING", interval=60),
        facets.job_type("BATCH"),
        facets.ownership(["team:web"]),
        facets.documentation("what it does"),
        facets.source_code_location("https://example.com/x.git", "jobs/a.py", "v1"),
        facets.tags("Job", {"environment": "test"}),
        facets.tags("Run", {"a": "b"}),
        facets.tags("Dataset", {"a": "b"}),
        facets.error_message("broken", "trace"),
        facets.processing_engine("spark", "4.1.3", "1"),
        facets.parent(RUN_ID, "n", "dag"),
        facets.nominal_time(now, now),
        facets.input_statistics(3, 4, 5),
        facets.output_statistics(3),
        *delta_table("/tmp/t")["facets"].values(),
        *iceberg_table("demo.news.x", "file:/tmp/w/news/x")["facets"].values(),
    ]


@pytest.mark.parametrize("facet", all_facets(), ids=lambda f: f["_schemaURL"].rpartition("/")[2])
def test_every_standard_facet_conforms_to_its_schema(facet: dict[str, Any]) -> None:
    check_facet(facet)


def test_a_facet_with_a_wrong_field_is_detected() -> None:
    with pytest.raises((KeyError, TypeError)):
        check_facet(facets.official("StorageDatasetFacet", "1-0-1", storage="delta"))


def new_run(events: list[Event], **lineage: Any) -> LineageRun:
    settings = load(lineage=lineage)
    return LineageRun.from_settings(settings, events.append, "job", RUN_ID)


def test_an_error_without_an_available_message_fails_the_run() -> None:
    class ErrorOfExitedJvm(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError("py4j")

    events: list[Event] = []
    run = new_run(events)
    run.start()
    run.fail(ErrorOfExitedJvm())
    assert events[-1]["eventType"] == "FAIL"
    message = events[-1]["run"]["facets"]["errorMessage"]["message"]
    assert message.startswith("ErrorOfExitedJvm: ")


def test_events_are_cumulative_and_a_run_ends_once() -> None:
    events: list[Event] = []
    run = new_run(events, team="web", project="site", parent_job="dag", namespace="tests")
    visits, out = kafka_topic("localhost:9092", "visits"), kafka_topic("localhost:9092", "out")
    schema = facets.schema([{"name": "value", "type": "binary"}])
    run.start([visits.dataset()], [out.dataset({"schema": schema})])
    run.add_run_facet("headwater_offsets", facets.offset_ranges(3, [], []), once=True)
    run.add_output_facet(out, "outputStatistics", facets.output_statistics(9))
    run.add_dataset_facet(visits, "schema", schema)
    run.running()
    run.complete()
    run.fail("too late")

    assert [event["eventType"] for event in events] == ["START", "RUNNING", "COMPLETE"]
    start, running, complete = events
    for event in events:
        base = OFFICIAL[event["schemaURL"]]
        assert {each.name for each in attr.fields(base)} >= set(event) - {"schemaURL"}
        assert [each["name"] for each in (*event["inputs"], *event["outputs"])] == ["visits", "out"]
        assert event["outputs"][0]["facets"]["schema"] == schema
        parent = event["run"]["facets"]["parent"]
        assert parent["job"] == {"namespace": "tests", "name": "dag"}
        for part in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
            for facet in {**part["facets"], **part.get("outputFacets", {})}.values():
                check_facet(facet)
    assert "headwater_offsets" in running["run"]["facets"]
    assert "headwater_offsets" not in complete["run"]["facets"]
    assert complete["inputs"][0]["facets"]["schema"] == schema
    assert complete["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 9
    assert start["eventTime"] < running["eventTime"] < complete["eventTime"]
    assert start["eventTime"].endswith("Z")


def test_an_error_is_reported_without_secrets() -> None:
    events: list[Event] = []
    settings = load(
        kafka={"client": {"sasl.password": "hunter22", "sasl.username": "ada"}},
        catalog={"api_key": "hw_topsecret"},
    )
    run = LineageRun.from_settings(settings, events.append, "job", RUN_ID)
    try:
        raise RuntimeError(
            "login of ada with hunter22 at postgres://me:pa55word@db/x failed; "
            'ssl.key.password="other1", Authorization: Bearer abcdef123456; key hw_topsecret'
        )
    except RuntimeError as error:
        run.fail(error)
    facet = events[0]["run"]["facets"]["errorMessage"]
    assert facet["message"].startswith(
        "RuntimeError: login of ada with *** at postgres://me:***@db"
    )
    for secret in ("hunter22", "pa55word", "other1", "abcdef123456", "hw_topsecret"):
        assert secret not in str(events), secret
    assert "test_an_error_is_reported_without_secrets" in facet["stackTrace"]


@pytest.mark.parametrize(
    "text",
    [
        'rows.write.option("password", "hunter22").save()',
        "rows.write.option('user_password','hunter22')",
        "Sasl.Password = hunter22;",
        "jdbc:postgresql://me:hunter22@db/lake?ssl=1",
        "{'api.key': 'hunter22', 'id': 1}",
    ],
)
def test_texts_that_look_like_secrets_are_redacted(text: str) -> None:
    assert "hunter22" not in Redactor()(text)


def test_a_password_of_kafka_is_redacted_as_it_is_and_as_a_jaas_line_has_it() -> None:
    password = 'one"two\\three'
    login = {"sasl_mechanism": "PLAIN", "username": "ann", "password": password}
    line = java_properties(load(kafka=login).kafka, {})["sasl.jaas.config"]
    for settings in (load(kafka=login), load(spark={"kafka_options": {"sasl.jaas.config": line}})):
        redacted = Redactor.from_settings(settings)(f"{password} and {line}")
        assert not any(part in redacted for part in ("one", "two", "three"))


@pytest.mark.parametrize("part", ["x", "a/b+", "password", "://", "token='", 'secret "', "basic "])
def test_a_long_text_without_spaces_is_redacted_quickly(part: str) -> None:
    events: list[Event] = []
    run = LineageRun(events.append, "tests", "job", RUN_ID)
    run.start()
    # With unbounded patterns this takes hours.
    run.fail(ValueError(part * 1_000_000))
    assert len(events[-1]["run"]["facets"]["errorMessage"]["message"]) <= facets.MAX_TEXT
    Redactor()(part * 20_000)


@pytest.mark.parametrize(
    "fields", [{"at": datetime.now(UTC)}, {"share": float("nan")}, {"of": {1, 2}}, "text"]
)
def test_a_facet_that_can_not_be_written_as_json_is_rejected(fields: Any) -> None:
    with pytest.raises(InputError, match="can't be written as JSON"):
        facets.custom(fields, "job")


def test_custom_facets_come_from_settings_and_from_functions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[Event] = []

    @lineage_facet("acme_release")
    def release(run: LineageRun) -> dict[str, Any]:
        return {"ticket": f"REL-{run.job_name}"}

    @lineage_facet("acme_broken", on="job")
    def broken(run: LineageRun) -> dict[str, Any]:
        raise ValueError("no network")

    try:
        run = new_run(events, job_facets={"acme_cost": {"centre": 17}})
        run.start()
    finally:
        facets._facet_functions.clear()
    job, run_facets = events[0]["job"]["facets"], events[0]["run"]["facets"]
    assert job["acme_cost"]["centre"] == 17
    assert job["acme_cost"]["_schemaURL"].endswith("#/$defs/JobFacet")
    assert run_facets["acme_release"]["ticket"] == "REL-job"
    assert "acme_broken" not in job
    assert caplog.messages == ["facet 'acme_broken' could not be created: ValueError: no network"]
    with pytest.raises(InputError, match="invalid facet name"):
        lineage_facet("has blanks")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (kafka_topic("b1:9092,b2:9092", "visits"), ("kafka://b1:9092", "visits")),
        (kafka_topic("b2:9092, b1:9092", "visits"), ("kafka://b1:9092", "visits")),
        (kafka_topic("SSL://b2:9092,SSL://b1:9092", "visits"), ("kafka://b1:9092", "visits")),
        (kafka_topic("PLAINTEXT://b1:9092", "visits"), ("kafka://b1:9092", "visits")),
        (file_location("/data/x/"), ("file", "/data/x")),
        (file_location("file:///data/x"), ("file", "/data/x")),
        (file_location("s3a://bucket/a/b"), ("s3://bucket", "a/b")),
        (file_location("hdfs://nn:8020/a/b"), ("hdfs://nn:8020", "/a/b")),
        (file_location("file:/data/a#1.csv"), ("file", "/data/a#1.csv")),
        (file_location("s3a://bucket/a?b#c"), ("s3://bucket", "a?b#c")),
    ],
)
def test_datasets_have_the_names_that_openlineage_specifies(
    named: DatasetName, expected: tuple[str, str]
) -> None:
    assert named == expected


def test_there_is_no_thread_and_no_file_without_events(tmp_path: Any) -> None:
    import threading

    from headwater.openlineage import Emitter

    before = threading.active_count()
    assert Emitter.from_settings(load(home=tmp_path, lineage={"enabled": False})) is None
    idle = Emitter.from_settings(load(home=tmp_path))
    assert idle is not None
    assert (threading.active_count(), list(tmp_path.iterdir())) == (before, [])
    assert idle.close()
