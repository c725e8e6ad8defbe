"""`why_missing` and `verify`, which also find the records that wait in a watermark join."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from headwater import tracing
from headwater.join.waiting import JoinExplainer
from headwater.model import Address
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings, load
from headwater.tracing import Explainer, VerifyReport, WhyMissing


@functools.wraps(tracing.why_missing)
def why_missing(
    address: Address | str,
    topic: str,
    settings: Settings | None = None,
    *,
    checkpoint: Path | None = None,
    explainers: Sequence[Explainer] = (),
    progress: Progress = no_progress,
) -> WhyMissing:
    settings = settings or load()
    return tracing.why_missing(
        address,
        topic,
        settings,
        checkpoint=checkpoint,
        explainers=(*explainers, JoinExplainer(settings)),
        progress=progress,
    )


@functools.wraps(tracing.verify)
def verify(
    topic: str,
    source: str,
    settings: Settings | None = None,
    *,
    allow_filtered: bool = False,
    allow_ranges: bool = False,
    checkpoint: Path | None = None,
    explainers: Sequence[Explainer] = (),
) -> VerifyReport:
    settings = settings or load()
    return tracing.verify(
        topic,
        source,
        settings,
        allow_filtered=allow_filtered,
        allow_ranges=allow_ranges,
        checkpoint=checkpoint,
        explainers=(*explainers, JoinExplainer(settings)),
    )
