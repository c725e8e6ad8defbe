"""The delivery mode of a query whose user names none."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headwater.delivery.output_offsets import obstacle
from headwater.job.delivery import choose_mode

CHECKPOINT = Path("/checkpoints/copy")
REMOTE = "s3a://bucket/copy"
TRANSACTIONAL = "the mode is transactional, and its consumers need isolation.level=read_committed"


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[4,1]", "local[4, 1]"])
def test_a_local_master_with_a_local_checkpoint_has_exactly_once_delivery(
    master: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert obstacle(master, "false", CHECKPOINT) is None
    assert choose_mode(None, None, CHECKPOINT) == "exactly-once"
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("master", "speculation", "checkpoint", "expected"),
    [
        ("spark://host:7077", "", CHECKPOINT, "spark.master=spark://host:7077: tasks run on"),
        ("local-cluster[2,1,1024]", "", CHECKPOINT, "spark.master=local-cluster[2,1,1024]: "),
        ("yarn", "", REMOTE, "spark.master=yarn: "),
        ("local[2,3]", "", CHECKPOINT, "spark.task.maxFailures=3: a task that runs twice"),
        ("local[2]", "True", CHECKPOINT, "spark.speculation=true: a task that runs twice"),
        ("local[2]", "", REMOTE, f"checkpoint={REMOTE}: the output offsets"),
    ],
)
def test_elsewhere_it_is_transactional_and_the_log_has_the_reason(
    master: str,
    speculation: str,
    checkpoint: Path | str,
    expected: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reason = str(obstacle(master, speculation, checkpoint))
    assert reason.startswith(expected)
    assert choose_mode(None, reason, checkpoint) == "transactional"
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert f"({expected}" in line.getMessage()
    assert line.getMessage().endswith(TRANSACTIONAL)


@pytest.mark.parametrize("reason", [None, "spark.master=yarn: tasks run on executors"])
@pytest.mark.parametrize(
    ("stored", "level"),
    [("exactly-once", None), ("transactional", "INFO"), ("idempotent", "WARNING")],
)
def test_the_mode_of_the_checkpoint_is_kept(
    stored: str, level: str | None, reason: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert choose_mode(stored, reason, CHECKPOINT) == stored
    assert [each.levelname for each in caplog.records] == ([level] if level else [])
    assert all(f"{stored}, as in {CHECKPOINT}" in each for each in caplog.messages)
