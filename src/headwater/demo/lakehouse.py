"""Dataset lineage: a batch job and a streaming job write to one Iceberg table.

Each step is checked over HTTP against the catalog. The table may contain a user's rows: the demo
checks only its own articles, and can be repeated.
"""

from __future__ import annotations

import csv
import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headwater.demo.stack import start_broker
from headwater.demo.story import Story
from headwater.errors import HeadwaterError
from headwater.generator import KINDS, generate
from headwater.jobs import batch_write_raw_with_lineage, stream_write_raw_with_lineage
from headwater.jobs.articles import FIELDS, TABLE, article_settings
from headwater.kafka import RecordProducer, end_offsets, ensure_topic
from headwater.model.local_files import state_folder
from headwater.openlineage.transport import CatalogClient
from headwater.service import up
from headwater.service.catalog_client import get_json
from headwater.spark.session import create_session

_TOPIC = KINDS["articles"].topic
_ARTICLES = 200
_NAMESPACE_NOTE = "NeuroNews pipeline"


class _Catalog:
    """A client of the lineage service."""

    def __init__(self, story: Story) -> None:
        self._settings = story.settings
        self.url = story.settings.catalog_url

    def get(self, path: str) -> Any:
        """The JSON of a successful response, or an empty object."""
        try:
            return get_json(self._settings, f"/api/v1{path}")
        except HeadwaterError:
            return {}

    def put(self, path: str, body: Mapping[str, Any]) -> int:
        client = CatalogClient.from_settings(self._settings)
        try:
            return client.request("PUT", f"/api/v1{path}", json.dumps(body).encode()).status
        finally:
            client.close()


def run(story: Story) -> None:
    """Run the demo on the local services or the configured ones."""
    story.title("Lakehouse: Spark jobs write an Iceberg table, and the catalog shows their inputs")
    _start_services(story)
    catalog = _Catalog(story)
    _make_namespace(story, catalog)
    _run_batch_job(story, catalog)
    _run_streaming_job(story, catalog)
    _validate(story, catalog)
    _show_access(story, catalog)


def _start_services(story: Story) -> None:
    start_broker(story)
    settings = story.settings
    if settings.catalog.url is None:
        with story.step("Start the lineage service") as step:
            for state in up(["catalog"], settings, story.progress):
                step.result = f"{state.state} at {state.address}"
    health = _Catalog(story).get("/health")
    story.check("the lineage service and its database respond", bool(health), "no response")


def _make_namespace(story: Story, catalog: _Catalog) -> None:
    name = _namespace(story)
    with story.step(f"Create the namespace `{name}`") as step:
        body = {"name": name, "description": _NAMESPACE_NOTE}
        step.result = f"PUT returns {catalog.put(f'/namespaces/{quote(name)}', body)}"
    namespace = catalog.get(f"/namespaces/{quote(name)}")
    story.check("the catalog has it", namespace.get("name") == name, str(namespace))


def _run_batch_job(story: Story, catalog: _Catalog) -> None:
    folder = state_folder(story.settings.home_dir, "demo")
    file = _write_csv(folder / "scraped" / "articles.csv")
    before = _latest_run(story, catalog, batch_write_raw_with_lineage.NAME)
    with story.step("Run `batch_write_raw_with_lineage`") as step:
        batch_write_raw_with_lineage.main.main(
            ["--files", str(file), "--quiet"],
            standalone_mode=False,
            obj=story.settings,
        )
        step.result = f"{_ARTICLES} articles of {file.name} in `{_table(story)}`"
    _check_rows(story, "scraped-%", "each article of the file is in the table, once")
    job = _check_job(story, catalog, batch_write_raw_with_lineage.NAME, "BATCH", before)
    names = [each["name"] for each in job.get("inputs", ())]
    story.check("its input is the file", str(file) in names, str(names))


def _run_streaming_job(story: Story, catalog: _Catalog) -> None:
    settings = story.settings
    ensure_topic(_TOPIC, KINDS["articles"].partitions, settings.kafka)
    records = sum(end_offsets(_TOPIC, settings.kafka).values())
    with story.step(f"Generate articles into `{_TOPIC}`") as step:
        with RecordProducer(settings.kafka) as producer:
            for key, value in generate("articles", _ARTICLES, seed=records):
                producer.send(_TOPIC, value, key)
            producer.send(_TOPIC, b"{........", b"no article")
        step.result = f"{producer.delivered} records, one of them malformed"
    before = _latest_run(story, catalog, stream_write_raw_with_lineage.NAME)
    with story.step("Run `stream_write_raw_with_lineage` until all records are processed"):
        stream_write_raw_with_lineage.main.main(
            ["--input-topic", _TOPIC, "--available-now", "--quiet"],
            standalone_mode=False,
            obj=settings,
        )
    _check_rows(story, "article-%", "each article of the topic is in the table, once")
    job = _check_job(story, catalog, stream_write_raw_with_lineage.NAME, "STREAM", before)
    inputs = [each["name"] for each in job.get("inputs", ())]
    story.check("its input is the topic", inputs == [_TOPIC], str(inputs))
    run = (job.get("latestRun") or {}).get("facets", {})
    read = [each["topic"] for each in run.get("headwater_offsets", {}).get("inputs", ())]
    story.check("its run lists the offsets that it read", _TOPIC in read, str(run.keys()))


