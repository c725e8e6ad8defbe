"""The rule of a join in words: until when records wait, and what is written without a match."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headwater.join.rule import JoinRule, JoinSide
from headwater.join.spans import span_text
from headwater.model.topic_names import late_topic

_EXAMPLE = datetime(2024, 1, 1, 9, 0, tzinfo=UTC)


def explain(rule: JoinRule, output: str, *, idle_timeout: timedelta | None = None) -> str:
    """Describe until when records wait, and when unmatched ones are written."""
    left, right = rule.sides
    paragraphs = [
        [f"{left.topic} {rule.how.replace('_', ' ')} join {right.topic} -> {output}"],
        [
            f"A record of {right.topic} matches a record of {left.topic} {_same_key(rule)} if its "
            f"{right.time} is {span_text(rule.lower)} to {span_text(rule.upper)} after "
            f"{left.time}, both ends included.",
            _several(rule),
            f"  A record of {left.topic} at {_time(_EXAMPLE)} matches records of {right.topic} at "
            f"{_time(_EXAMPLE + rule.lower)} to {_time(_EXAMPLE + rule.upper)}.",
        ],
        [
            "The watermark is the earlier of two times, and never decreases: the newest "
            f"{left.time} in {left.topic} minus {span_text(left.delay)}, and the newest "
            f"{right.time} in {right.topic} minus {span_text(right.delay)}.",
            *_waits(rule, left),
            *_waits(rule, right),
        ],
        [
            "A record is late if the watermark of the previous micro-batch had reached its time. "
            f"It goes to {late_topic(output)}, with the reason.",
            f"A record of {left.topic} less than {span_text(left.delay)} older than the newest one "
            f"is never late, nor is a record of {right.topic} less than {span_text(right.delay)} "
            "older than the newest one.",
        ],
        _idle(rule, idle_timeout),
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


def _same_key(rule: JoinRule) -> str:
    left, right = rule.left.keys, rule.right.keys
    if left == right:
        return f"with the same {' and '.join(left)}"
    pairs = zip(right, left, strict=True)
    return "with " + " and ".join(f"{theirs} = {ours}" for theirs, ours in pairs)


def _several(rule: JoinRule) -> str:
    start = f"A record of {rule.primary.topic} with several matches gives"
    if rule.matches == "all":
        return f"{start} several rows, each as soon as both records are read."
    other = rule.other(rule.primary).topic
    if rule.matches == "first":
        return (
            f"{start} one row with the first one that is found; other matches in {other} are "
            "dropped."
        )
    return f"{start} one row with the nearest one in time, when no more can match."


def _waits(rule: JoinRule, side: JoinSide) -> list[str]:
    due = rule.waits_until(side, _EXAMPLE)
    newest = " and ".join(
        f"a record of {each.topic} later than {_time(due + each.delay)}" for each in rule.sides
    )
    written = "it is written alone, in the next micro-batch"
    alone = written if side.topic in rule.preserved else "it is dropped"
    return [
        f"  A record of {side.topic} at {_time(_EXAMPLE)} waits for a match until the watermark is "
        f"past {_time(due)}; that is, until {newest} were read.",
        f"  Without a match by then, {alone}.",
    ]


def _idle(rule: JoinRule, timeout: timedelta | None) -> list[str]:
    if timeout is None:
        unwritten = ", and no unmatched record is written" if rule.preserved else ""
        return [
            f"While a topic is idle, the watermark does not advance{unwritten}. "
            "--idle-timeout (idle_timeout) changes that."
        ]
    left, right = rule.sides
    return [
        f"When a topic has been idle for {span_text(timeout)}, it no longer holds back the "
        "watermark, which then follows the other topic alone.",
        f"A record of {left.topic} that arrives then is late if it is more than "
        f"{span_text(left.delay)} older than the newest one of {right.topic}, and a record of "
        f"{right.topic} if it is more than {span_text(right.delay)} older than the newest one of "
        f"{left.topic}. Matches are not affected.",
    ]


def _time(moment: datetime) -> str:
    """With the number of days only if the day differs."""
    text = f"{moment:%H:%M:%S}"
    if moment.microsecond:
        text += f".{moment.microsecond // 1000:03}"
    days = (moment.date() - _EXAMPLE.date()).days
    return text if days == 0 else f"{text} ({days:+} d)"
