"""A request for a replay, as the command line and the reprocessing job state it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.replay.plan import canonical
from headwater.replay.selection import Selection
from headwater.replay.transform import Transform
from headwater.settings import Settings


@dataclass(frozen=True)
class Request:
    """A replay that was requested."""

    name: str
    transform: Transform
    selection: Selection
    job_version: str
    # A topic, or `table:` and a folder.
    target: str
    allow_gaps: bool = False
    allow_ranges: bool = False
    force: bool = False
    skip_existing: bool = False
    again: bool = False
    # `exactly-once` on one driver, `transactional` on clusters too.
    delivery: str = "exactly-once"

    @property
    def digest(self) -> str:
        """The same for the same request, however the archive has grown since."""
        selection = self.selection
        parts = {
            **selection.as_json(),
            "name": self.name,
            "job": [self.transform.job_name, self.job_version],
            "offsets": sorted((selection.offsets or {}).items()) if selection.offsets else None,
            "inputs_of": sorted(map(str, selection.inputs_of)),
            "made_by": str(selection.made_by),
            "target": self.target,
            "options": [self.allow_gaps, self.skip_existing],
            # Only if set: other requests keep their digest, by which they are resumed.
            **({"allow_ranges": True} if self.allow_ranges else {}),
        }
        return hashlib.sha256(canonical(parts).encode()).hexdigest()


def build_request(
    name: str,
    transform: Transform,
    selection: Selection,
    target: str,
    settings: Settings,
    options: Mapping[str, Any],
) -> Request:
    """The request that the options of a command line state.

    Args:
        options: `job_version` (None for the setting's), `allow_gaps`, `skip_existing`, `again`,
            `delivery` and, where the command has them, `force` and `allow_ranges`.
    """
    return Request(
        name=name,
        transform=transform,
        selection=selection,
        job_version=options["job_version"] or settings.jobs.version,
        target=target,
        allow_gaps=options["allow_gaps"],
        allow_ranges=options.get("allow_ranges", False),
        force=options.get("force", False),
        skip_existing=options["skip_existing"],
        again=options["again"],
        delivery=options["delivery"],
    )
