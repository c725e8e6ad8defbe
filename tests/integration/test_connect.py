"""Row lineage of plain clients of Spark Connect: the rule runs on the server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.connect import APPLICATION, JOB, ConnectServer, connect_server
from tests.unchanged import Parents, Records, true_parents, values

from headwater.kafka import create_topic, read_topic
from headwater.kafka.runs import KafkaRuns
from headwater.model import Record
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

TOPIC, RECORDS = "connect-records", 120
# foreachBatch is started before others load the machine: Spark gives its process ten seconds.
EXACT = ("in_batches", "copied", "windowed", "in_sql", "with_udf", "unnamed")
QUERIES = (*EXACT, "in_pandas", "checkpointed")
ON, OFF = "with", "without"

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "row-lineage.md").read_text()

# A client that uses Headwater's Python API.
API_CLIENT = """
import json, sys
import headwater
from headwater import *
from pyspark.sql import SparkSession, functions as F

if len(sys.argv) > 1:
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    rows, lineage = spark.range(3), F.col("lineage")
    settings = headwater.Settings()
    calls = {
        "LineageJob": lambda: LineageJob("job", spark=spark),
        "LineageJob without a session": lambda: LineageJob("job"),
        "track_streaming": lambda: track_streaming(spark),
        "with_row_lineage": lambda: with_row_lineage(rows),
        "merge_lineage": lambda: merge_lineage(lineage),
        "add_lineage_metadata": lambda: add_lineage_metadata(spark),
        "CostMeter": lambda: CostMeter(spark, "run", settings),
        "Quality": lambda: Quality("rows").measure(rows),
    }
else:
    calls = {"SPARK_REMOTE": lambda: create_spark_session_with_lineage("job")}
errors = {}
for name, call in calls.items():
    try:
        call()
    except Exception as error:
        errors[name] = [type(error).__name__, str(error), getattr(error, "hint", None)]
print(json.dumps(errors))
"""


@dataclass(frozen=True)
class Outputs:
    """The records of all queries, by client and query."""

    ledger: Records
    found: dict[tuple[str, str], list[Record]]


@pytest.fixture(scope="module")
def server(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(broker, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def outputs(
    server: ConnectServer, broker: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Outputs:
    """Two clients of the server: the first switches row lineage off in its session."""
    ledger, folder = Records(broker), tmp_path_factory.mktemp("clients")
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, RECORDS)
    found = {}
    for client, settings in ((OFF, ["spark.headwater.lineage.enabled=false"]), (ON, [])):
        topics = {query: f"connect-{client}-{query}" for query in QUERIES}
        for topic in topics.values():
            create_topic(topic, 2, broker.kafka)
        queries = [f"{query}:{topic}" for query, topic in topics.items()]
        place = [broker.bootstrap_servers, str(folder / client), TOPIC]
        server.run(str(JOB), server.remote, *place, *settings, *queries)
        for query, topic in topics.items():
            found[client, query] = list(read_topic(topic, broker.kafka))
    return Outputs(ledger, found)


@pytest.mark.parametrize("query", EXACT)
def test_rows_of_a_connect_client_have_exact_parents(outputs: Outputs, query: str) -> None:
    records = outputs.found[ON, query]
    assert len(records) >= RECORDS // 3
    for record in records:
        parents = outputs.ledger.parents(record)
        assert parents is not None, record
        assert parents.exact, record
        assert parents.numbers == true_parents(record), record


def test_rows_of_map_in_pandas_have_ranges_that_contain_their_parents(outputs: Outputs) -> None:
    records = outputs.found[ON, "in_pandas"]
    assert len(records) == RECORDS
    for record in records:
        parents = outputs.ledger.parents(record)
        assert parents is not None, record
        assert parents.ranges, record
        assert not parents.unknown, record
        (number,) = true_parents(record)
        assert outputs.ledger.is_within(number, parents), record


def test_rows_that_foreach_batch_has_checkpointed_have_unknown_parents(outputs: Outputs) -> None:
    records = outputs.found[ON, "checkpointed"]
    assert len(records) == 2 * RECORDS
    unknown = Parents(frozenset(), (), True)
    assert {outputs.ledger.parents(record) for record in records} == {unknown}


@pytest.mark.parametrize("query", QUERIES)
def test_a_session_switches_row_lineage_off_for_itself_and_values_are_the_same(
    outputs: Outputs, query: str
) -> None:
    without = outputs.found[OFF, query]
    assert all(not record.headers for record in without)
    assert values(outputs.found[ON, query]) == values(without)


def test_the_job_is_named_after_the_query_or_else_after_the_server(
    outputs: Outputs, broker: Settings
) -> None:
    runs = KafkaRuns(broker.kafka)
    names = {}
    for query in QUERIES:
        header = outputs.found[ON, query][0].header("lineage")
        assert header is not None
        run = runs.find(header.decode().split()[1])
        assert run is not None
        names[query] = run.job_name
    assert names == {query: query for query in QUERIES} | {"unnamed": APPLICATION}


def test_the_python_api_refuses_a_client_of_spark_connect_at_once(server: ConnectServer) -> None:
    found = server.run("-c", API_CLIENT, server.remote)
    found_in_environment = server.run("-c", API_CLIENT, SPARK_REMOTE=server.remote)
    errors = {
        **json.loads(found.splitlines()[-1]),
        **json.loads(found_in_environment.splitlines()[-1]),
    }
    assert len(errors) == 9
    for call, (kind, message, hint) in errors.items():
        assert kind == "InputError", (call, message)
        assert "belongs to Spark Connect" in message, call
        assert "docs/concepts/row-lineage.md#spark-connect" in hint, call
    assert "\n## Spark Connect\n" in (DOCS / "concepts" / "row-lineage.md").read_text()


def test_the_job_of_the_guide_is_a_client_without_a_change(
    server: ConnectServer, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    found = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    ledger, source, output = Records(broker), make_topic("in"), make_topic("out")
    ledger.fill(source, RECORDS)
    program = found[1]
    for text, replaced in {
        "localhost:9092": broker.bootstrap_servers,
        '"visits"': f'"{source}"',
        '"page-counts"': f'"{output}"',
        "$.page": "$.k",
        '"checkpoints/': f'"{tmp_path}/',
    }.items():
        assert text in program
        program = program.replace(text, replaced)
    server.run("-c", program, SPARK_REMOTE=server.remote)
    records = list(read_topic(output, broker.kafka))
    assert len(records) == 10
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert record.key is not None
        assert parents.numbers == set(range(int(record.key), RECORDS, 10))
        assert record.value == str(len(parents.numbers)).encode()
