"""The events of one run of a job, the note of a run that has not ended, and redaction.

Events are cumulative: each contains all datasets and facets known so far, except facets added with
`once=True`, which are in the next event only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from headwater.model.local_files import state_folder
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
from headwater.openlineage.facets import registered_job_facets
from headwater.settings import Settings
from headwater.settings.jaas import escaped, parse_jaas

# Redacted in addition to the part that is kept: the cut could split a secret.
_REDACTION_MARGIN = 8_000
_OPEN_RUN_FILE = Path("headwater") / "run.json"
_OPEN_RUNS_FOLDER = "open-runs"

Emit = Callable[[Event], None]


class LineageRun:
    """Emits the events of a run. Thread-safe; the methods never raise."""

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
        """A run with the parent, owner, environment and facets of the settings."""
        lineage = settings.lineage
        redact = Redactor.from_settings(settings)
        run = cls(emit, lineage.namespace, job_name, run_id, redact=redact)
        if lineage.parent_job and lineage.parent_job != job_name:
            namespace = lineage.parent_namespace or lineage.namespace
            parent_run = _parent_run(lineage.parent_run_id, namespace, lineage.parent_job)
            run.add_run_facet("parent", facets.parent(parent_run, namespace, lineage.parent_job))
        if lineage.team:
            run.add_job_facet("ownership", facets.ownership([f"team:{lineage.team}"]))
        names = ("team", "project", "environment")
        tags = {name: value for name in names if (value := getattr(lineage, name))}
        run.add_job_facet("tags", facets.tags("Job", tags))
        for name, facet in registered_job_facets(job_name).items():
            run.add_job_facet(name, facet)
        for name, fields in lineage.run_facets.items():
            run.add_run_facet(name, facets.custom(fields, "run"))
        for name, fields in lineage.job_facets.items():
            run.add_job_facet(name, facets.custom(fields, "job"))
        return run

    @property
    def ended(self) -> bool:
        return self._ended

    def add_run_facet(self, name: str, facet: Facet, *, once: bool = False) -> None:
        """Add to the next event and, unless `once`, to all later events."""
        with self._lock:
            (self._once if once else self._run_facets)[name] = facet

    def add_job_facet(self, name: str, facet: Facet) -> None:
        with self._lock:
            self._job_facets[name] = facet

    def add_input_facet(self, dataset: DatasetName, name: str, facet: Facet) -> None:
        """Facet of an input of this run, such as `inputStatistics`. Adds a new input."""
        self._add(self._inputs, dataset, "inputFacets", name, facet)

    def add_output_facet(self, dataset: DatasetName, name: str, facet: Facet) -> None:
        """Facet of an output of this run, such as `outputStatistics`. Adds a new output."""
        self._add(self._outputs, dataset, "outputFacets", name, facet)

    def add_dataset_facet(self, dataset: DatasetName, name: str, facet: Facet) -> None:
        """Facet of the dataset itself, such as `schema`, as an input and as an output."""
        with self._lock:
            for known in (self._inputs, self._outputs):
                if dataset in known:
                    self._add(known, dataset, "facets", name, facet)

    def add_datasets(self, inputs: Sequence[Dataset], outputs: Sequence[Dataset]) -> None:
        """Add inputs that are new and outputs to the next event; facets of outputs are replaced."""
        with self._lock:
            _merge(self._inputs, [each for each in inputs if name_of(each) not in self._inputs])
            _merge(self._outputs, outputs)

    def start(self, inputs: Sequence[Dataset] = (), outputs: Sequence[Dataset] = ()) -> None:
        self._call_facet_functions()
        self._emit_event("START", inputs, outputs)

    def running(self, inputs: Sequence[Dataset] = (), outputs: Sequence[Dataset] = ()) -> None:
        """Emit RUNNING; adds the datasets to those of earlier events."""
        self._emit_event("RUNNING", inputs, outputs)

    def complete(self) -> None:
        self._call_facet_functions()
        self._emit_event("COMPLETE")

    def fail(self, error: BaseException | str) -> None:
        """Emit FAIL with the message and stack trace of the error, without secrets."""
        if isinstance(error, str):
            message, trace = error, None
        else:
            message = f"{type(error).__name__}: {_text_of(error)}"
            trace = self._redacted("".join(traceback.format_exception(error)))
        facet = facets.error_message(self._redacted(message), trace)
        self.add_run_facet("errorMessage", facet)
        self._call_facet_functions()
        self._emit_event("FAIL")

    def abort(self, reason: str | None = None) -> None:
        """Emit ABORT: the run was stopped, or its process died."""
        if reason:
            self.add_run_facet("errorMessage", facets.error_message(self._redacted(reason)))
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

    def _redacted(self, text: str) -> str:
        return self._redact(text[: facets.MAX_TEXT + _REDACTION_MARGIN])

    def _call_facet_functions(self) -> None:
        with self._lock:
            self._run_facets |= facets.function_facets("run", self)
            self._job_facets |= facets.function_facets("job", self)

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
            # Inside the lock: events are emitted in the order of their times.
            self._emit(event)


def _merge(known: dict[DatasetName, Dataset], added: Sequence[Dataset]) -> None:
    for dataset in added:
        name = name_of(dataset)
        entry: dict[str, Any] = dict(known.get(name, name.dataset()))
        for part in ("facets", "inputFacets", "outputFacets"):
            if part in dataset:
                entry[part] = {**entry.get(part, {}), **dataset[part]}
        known[name] = entry


def _text_of(error: BaseException) -> str:
    """Errors of py4j fetch their text from the JVM, which may have exited."""
    try:
        return str(error)
    except Exception:
        return "message unavailable"


def _parent_run(run_id: str | None, namespace: str, job: str) -> str:
    """A UUID: schedulers use other ids or none. Derived, so that all children have the same one."""
    try:
        return str(uuid.UUID(run_id or ""))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{job}/{run_id or ''}"))


@dataclass(frozen=True)
class OpenRun:
    """A run that started and has not ended."""

    run_id: str
    job_namespace: str
    job_name: str
    started_at: str


class OpenRunNote:
    """The open run of one checkpoint, in a file next to it.

    A note that exists when a run starts is of a process that was killed: the new run ends the old.
    """

    def __init__(self, checkpoint: Path | str, settings: Settings) -> None:
        self._spool: Path | None = None
        if isinstance(checkpoint, Path):
            self._path = checkpoint / _OPEN_RUN_FILE
        else:
            # A checkpoint on another file system, such as s3a://: the note is in the spool folder.
            name = hashlib.sha256(checkpoint.encode()).hexdigest()[:32]
            self._spool = settings.spool_dir
            self._path = self._spool / _OPEN_RUNS_FOLDER / f"{name}.json"

    def read(self) -> OpenRun | None:
        """None if there is no note, or if it can't be read."""
        try:
            return OpenRun(**json.loads(self._path.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, run: OpenRun) -> None:
        """Without fsync: at worst, a run stays open in the catalog after a power failure."""
        try:
            if self._spool is not None:
                state_folder(self._spool.parent, self._spool.name)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._path.with_suffix(".tmp")
            unfinished.write_text(json.dumps(asdict(run)))
            os.replace(unfinished, self._path)
        except OSError:
            return

    def clear(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return


HIDDEN = "***"

_SECRET_NAME = re.compile(r"pass(word|wd)?|secret|token|jaas|api[-_.]?key|credential|private", re.I)
# Shorter values would match too many texts.
_SHORTEST = 4

# Each pattern starts with literal text and has bounded repetitions: an error message may be a
# single word of a megabyte, and the job waits for the result.
_PATTERNS = (
    # user:password@ in a URL.
    (re.compile(r"(://[^\s/@:]{0,1000}):[^\s/@]{1,4000}@"), rf"\1:{HIDDEN}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s{1,20}[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    # name=value, name: value, "name": "value" and ("name", "value") with the name of a secret.
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|api[-_.]?key|credential)[\w.-]{0,100}"
            r"(?:[\"']?\s{0,20}[=:]|[\"']\s{0,20},)\s{0,20})"
            r"(\"[^\"]{0,4000}\"|'[^']{0,4000}'|[^\s,;&)}\]]{1,4000})"
        ),
        rf"\1{HIDDEN}",
    ),
)


class Redactor:
    """Replaces secrets in texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        kept = {secret for secret in secrets if len(secret) >= _SHORTEST}
        # Longest first: one secret may contain another.
        self._secrets = sorted(kept, key=len, reverse=True)

    @classmethod
    def from_settings(cls, settings: Settings) -> Redactor:
        return cls(_secrets(settings))

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text


def _secrets(section: BaseModel) -> Iterator[str]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, SecretStr):
            secret = value.get_secret_value()
            yield from (secret, escaped(secret))
        elif isinstance(value, BaseModel):
            yield from _secrets(value)
        elif isinstance(value, dict):
            for key, each in value.items():
                if isinstance(each, str) and _SECRET_NAME.search(key):
                    yield each
                    # A JAAS line also has the user and the module, and its passwords are escaped.
                    for option, secret in parse_jaas(each)[1].items():
                        if _SECRET_NAME.search(option):
                            yield from (secret, escaped(secret))
