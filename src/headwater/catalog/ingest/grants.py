"""The effect of an event that was sent with a key for some namespaces only.

Such an event describes what is in these namespaces. Of a dataset of another namespace it states
that its own job reads or writes it, and which columns; of another job or run, that it is the
parent. Everything else about them stays in the stored event.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from uuid import UUID

from headwater.catalog.ingest.event import DatasetRef, Event


def limit_event(event: Event, granted: frozenset[str], foreign_runs: Container[UUID]) -> Event:
    """The event without what its sender may not state.

    Args:
        granted: the namespaces of the key. The namespace of the event itself is one of them.
        foreign_runs: stored runs of jobs of other namespaces.
    """
    parent = event.parent
    if parent is not None and (parent.namespace not in granted or parent.run_id in foreign_runs):
        parent = replace(parent, reference=True)
    return replace(
        event,
        granted=granted,
        parent=parent,
        inputs=[_limited(each, granted) for each in event.inputs],
        outputs=[_limited(each, granted) for each in event.outputs],
        # The writer of a record is looked up by its topic: only a key for the topic can name it.
        ranges=[each for each in event.ranges if not each.output or each.namespace in granted],
    )


def _limited(dataset: DatasetRef, granted: frozenset[str]) -> DatasetRef:
    if dataset.namespace not in granted:
        # `io_facets` describe the run, and stay with it.
        kept = {name: dataset.facets[name] for name in dataset.facets if name == "columnLineage"}
        return replace(dataset, facets=kept, fields=None, symlinks=[])
    # A symlink makes two names one dataset: both must be in namespaces of the key.
    return replace(dataset, symlinks=[each for each in dataset.symlinks if each[0] in granted])
