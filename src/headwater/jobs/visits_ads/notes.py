"""What a join notes beside its checkpoint, for its own next start and for `why-missing`."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.errors import CheckpointError
from headwater.jobs.visits_ads.rule import JoinRule

NOTE_FILE = Path("headwater") / "join.json"


def read_rule(checkpoint: Path) -> JoinRule | None:
    """The rule of the join that this checkpoint belongs to; None if it is not one of a join."""
    try:
        return JoinRule.of_json(json.loads((checkpoint / NOTE_FILE).read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_rule(checkpoint: Path, rule: JoinRule) -> None:
    """Note the rule before the query starts.

    Bounds and delays may change from one start to the next; what is in the state may not.

    Raises:
        CheckpointError: the checkpoint is one of a join of other topics, or with another rule for
            several matches.
    """
    before = read_rule(checkpoint)
    if before is not None:
        for what, noted, given in (
            ("visits from", before.visits, rule.visits),
            ("ads from", before.ads, rule.ads),
            ("matches:", before.matches, rule.matches),
        ):
            if noted != given:
                raise CheckpointError(
                    f"{checkpoint} belongs to a join with {what} {noted}, not {given}",
                    hint="choose another --checkpoint",
                    checkpoint=str(checkpoint),
                )
    file = checkpoint / NOTE_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text(json.dumps(rule.as_json()))
    unfinished.replace(file)
