"""Row lineage of jobs that are not written for it: two plain jobs, before and after one option.

The jobs run in their own processes, with `spark-submit`. Each run of the demo has its own topics
and checkpoints. They are not deleted and can be inspected.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from headwater.demo import plain_jobs
from headwater.demo.story import Story
from headwater.generator import generate
from headwater.jvm.installed import find_java, java_home_for_spark
from headwater.jvm.jars import session_jars
from headwater.kafka import RecordProducer, ensure_topic, list_topics, read_topic
from headwater.model import Address, Record
from headwater.model.header import LINEAGE
from headwater.model.local_files import state_folder
from headwater.service import up
from headwater.settings import Settings, child_environment
from headwater.spark.configuration import ROW_LINEAGE, python_of_spark
from headwater.spark.source import client_options
from headwater.tracing import trace, verify

_JOBS = Path(plain_jobs.__file__).parent
_VISITS = 300
_PARTITIONS = 2
# Each job takes some ten seconds; on a busy machine many times that.
_SECONDS = 400
_SHOWN = 6
_JARS = '--jars "$(headwater jars path kafka)"'
_OPTION = f"spark.sql.extensions={ROW_LINEAGE}"


@dataclass(frozen=True)
class _Topics:
    """The topics of one run of the demo."""

    prefix: str

    @property
    def visits(self) -> str:
        return f"{self.prefix}.visits"

    def pages(self, suffix: str = "") -> str:
        return f"{self.prefix}.visit-pages{suffix}"

    def counts(self, suffix: str = "") -> str:
        return f"{self.prefix}.visits-by-page{suffix}"


def run(story: Story) -> None:
    """Run the demo on the local broker or the configured one."""
    story.title("Unchanged: two plain Spark jobs get row lineage by one option of spark-submit")
    with story.step("Fetch the pinned jars") as step:
        jars = session_jars(("kafka",), story.settings, story.progress)
        step.result = f"{len(jars)} in {story.settings.jars_dir}"
    with story.step("Start a Kafka broker") as step:
        for state in up(["kafka"], story.settings, story.progress):
            step.result = f"{state.state} at {state.address}"
    topics = _new_topics(story.settings)
    visits = _generate(story, topics)
    submit = _Submit(story, topics, jars)
    # Not `and`: the second run shows whether the option is the reason of an error.
    succeeded = [
        submit.both("-before", {}, "as they are"),
        submit.both("", {"spark.sql.extensions": ROW_LINEAGE}, "again, with Headwater's extension"),
    ]
    if all(succeeded):
        _check(story, topics, visits)


def _new_topics(settings: Settings) -> _Topics:
    known = {topic.name for topic in list_topics(settings.kafka)}
    checkpoints = settings.home_dir / "checkpoints"
    names = (f"unchanged-{number}" for number in count(1))
    # Neither the broker nor the home may have topics or checkpoints of an earlier run.
    prefix = next(
        name
        for name in names
        if f"{name}.visits" not in known and not (checkpoints / name).exists()
    )
    return _Topics(prefix)


def _generate(story: Story, topics: _Topics) -> list[Record]:
    kafka = story.settings.kafka
    outputs = [of(suffix) for of in (topics.pages, topics.counts) for suffix in ("-before", "")]
    for topic in (topics.visits, *outputs):
        ensure_topic(topic, _PARTITIONS, kafka)
    with story.step(f"Generate visits into `{topics.visits}`") as step:
        with RecordProducer(kafka) as producer:
            for key, value in generate("visits", _VISITS, seed=7):
                producer.send(topics.visits, value, key)
        step.result = f"{producer.delivered} records on {_PARTITIONS} partitions"
    return list(read_topic(topics.visits, kafka))


class _Submit:
    """Submits the two jobs to Spark, as a user does."""

    def __init__(self, story: Story, topics: _Topics, jars: Sequence[Path]) -> None:
        self._story = story
        self._topics = topics
        settings = story.settings
        self._folder = state_folder(settings.home_dir, "checkpoints") / topics.prefix
        self._options = ["--master", "local[1]", "--jars", ",".join(map(str, jars))]
        for name, value in _configuration(settings).items():
            self._options += ["--conf", f"{name}={value}"]
        brokers = {"kafka.bootstrap.servers": settings.bootstrap_servers}
        self._environment = child_environment(
            JAVA_HOME=str(java_home_for_spark(find_java(settings), settings)),
            PYSPARK_PYTHON=python_of_spark(sys.executable),
            KAFKA_OPTIONS=json.dumps(brokers | client_options(settings)),
        )

    def both(self, suffix: str, configuration: Mapping[str, str], how: str) -> bool:
        """Run both jobs at once until all records are processed; returns whether they succeed."""
        sql = _JOBS / "visits_by_page.sql"
        pages, counts = self._topics.pages(suffix), self._topics.counts(suffix)
        commands = {
            "visit_pages.py": [str(_JOBS / "visit_pages.py"), self._topics.visits, pages],
            sql.name: [str(_JOBS / "sql_job.py"), str(sql), self._topics.visits, counts],
        }
        with self._story.step(f"Run the jobs {how}") as step:
            running = {
                name: self._start(command, configuration) for name, command in commands.items()
            }
            ended = {name: _end(process) for name, process in running.items()}
            written = (sum(1 for _ in self._read(topic)) for topic in (pages, counts))
            step.result = " and ".join(f"{number} records" for number in written)
        self._story.show(f"$ spark-submit {_JARS} \\", dim=True)
        if configuration:
            self._story.show(f"    --conf {_OPTION} \\", dim=True)
        self._story.show(f"    visit_pages.py …       # and: sql_job.py {sql.name} …", dim=True)
        for name, (code, log) in ended.items():
            if code:
                self._story.check(f"`{name}` runs", False, f"exit code {code}: {log[-2000:]}")
        return not any(code for code, _ in ended.values())

    def _read(self, topic: str) -> list[Record]:
        return list(read_topic(topic, self._story.settings.kafka))

    def _start(
        self, command: Sequence[str], configuration: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        chosen = [part for pair in configuration.items() for part in ("--conf", "=".join(pair))]
        return subprocess.Popen(
            [
                str(Path(_find_spark_home()) / "bin" / "spark-submit"),
                *self._options,
                *chosen,
                *command,
                str(self._folder / command[-1]),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment,
        )


def _configuration(settings: Settings) -> dict[str, str]:
    """What makes a short job on one machine start quickly; none of it concerns lineage."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": settings.spark.java_options,
        "spark.sql.shuffle.partitions": "2",
    }


