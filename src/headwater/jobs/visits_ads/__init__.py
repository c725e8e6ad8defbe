"""The watermark join: visits with the ads that were shown to them, and a word on every record that
did not come out. Importing this package imports no pyspark; `join` does."""

from headwater.jobs.visits_ads.rule import MATCHES, JoinRule, Matches, parse_span

__all__ = ["MATCHES", "JoinRule", "Matches", "parse_span"]
