"""The watermark join of two topics. Importing this package does not import pyspark; `plan` and
`watermark_join` do."""

from headwater.join.rule import HOW, MATCHES, How, JoinRule, JoinSide, Matches
from headwater.join.spans import parse_span

__all__ = ["HOW", "MATCHES", "How", "JoinRule", "JoinSide", "Matches", "parse_span"]
