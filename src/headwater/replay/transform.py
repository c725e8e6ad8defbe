"""The transform of a job, shared by its streaming query and its replays.

    from headwater.replay import Transform

    CLEAN = Transform("clean_visits", clean, input_topic="visits", output_topic="visits-clean")

`headwater replay jobs/clean_visits.py:CLEAN …` then needs no further names; a plain function
works as well, with the names as options.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.errors import InputError, UnknownJobError
from headwater.model.header import BATCH_VERSION, JOB_NAME, JOB_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# From rows with `key, value, topic, partition, offset, timestamp, headers` and `lineage` to rows
# with `value`, `lineage` and optionally `key`, `error`, `raw_value` and `ordinal`.
RowsFunction: TypeAlias = "Callable[[DataFrame], DataFrame]"

_FORM = "a shipped transform, `module:name` or `path/to/file.py:name`"


@dataclass(frozen=True)
class Transform:
    """A job's transformation, and the names that its streaming query uses.

    The record ids of outputs are derived from `job_name`: with another name a replay produces
    different records. `fields` are the fields of a JSON value with their Spark types; a predicate
    may use their names.
    """

    job_name: str
    function: RowsFunction
    input_topic: str | None = None
    output_topic: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    header_order: Sequence[str] = (JOB_NAME, JOB_VERSION, BATCH_VERSION)


def load_transform(name: str, shipped: Mapping[str, str]) -> Transform:
    """Load a transform by name.

    Args:
        shipped: the names of shipped transforms, each with its `module:name`.

    Raises:
        UnknownJobError: there is no such transform.
        InputError: the name refers to something else than a transform or a function.
    """
    module, colon, attribute = shipped.get(name.replace("-", "_"), name).rpartition(":")
    if not colon:
        raise UnknownJobError(
            f"unknown transform: {name!r}",
            hint=f"shipped: {', '.join(shipped)}; or {_FORM}",
        )
    value = getattr(_load_module(module, name), attribute, None)
    if isinstance(value, Transform):
        return value
    if callable(value):
        return Transform(attribute, value)
    raise InputError(
        f"{name!r} is neither a transform nor a function", hint="see `headwater replay --help`"
    )


def _load_module(module_name: str, name: str) -> Any:
    try:
        if not module_name.endswith(".py"):
            return importlib.import_module(module_name)
        path = Path(module_name).absolute()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise FileNotFoundError(module_name)
        module = importlib.util.module_from_spec(spec)
        # The file may import its neighbours, as it may when it is run.
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(path.parent))
        return module
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        raise UnknownJobError(
            f"the transform {name!r} can't be loaded: {error}", hint=f"a transform is {_FORM}"
        ) from error
