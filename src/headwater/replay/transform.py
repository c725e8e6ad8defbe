"""The logic of a job, named once: the streaming job runs it, and a replay runs the same.

    from headwater.replay import Transform

    CLEAN = Transform("clean_visits", clean, input_topic="visits", output_topic="visits-clean")

`headwater replay jobs/clean_visits.py:CLEAN …` then knows all it needs; a bare function will do
as well, with the names as options.
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
from headwater.model.headers import BATCH_VERSION, JOB_NAME, JOB_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# From rows with `key, value, topic, partition, offset, timestamp, headers` and `lineage` to rows
# with `value`, `lineage` and, if there are any, `key`, `error`, `raw_value` and `ordinal`.
RowsFunction: TypeAlias = "Callable[[DataFrame], DataFrame]"

_FORM = "a shipped logic, `module:name` or `path/to/file.py:name`"


@dataclass(frozen=True)
class Transform:
    """A job's transformation, and the names that its streaming job uses.

    The record id of an output is made from `job_name`: with another name a replay would make
    other records. `fields` are those of a JSON value, with Spark's types; a predicate may then
    use their names.
    """

    job_name: str
    function: RowsFunction
    input_topic: str | None = None
    output_topic: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    header_order: Sequence[str] = (JOB_NAME, JOB_VERSION, BATCH_VERSION)


def load_logic(name: str, shipped: Mapping[str, str]) -> Transform:
    """The logic of that name.

    Args:
        shipped: names of shipped logics, each with its `module:name`.

    Raises:
        UnknownJobError: there is none.
        InputError: what is there is neither a logic nor a function.
    """
    place, colon, attribute = shipped.get(name.replace("-", "_"), name).rpartition(":")
    if not colon:
        raise UnknownJobError(
            f"no shipped logic has the name {name!r}",
            hint=f"shipped: {', '.join(shipped)}; or {_FORM}",
        )
    found = getattr(_module(place, name), attribute, None)
    if isinstance(found, Transform):
        return found
    if callable(found):
        return Transform(attribute, found)
    raise InputError(
        f"{name!r} is neither a logic nor a function", hint="see `headwater replay --help`"
    )


def _module(place: str, name: str) -> Any:
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        path = Path(place).absolute()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise FileNotFoundError(place)
        module = importlib.util.module_from_spec(spec)
        # Such a file may import its neighbours, as it may when it is run.
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(path.parent))
        return module
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        raise UnknownJobError(
            f"the logic {name!r} can't be loaded: {error}", hint=f"a logic is {_FORM}"
        ) from error