def _end(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        log, _ = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        log, _ = process.communicate()
        return 1, f"not done after {_SECONDS} s: {log}"
    return process.returncode, log


def _check(story: Story, topics: _Topics, visits: Sequence[Record]) -> None:
    kafka = story.settings.kafka
    pages, counts = (list(read_topic(of(), kafka)) for of in (topics.pages, topics.counts))
    before = [list(read_topic(of("-before"), kafka)) for of in (topics.pages, topics.counts)]
    story.check(
        "before, the records had no lineage",
        all(before) and not any(each.header(LINEAGE) for each in [*before[0], *before[1]]),
    )
    story.check(
        "keys and values are the same before and after, in both outputs",
        [_contents(each) for each in before] == [_contents(each) for each in (pages, counts)],
    )
    if not pages or not counts:
        return
    _check_pages(story, pages, visits)
    _check_counts(story, counts, visits)
    for output in (topics.pages(), topics.counts()):
        report = verify(output, topics.visits, story.settings)
        story.check(
            f"`headwater verify {output} --source {topics.visits}` passes",
            report.missing == 0 and report.found == len(visits),
            f"{report.missing} of {report.expected} are missing",
        )


def _check_pages(story: Story, pages: Sequence[Record], visits: Sequence[Record]) -> None:
    """Compare the parents with the id and time that an output has of its visit."""
    sources = {_visit(each): {each.address} for each in visits}
    first = pages[0]
    with story.step(f"Trace one record: `headwater trace {first.address}`"):
        node = trace(first.address, story.settings)
    job = f"{node.job_name} {node.job_version}, batch {node.batch_version}"
    story.show(f"{first.address}  {job}  {(first.value or b'').decode()}")
    for parent in node.parents:
        story.show(f"└── {parent.address}  source record")
    story.check(
        f"each of the {len(pages)} records of visit_pages.py names exactly the visit it is made of",
        all(_parents(each, story) == sources[_visit(each)] for each in pages),
    )


def _check_counts(story: Story, counts: Sequence[Record], visits: Sequence[Record]) -> None:
    """Compare the parents of each page with the visits of that page."""
    sources: dict[str, set[Address]] = defaultdict(set)
    for each in visits:
        sources[json.loads(each.value or b"")["page"]].add(each.address)
    largest = max(counts, key=lambda each: json.loads(each.value or b"")["visits"])
    with story.step(f"Trace an aggregate: `headwater trace {largest.address}`") as step:
        parents = sorted(_parents(largest, story))
        step.result = f"{len(parents)} parents"
    story.show(f"{largest.address}  {(largest.value or b'').decode()}")
    for parent in parents[:_SHOWN]:
        story.show(f"├── {parent}  source record")
    story.show(f"└── … {len(parents) - _SHOWN} more")
    story.check(
        f"each of the {len(counts)} records of visits_by_page.sql names all visits of its page, "
        "and no others",
        all(
            _parents(each, story) == sources[json.loads(each.value or b"")["page"]]
            for each in counts
        ),
    )


def _parents(record: Record, story: Story) -> set[Address]:
    return {parent.address for parent in trace(record.address, story.settings, max_depth=1).parents}


def _visit(record: Record) -> tuple[str, str]:
    visit = json.loads(record.value or b"")
    return visit["visit_id"], visit["event_time"]


def _contents(records: Sequence[Record]) -> Counter[tuple[bytes | None, bytes | None]]:
    return Counter((each.key, each.value) for each in records)
