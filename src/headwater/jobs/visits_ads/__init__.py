"""The watermark join of visits with ads. Importing this package does not import pyspark; `join`
does."""

from headwater.jobs.visits_ads.rule import MATCHES, JoinRule, Matches, parse_span

__all__ = ["MATCHES", "JoinRule", "Matches", "parse_span"]
