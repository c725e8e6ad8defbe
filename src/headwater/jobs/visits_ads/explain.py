"""The rule of a join in words, for `--explain`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headwater.jobs.visits_ads.rule import JoinRule, span_text

_EXAMPLE = datetime(2024, 1, 1, 9, 0, tzinfo=UTC)
_SEVERAL = {
    "all": "Several ads for a visit make several rows, each as soon as both are read.",
    "first": "Of several ads for a visit the one that is found first makes a row, at once; the "
    "others are dropped.",
    "nearest": "Of several ads for a visit the nearest in time makes a row, when no more can come.",
}


def explain(rule: JoinRule, output: str, *, idle_timeout: timedelta | None = None) -> str:
    """Until when a visit waits for an ad, and when an unmatched one comes out."""
    visit, due = _EXAMPLE, rule.visit_waits_until(_EXAMPLE)
    first, last = visit + rule.ad_from, visit + rule.ad_until
    paragraphs = [
        [f"{rule.visits} left outer join {rule.ads} -> {output}"],
        [
            f"An ad matches a visit of its page if it is displayed {span_text(rule.ad_from)} to "
            f"{span_text(rule.ad_until)} after the visit's event_time, both ends included.",
            _SEVERAL[rule.matches],
            f"  A visit of {_time(visit)} takes ads of {_time(first)} to {_time(last)}.",
        ],
        [
            "The watermark is the earlier of two times, and never goes back: the newest event_time "
            f"in {rule.visits} less {span_text(rule.visits_delay)}, and the newest display_time in "
            f"{rule.ads} less {span_text(rule.ads_delay)}.",
            f"  A visit of {_time(visit)} waits for an ad until the watermark is past {_time(due)};"
            f" so until there was a visit later than {_time(due + rule.visits_delay)} and an ad "
            f"later than {_time(due + rule.ads_delay)}.",
            "  If it has no match by then, it comes out alone, in the next micro-batch.",
            f"  An ad of {_time(visit)} waits for a visit until the watermark is past "
            f"{_time(rule.ad_waits_until(visit))}; without one it is dropped.",
        ],
        [
            "A record is late when the watermark had reached its time in the micro-batch before. "
            f"It goes to {output}-late, with the reason.",
            f"A visit less than {span_text(rule.visits_delay)} older than the newest visit is "
            f"never late, nor is an ad less than {span_text(rule.ads_delay)} older than the newest "
            "ad.",
        ],
        _idle(rule, idle_timeout),
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


def _idle(rule: JoinRule, timeout: timedelta | None) -> list[str]:
    if timeout is None:
        return [
            "When a topic goes quiet, the watermark stands still, and no unmatched visit comes out "
            "until the topic goes on. --idle-timeout changes that."
        ]
    return [
        f"When a topic has been quiet for {span_text(timeout)}, it no longer holds back the other: "
        "the watermark follows the other topic alone.",
        f"A visit that then comes is late if it is more than {span_text(rule.visits_delay)} older "
        f"than the newest ad, and an ad if it is more than {span_text(rule.ads_delay)} older than "
        "the newest visit. No match is wrong by it.",
    ]


def _time(moment: datetime) -> str:
    """With the day only where it is another one."""
    text = f"{moment:%H:%M:%S}"
    if moment.microsecond:
        text += f".{moment.microsecond // 1000:03}"
    days = (moment.date() - _EXAMPLE.date()).days
    return text if days == 0 else f"{text} ({days:+} d)"
