"""The jobs on a Spark cluster, with `spark-submit`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.catalog_support import Catalog
from tests.integration.test_batch_lineage import articles, write_csv
from tests.integration.test_stream_write_raw import article, send
from tests.lines.environments import needs_iceberg
from tests.submitted import BIN, EXTENSION
from tests.support import environment
from tests.unchanged import Records, true_parents
from tests.waiting import wait_until

import headwater
from headwater.jobs import stream_write_raw_with_lineage
from headwater.jvm.installed import find_java, java_home_for_spark
from headwater.jvm.jars import session_jars
from headwater.kafka import read_topic
from headwater.model import JobOutput
from headwater.settings import Settings
from headwater.storage.checkpoint import read_identity
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import KnownTable
from headwater.testing.fixtures import TopicMaker
from headwater.testing.ports import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.spark, needs_iceberg]

PLAIN_JOB = Path(__file__).parents[1] / "plain_job.py"
TABLE = "demo.cluster.articles_raw"
START_SECONDS = 60
NEURONEWS = Path(__file__).parents[2] / "examples" / "neuronews"

# A user's job, with the import of the examples.
OWN_JOB = """
import json
from jobs.spark.openlineage_config import add_lineage_metadata, create_spark_session_with_lineage
from headwater.jobs.batch_write_raw_with_lineage import write_articles

spark = create_spark_session_with_lineage(
    app_name="BatchWriteRawWithLineage",
    additional_configs={"spark.sql.adaptive.enabled": "true"},
)
add_lineage_metadata(spark, job_type="batch", source_system="files", target_system="iceberg")
keys = ("extraListeners", "openlineage.transport.type", "openlineage.transport.url",
        "openlineage.namespace", "sql.adaptive.enabled")