def _namespace(story: Story) -> str:
    return article_settings(story.settings).lineage.namespace


def _table(story: Story) -> str:
    return TABLE.value(None, story.settings)


def _job(story: Story, catalog: _Catalog, name: str) -> dict[str, Any]:
    namespace = quote(_namespace(story))
    job: dict[str, Any] = catalog.get(f"/namespaces/{namespace}/jobs/{name}")
    return job


def _latest_run(story: Story, catalog: _Catalog, name: str) -> str | None:
    """The latest run in the catalog before the demo's, perhaps of an earlier demo."""
    return (_job(story, catalog, name).get("latestRun") or {}).get("id")


def _check_job(
    story: Story, catalog: _Catalog, name: str, kind: str, before: str | None
) -> dict[str, Any]:
    table = _table(story)
    namespace = quote(_namespace(story))
    job = _job(story, catalog, name)
    run = job.get("latestRun") or {}
    story.show(f"GET /api/v1/namespaces/{namespace}/jobs/{name}", dim=True)
    story.check(
        f"the catalog has the job `{name}` of type {kind}, with this run, completed",
        job.get("type") == kind
        and run.get("state") == "COMPLETED"
        and run.get("id") not in (None, before),
        f"type {job.get('type')}, state {run.get('state')}, run {run.get('id')} after {before}",
    )
    outputs = [each["name"] for each in job.get("outputs", ())]
    story.check(f"its output is `{table}`", table in outputs, str(outputs))
    return job


def _check_rows(story: Story, ids: str, claim: str) -> None:
    spark = create_session("headwater-demo", story.settings)
    rows = spark.table(_table(story)).where(f"id LIKE '{ids}'")
    total, distinct = rows.count(), rows.select("id").distinct().count()
    # Earlier runs of the demo may have added more articles.
    story.check(claim, total == distinct >= _ARTICLES, f"{total} rows, {distinct} ids")


def _validate(story: Story, catalog: _Catalog) -> None:
    namespace = quote(_namespace(story))
    with story.step("Read the table and its lineage from the catalog") as step:
        name = _table(story)
        table = catalog.get(f"/namespaces/{namespace}/datasets/{name}")
        node = quote(f"dataset:iceberg:{name}", safe="")
        graph = catalog.get(f"/lineage?nodeId={node}&depth=2").get("graph", [])
        step.result = f"{len(graph)} nodes"
    fields = [field["name"] for field in table.get("fields", ())]
    story.check("the table has the columns of an article", fields[: len(FIELDS)] == list(FIELDS))
    story.check(
        "its source is Iceberg, its physical name the table's name",
        (table.get("sourceName"), table.get("physicalName")) == ("iceberg", name),
        f"{table.get('sourceName')}, {table.get('physicalName')}",
    )
    columns = {each["name"] for each in table.get("columnLineage") or ()}
    story.check("its columns lead to input columns", set(FIELDS) <= columns, str(columns))
    nodes = {node["id"] for node in graph}
    jobs = {
        f"job:{_namespace(story)}:{job.NAME}"
        for job in (batch_write_raw_with_lineage, stream_write_raw_with_lineage)
    }
    story.check("its graph contains both jobs", jobs <= nodes, str(jobs - nodes))
    runs = catalog.get("/jobs/runs").get("runs", [])
    failed = [run["id"] for run in runs if run["state"] == "FAILED"]
    story.show(f"{len(runs)} runs in the catalog, {len(failed)} of them failed", dim=True)


def _show_access(story: Story, catalog: _Catalog) -> None:
    if story.settings.catalog.url is not None:
        story.show(f"the configured service: {catalog.url}")
        return
    page = f"http://localhost:{story.settings.catalog.page_port}"
    with story.step("Open the page") as step:
        try:
            with urllib.request.urlopen(page, timeout=10) as response:
                is_page = response.status == 200 and b"<html" in response.read(10_000).lower()
        except OSError:
            is_page = False
        step.result = page
    story.check("the page responds: search for the namespace and click a job", is_page)


def _write_csv(path: Path) -> Path:
    """Write scraped articles, with other ids than the articles of the topic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(FIELDS)
        for number, (_, value) in enumerate(generate("articles", _ARTICLES, seed=296)):
            article = json.loads(value) | {"id": f"scraped-{number}"}
            rows.writerow([article[name] for name in FIELDS])
    return path
