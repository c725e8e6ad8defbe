"""Benchmarks. Ratios and rates are printed and never asserted, because machines differ."""

from collections.abc import Mapping

# Name -> module with `measure(settings) -> BenchResult`; imported when it is run.
BENCHES: Mapping[str, str] = {
    "archive": "headwater.bench.archive",
    "catalog": "headwater.bench.catalog",
    "fifo": "headwater.bench.fifo",
    "generator": "headwater.bench.generator",
    "join": "headwater.bench.join",
    "lineage": "headwater.bench.lineage",
    "openlineage": "headwater.bench.openlineage",
    "parents": "headwater.bench.parents",
    "quality": "headwater.bench.quality",
    "replay": "headwater.bench.replay",
    "trace": "headwater.bench.trace",
    "unchanged": "headwater.bench.unchanged",
}

__all__ = ["BENCHES"]
