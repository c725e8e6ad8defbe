"""The topics between a source and an output, from lineage headers and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.errors import CheckpointError, InputError
from headwater.model.progress import Progress
from headwater.model.topic_names import dead_letter_topic, is_dead_letter_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState, read_checkpoint
from headwater.tracing.scan import Scan, scan

# Enough to see from which topics a job reads; older records were made in the same way.
_SAMPLE = 1000
_MAX_TOPICS = 32

# Inputs by output; each output comes after its inputs.
Route = dict[str, set[str]]


class Checkpoints:
    """The available checkpoints: those of the home, and one that the caller names."""

    def __init__(self, settings: Settings, named: Path | None = None) -> None:
        self._named = _read_all([named]) if named is not None else []
        folder = settings.home_dir / "checkpoints"
        own = sorted(folder.iterdir()) if folder.is_dir() else []
        self._all = [*self._named, *_read_all(own, skip_damaged=True)]
        if named is not None and not self._named:
            raise CheckpointError(
                f"{named}: no query has started a batch with this checkpoint",
                hint="use the folder that is the --checkpoint of the job",
                checkpoint=str(named),
            )

    def inputs_of(self, output: str) -> set[str]:
        """Topics that a job which writes `output` reads."""
        return {t for c in self._all if c.outputs and output in c.outputs for t in c.planned}

    def of(self, source: str, output: str) -> CheckpointState | None:
        """The checkpoint of the job from one topic into another; of several, the farthest."""
        matching = [
            checkpoint
            for checkpoint in self._all
            if source in checkpoint.planned and self._writes(checkpoint, output)
        ]
        return max(matching, key=lambda c: sum(c.planned[source].values()), default=None)

    def _writes(self, checkpoint: CheckpointState, output: str) -> bool:
        if checkpoint.outputs is None:
            # Not a query of Headwater: only the caller knows that it is the right one.
            return checkpoint in self._named
        return output in checkpoint.outputs


def _read_all(folders: Sequence[Path], *, skip_damaged: bool = False) -> list[CheckpointState]:
    checkpoints = []
    for folder in folders:
        try:
            checkpoint = read_checkpoint(folder)
        except CheckpointError:
            if not skip_damaged:
                raise
            continue
        if checkpoint is not None:
            checkpoints.append(checkpoint)
    return checkpoints


def find_route(
    source: str, topic: str, checkpoints: Checkpoints, settings: Settings, progress: Progress
) -> Route:
    """The topics between two topics.

    Raises:
        InputError: nothing in `topic` was made from `source`, but from others.
    """
    inputs: dict[str, set[str]] = {}
    queue = [topic]
    while queue and len(inputs) < _MAX_TOPICS:
        output = queue.pop(0)
        if output in inputs or output == source:
            continue
        inputs[output] = _inputs(output, source, checkpoints, settings, progress)
        queue += sorted(inputs[output])
    route = _ordered(source, topic, inputs)
    if topic in route:
        return route
    # Rare inputs may occur only before the sample. A topic without lineage is treated as if it
    # were made from the source.
    parent_topics = scan(topic, set(), settings, progress).parent_topics
    if source in parent_topics or not parent_topics:
        return {topic: {source}}
    others = sorted(parent_topics)
    raise InputError(
        f"no record of {topic!r} was made from {source!r}: their parents are in "
        f"{', '.join(others)}",
        hint="`headwater trace ADDRESS` shows the topics between a record and its sources",
        topic=topic,
        source=source,
        parents_in=others,
    )


def _inputs(
    output: str, source: str, checkpoints: Checkpoints, settings: Settings, progress: Progress
) -> set[str]:
    def sample(topic: str) -> Scan:
        return scan(topic, set(), settings, progress, newest=_SAMPLE)

    named = sample(output).parent_topics | sample(dead_letter_topic(output)).parent_topics
    # The parent of a redriven record is a dead letter; redriven copies are followed one by one.
    named = {topic for topic in named if topic == source or not is_dead_letter_topic(topic)}
    return (named | checkpoints.inputs_of(output)) - {output}


def _ordered(source: str, topic: str, inputs: Mapping[str, set[str]]) -> Route:
    """The edges from the source to the topic; cycles, which only forged headers form, are cut."""
    route: Route = {}
    leads: dict[str, bool] = {source: True}

    def visit(output: str, path: frozenset[str]) -> bool:
        if output not in leads:
            candidates = sorted(inputs.get(output, set()) - path)
            leading = {each for each in candidates if visit(each, path | {output})}
            leads[output] = bool(leading)
            if leading:
                route[output] = leading
        return leads[output]

    visit(topic, frozenset())
    return route