print(json.dumps([spark.sparkContext.getConf().get(f"spark.{key}") for key in keys]))
write_articles(spark)
"""


@dataclass(frozen=True)
class Cluster:
    """A master and two workers in separate processes."""

    address: str
    environment: dict[str, str]

    def submit(
        self,
        job: str | Path,
        jars: list[Path],
        *options: str,
        configuration: Mapping[str, str] | None = None,
    ) -> str:
        """Run a job and return its output."""
        command = [str(BIN / "spark-submit"), "--master", self.address]
        command += ["--jars", ",".join(map(str, jars))]
        command += ["--executor-memory", "512m", "--executor-cores", "1"]
        command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
        # As set by a scheduler.
        command += ["--conf", "spark.openlineage.parentJobName=nightly"]
        for name, value in (configuration or {}).items():
            command += ["--conf", f"{name}={value}"]
        command += ["--conf", "spark.sql.shuffle.partitions=2", str(job), *options]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env=self.environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        return done.stdout


@pytest.fixture(scope="module")
def cluster(
    broker: Settings, catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port, page = free_port(), free_port()
    variables = environment(
        broker,
        MARQUEZ_URL=catalog.url,
        JAVA_HOME=str(java_home_for_spark(find_java(broker), broker)),
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_DAEMON_MEMORY="256m",
        SPARK_WORKER_DIR=str(folder / "work"),
        HEADWATER_LINEAGE__SPOOL=str(folder / "spool"),
        # The jobs use the tested code, also if another checkout is installed.
        PYTHONPATH=os.pathsep.join((str(NEURONEWS), str(Path(headwater.__file__).parents[1]))),
        SCRAPED_DATA_PATH=f"{folder}/scraped/*.csv",
        ICEBERG_TABLE=TABLE,
    )
    address = f"spark://127.0.0.1:{port}"
    master = ["Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    worker = ["Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "600m"]
    worker += ["--webui-port", "0", address]
    started = []
    try:
        for number, (kind, *options) in enumerate((master, worker, worker)):
            module = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
            with (folder / f"{number}.log").open("w") as log:
                process = subprocess.Popen(
                    [str(BIN / "spark-class"), module, *options],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=variables,
                    cwd=folder,
                    start_new_session=True,
                )
            started.append(process)
            if kind == "Master":
                _wait_for_workers(page, 0, folder)
        _wait_for_workers(page, 2, folder)
        yield Cluster(address, variables)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for_workers(page: int, number: int, folder: Path) -> None:
    def are_alive() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as response:
                return int(json.load(response)["aliveworkers"]) >= number
        except OSError:
            return False

    wait_until(
        are_alive,
        START_SECONDS,
        f"a cluster with {number} workers",
        lambda: "".join(path.read_text() for path in folder.glob("*.log")),
        pause_seconds=0.2,
    )


@pytest.mark.timeout(400)
def test_both_jobs_run_on_a_cluster_of_two_workers_and_report_to_the_catalog(
    cluster: Cluster, broker: Settings, catalog: Catalog, make_topic: TopicMaker, tmp_path: Path
) -> None:
    rows = articles(30)
    folder = Path(cluster.environment["SCRAPED_DATA_PATH"]).parent
    write_csv(folder / "a.csv", rows[:15])
    write_csv(folder / "b.csv", rows[15:])
    (tmp_path / "own_job.py").write_text(OWN_JOB)
    printed = cluster.submit(
        tmp_path / "own_job.py", session_jars(("kafka", "delta", "iceberg", "openlineage"), broker)
    )
    listener, *others = json.loads(printed.strip().splitlines()[-1])
    assert listener == "io.openlineage.spark.agent.OpenLineageSparkListener"
    assert others == ["http", catalog.url, "neuronews", "true"]
    topic = make_topic("articles", partitions=2)
    send(topic, broker, article(1, "one"), article(2, "two"), article(1, "one, corrected"))
    stream = stream_write_raw_with_lineage
    cluster.submit(
        Path(stream.__file__),
        session_jars(("kafka", "iceberg"), broker),
        *("--input-topic", topic, "--available-now"),
        *("--checkpoint", str(tmp_path / "checkpoint")),
    )

    location = broker.home_dir / "warehouse" / "cluster" / "articles_raw"
    table = LineageTable(KnownTable(TABLE, str(location)))
    names = ("BatchWriteRawWithLineage", stream.NAME)
    assert [table.find({}, JobOutput(name)).made for name in names] == [len(rows), 2]
    for name, kind, source in (
        (names[0], "BATCH", f"{folder}/a.csv"),
        (names[1], "STREAM", topic),
    ):
        job = catalog.get(f"/namespaces/neuronews/jobs/{name}")
        assert (job["type"], job["latestRun"]["state"]) == (kind, "COMPLETED")
        assert job["parentJobName"] == "nightly"
        assert source in [each["name"] for each in job["inputs"]]
        dead_letters = [f"{topic}-dead-letter"] if kind == "STREAM" else []
        assert [each["name"] for each in job["outputs"]] == [TABLE, *dead_letters]


# The records that each query of the plain job writes for 200 records in two batches.
WRITTEN = {
    "copied": 200,
    "deduplicated": 10,
    "in_batches": 20,
    "in_pandas": 200,
    # The rows of odd numbers have no match: those after the watermark are not written.
    "joined": 198,
    "windowed": 90,
}


@pytest.mark.timeout(400)
def test_a_plain_job_on_a_cluster_has_exact_parents_also_after_a_shuffle(
    cluster: Cluster, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    left, right, records = make_topic("in"), make_topic("other"), Records(broker)
    records.fill(left, 200)
    records.fill(right, 200, first=1000)
    outputs = {name: make_topic(name) for name in WRITTEN}
    cluster.submit(
        PLAIN_JOB,
        session_jars(("kafka",), broker),
        *(broker.bootstrap_servers, str(tmp_path), "100"),
        *(f"{name}:{left}:{right}:{output}" for name, output in outputs.items()),
        configuration=EXTENSION,
    )
    for name, output in outputs.items():
        found = list(read_topic(output, broker.kafka))
        assert len(found) == WRITTEN[name], name
        for record in found:
            parents, true = records.parents(record), true_parents(record)
            assert parents is not None
            assert parents.exact == (name != "in_pandas"), record
            assert all(records.is_within(number, parents) for number in true), record
            assert parents.ranges or parents.numbers == true, record


# Names no delivery mode.
OWN_STREAM = """
import sys
from pathlib import Path
from headwater import LineageJob

source, target, checkpoint = sys.argv[1:]
job = LineageJob("own_stream", checkpoint=Path(checkpoint))
rows = job.read(source).select("key", "value")
job.write(rows, target, trigger={"availableNow": True})
"""


@pytest.mark.timeout(400)
def test_a_job_on_a_cluster_that_names_no_delivery_mode_is_transactional(
    cluster: Cluster, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target, checkpoint = make_topic("in"), make_topic("out"), tmp_path / "checkpoint"
    Records(broker).fill(source, 20)
    script = tmp_path / "own_stream.py"
    script.write_text(OWN_STREAM)
    cluster.submit(script, session_jars(("kafka",), broker), source, target, str(checkpoint))
    identity = read_identity(checkpoint)
    assert identity is not None
    assert identity.delivery == "transactional"
    assert len(list(read_topic(target, broker.kafka))) == 20
