"""By which topics a record of one topic gets into another, as lineage and checkpoints tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.errors import CheckpointError, InputError
from headwater.model.progress import Progress
from headwater.model.topic_names import dead_letter_topic, is_dead_letter_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState, read_checkpoint
from headwater.tracing.scan import Scan, scan

# Enough to see from which topics a job reads; what lies further back was made in the same way.
_SAMPLE = 1000
_MAX_TOPICS = 32

# Inputs by output, every output behind those that it is made from.
Route = dict[str, set[str]]


class Readings:
    """The checkpoints that are at hand: those of the home, and one that the caller names."""

    def __init__(self, settings: Settings, named: Path | None = None) -> None:
        self._named = _readings([named]) if named is not None else []
        folder = settings.home_dir / "checkpoints"
        own = sorted(folder.iterdir()) if folder.is_dir() else []
        self._all = [*self._named, *_readings(own, damaged_too=True)]
        if named is not None and not self._named:
            raise CheckpointError(
                f"{named}: no query has begun a batch with this checkpoint",
                hint="name the folder that the job was given as --checkpoint",
                checkpoint=str(named),
            )

    def inputs_of(self, output: str) -> set[str]:
        """Topics that a job which writes `output` reads."""
        return {t for r in self._all if r.outputs and output in r.outputs for t in r.begun}

    def of(self, source: str, output: str) -> CheckpointState | None:
        """How far the job from one topic into another has come; of several, the farthest."""
        fitting = [
            reading
            for reading in self._all
            if source in reading.begun and self._writes(reading, output)
        ]
        return max(fitting, key=lambda r: sum(r.begun[source].values()), default=None)

    def _writes(self, reading: CheckpointState, output: str) -> bool:
        if reading.outputs is None:
            # A query of somebody else's: the caller says that it is this one.
            return reading in self._named
        return output in reading.outputs


def _readings(folders: Sequence[Path], *, damaged_too: bool = False) -> list[CheckpointState]:
    found = []
    for folder in folders:
        try:
            reading = read_checkpoint(folder)
        except CheckpointError:
            if not damaged_too:
                raise
            continue
        if reading is not None:
            found.append(reading)
    return found


def find_route(
    source: str, topic: str, readings: Readings, settings: Settings, progress: Progress
) -> Route:
    """The topics between two topics.

    Raises:
        InputError: nothing in `topic` was made from `source`, but from others.
    """
    inputs: dict[str, set[str]] = {}
    waiting = [topic]
    while waiting and len(inputs) < _MAX_TOPICS:
        output = waiting.pop(0)
        if output in inputs or output == source:
            continue
        inputs[output] = _inputs(output, source, readings, settings, progress)
        waiting += sorted(inputs[output])
    route = _ordered(source, topic, inputs)
    if topic in route:
        return route
    # Rare ones may lie before the sample. A topic without lineage can only be asked about as if
    # it were made from the source.
    everything = scan(topic, set(), settings, progress).parent_topics
    if source in everything or not everything:
        return {topic: {source}}
    others = sorted(everything)
    raise InputError(
        f"no record of {topic!r} was made from {source!r}: their parents lie in "
        f"{', '.join(others)}",
        hint="`headwater trace ADDRESS` shows by which topics a record has come",
        topic=topic,
        source=source,
        parents_in=others,
    )


def _inputs(
    output: str, source: str, readings: Readings, settings: Settings, progress: Progress
) -> set[str]:
    def sample(topic: str) -> Scan:
        return scan(topic, set(), settings, progress, newest=_SAMPLE)

    named = sample(output).parent_topics | sample(dead_letter_topic(output)).parent_topics
    # A redriven record's parent is a dead letter; that way is followed letter by letter.
    named = {topic for topic in named if topic == source or not is_dead_letter_topic(topic)}
    return (named | readings.inputs_of(output)) - {output}


def _ordered(source: str, topic: str, inputs: Mapping[str, set[str]]) -> Route:
    """What leads from the source to the topic; circles, which only forged headers make, are cut."""
    route: Route = {}
    leads: dict[str, bool] = {source: True}

    def visit(output: str, path: frozenset[str]) -> bool:
        if output not in leads:
            ways = sorted(inputs.get(output, set()) - path)
            leading = {way for way in ways if visit(way, path | {output})}
            leads[output] = bool(leading)
            if leading:
                route[output] = leading
        return leads[output]

    visit(topic, frozenset())
    return route
