"""The DAG of test_airflow.py; Airflow runs this file in its virtual environment."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Asset, TaskGroup
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import parent_run

RAW, CLEAN, RATES = (Asset(f"file://shop/{name}") for name in ("raw", "clean", "rates"))


def run_script(parent: str) -> None:
    """What a script does that gets its parent from the task that starts it."""
    namespace, name, run_id = parent.split("/")
    facet = parent_run.ParentRunFacet(
        run=parent_run.Run(runId=run_id), job=parent_run.Job(namespace=namespace, name=name)
    )
    run = Run(runId=str(uuid.uuid4()), facets={"parent": facet})
    for state in (RunState.START, RunState.COMPLETE):
        now = datetime.now(UTC).isoformat()
        OpenLineageClient().emit(
            RunEvent(eventType=state, eventTime=now, run=run, job=Job(namespace, "tidy_script"))
        )


def fail() -> None:
    raise ValueError("no rates for today")


with DAG("shop", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), tags=["sales"]):
    with TaskGroup("load"):
        extract = PythonOperator(task_id="extract", python_callable=print, outlets=[RAW])
    tidy = PythonOperator(
        task_id="tidy",
        python_callable=run_script,
        op_args=["{{ macros.OpenLineageProviderPlugin.lineage_parent_id(task_instance) }}"],
        inlets=[RAW],
        outlets=[CLEAN],
    )
    convert = PythonOperator(
        task_id="convert", python_callable=fail, inlets=[CLEAN], outlets=[RATES]
    )
    extract >> tidy >> convert
