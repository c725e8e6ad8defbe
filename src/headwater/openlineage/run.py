"""One run of a job, told in events.

Every event carries all that is known by then, datasets with their facets included, so that each
can be read alone; facets that are given `once` are in the next event only.
"""

from __future__ import annotations

import threading
import traceback
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from headwater.openlineage import facets
from headwater.openlineage.events import (
    ENDS,
    Dataset,
    DatasetName,
    Event,
    Facet,
    State,
    name_of,
    run_event,
)
from headwater.openlineage.job_facets import described
from headwater.openlineage.redaction import Redactor
from headwater.settings import Settings

_BEYOND = 8_000

Emit = Callable[[Event], None]


class LineageRun:
    """Tells of a run. Its methods may be called from any thread, and never raise."""

    def __init__(
        self,
        emit: Emit,
        job_namespace: str,
        job_name: str,
        run_id: str,
        *,
        redact: Redactor | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.job_namespace = job_namespace
        self.job_name = job_name
        self.run_id = run_id
        self._emit = emit
        self._redact = redact or Redactor()
        self._clock = clock
        self._lock = threading.RLock()
        self._run_facets: dict[str, Facet] = {}
        self._job_facets: dict[str, Facet] = {}
        self._once: dict[str, Facet] = {}
        self._inputs: dict[DatasetName, Dataset] = {}
        self._outputs: dict[DatasetName, Dataset] = {}
        self._ended = False

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        emit: Emit,
        job_name: str,
        run_id: str,
    ) -> LineageRun:
        """A run with what the settings say of all jobs: parent, owner, environment, facets."""
        given = settings.lineage
        redact = Redactor.from_settings(settings)
        run = cls(emit, given.namespace, job_name, run_id, redact=redact)
        if given.parent_job and given.parent_job != job_name:
            namespace = given.parent_namespace or given.namespace
            parent_run = _parent_run(given.parent_run_id, namespace, given.parent_job)
            run.add_run_facet("parent", facets.parent(parent_run, namespace, given.parent_job))
        if given.team:
            run.add_job_facet("ownership", facets.ownership([f"team:{given.team}"]))
        known = {"team": given.team, "project": given.project, "environment": given.environment}
        values = {key: value for key, value in known.items() if value}
        run.add_job_facet("tags", facets.tags("Job", values))
        for name, facet in described(job_name).items():
            run.add_job_facet(name, facet)
        for name, fields in given.run_facets.items():
            run.add_run_facet(name, facets.custom(fields, "run"))
        for name, fields in given.job_facets.items():
            run.add_job_facet(name, facets.custom(fields, "job"))
        return run

    @property
    def ended(self) -> bool:
        return self._ended

    def add_run_facet(self, name: str, facet: Facet, *, once: bool = False) -> None:
        """Part of the next event and, unless `once`, of all further ones until replaced."""
        with self._lock:
            (self._once if once else self._run_facets)[name] = facet

    def add_job_facet(self, name: str, facet: Facet) -> None:
        with self._lock:
            self._job_facets[name] = facet

    def add_input_facet(self, dataset: DatasetName, name: str, facet: Facet) -> None:
        """Of this run's reading, such as `inputStatistics`; a new dataset becomes an input."""
        self._add(self._inputs, dataset, "inputFacets", name, facet)

    def add_output_facet(self, dataset: DatasetName, name: str, facet: Facet) -> None:
        """Of this run's writing, such as `outputStatistics`; a new dataset becomes an output."""
        self._add(self._outputs, dataset, "outputFacets", name, facet)

    def add_dataset_facet(self, dataset: DatasetName, name: str, facet: Facet) -> None:
        """Of the dataset itself, such as `schema`, wherever this run reads or writes it."""
        with self._lock:
            for known in (self._inputs, self._outputs):
                if dataset in known:
                    self._add(known, dataset, "facets", name, facet)

    def start(self, inputs: Sequence[Dataset] = (), outputs: Sequence[Dataset] = ()) -> None:
        self._ask_makers()
        self._emit_event("START", inputs, outputs)

    def running(self, inputs: Sequence[Dataset] = (), outputs: Sequence[Dataset] = ()) -> None:
        """How far it has come; datasets that are given are added to those that are known."""
        self._emit_event("RUNNING", inputs, outputs)

    def complete(self) -> None:
        self._ask_makers()
        self._emit_event("COMPLETE")

    def fail(self, error: BaseException | str) -> None:
        """The error's text and trace go along, without secrets."""
        if isinstance(error, str):
            message, trace = error, None
        else:
            message = f"{type(error).__name__}: {_text_of(error)}"
            trace = self._shown("".join(traceback.format_exception(error)))
        facet = facets.error_message(self._shown(message), trace)
        self.add_run_facet("errorMessage", facet)
        self._ask_makers()
        self._emit_event("FAIL")

    def abort(self, reason: str | None = None) -> None:
        """It was stopped, or its process has died."""
        if reason:
            self.add_run_facet("errorMessage", facets.error_message(self._shown(reason)))
        self._emit_event("ABORT")

    def _add(
        self,
        known: dict[DatasetName, Dataset],
        dataset: DatasetName,
        part: str,
        name: str,
        facet: Facet,
    ) -> None:
        with self._lock:
            entry = known.setdefault(dataset, dataset.dataset())
            entry[part] = {**entry.get(part, {}), name: facet}

    def _shown(self, text: str) -> str:
        # Somewhat more than is told: what a cut has made unrecognisable is not.
        return self._redact(text[: facets.MAX_TEXT + _BEYOND])

    def _ask_makers(self) -> None:
        with self._lock:
            self._run_facets |= facets.made("run", self)
            self._job_facets |= facets.made("job", self)

    def _emit_event(
        self, state: State, inputs: Sequence[Dataset] = (), outputs: Sequence[Dataset] = ()
    ) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = state in ENDS
            _merge(self._inputs, inputs)
            _merge(self._outputs, outputs)
            event = run_event(
                state,
                self.run_id,
                self.job_namespace,
                self.job_name,
                [dict(each) for each in self._inputs.values()],
                [dict(each) for each in self._outputs.values()],
                {**self._run_facets, **self._once},
                self._job_facets,
                self._clock(),
            )
            self._once = {}
            # Inside the lock: events leave in the order of their times.
            self._emit(event)


def _merge(known: dict[DatasetName, Dataset], given: Sequence[Dataset]) -> None:
    for dataset in given:
        name = name_of(dataset)
        entry: dict[str, Any] = dict(known.get(name, name.dataset()))
        for part in ("facets", "inputFacets", "outputFacets"):
            if part in dataset:
                entry[part] = {**entry.get(part, {}), **dataset[part]}
        known[name] = entry


def _text_of(error: BaseException) -> str:
    """Some errors ask for their text only now, and of a Java that may be gone."""
    try:
        return str(error)
    except Exception:
        return "its text can't be told any more"


def _parent_run(given: str | None, namespace: str, job: str) -> str:
    """Schedulers have ids of other forms, or none: then one that is the same for all children."""
    try:
        return str(uuid.UUID(given or ""))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{job}/{given or ''}"))
