"""`headwater run --restarts N` starts a job again only if that can help."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import Headwater

JOB = """
from pathlib import Path
from headwater.errors import RecordTooLargeError, {error}

with Path({log!r}).open("a") as log:
    log.write("started\\n")
raise {error}("refused", hint="change it"){cause}
"""


@pytest.mark.parametrize(
    ("error", "cause", "code", "starts"),
    [
        ("AuthorizationError", "", 4, 1),
        ("InputError", "", 2, 1),
        ("BrokerUnavailableError", "", 3, 2),
        ("QueryFailedError", "", 1, 2),
        # The cause of a query that failed decides.
        ("QueryFailedError", ".with_cause(RecordTooLargeError(str()))", 4, 1),
    ],
)
def test_a_job_is_restarted_unless_the_next_start_would_end_in_the_same_way(
    error: str, cause: str, code: int, starts: int, headwater: Headwater, tmp_path: Path
) -> None:
    log = tmp_path / "starts"
    (tmp_path / "job.py").write_text(JOB.format(error=error, log=str(log), cause=cause))
    done = headwater("run", str(tmp_path / "job.py"), "--restarts", "1")
    assert done.returncode == code, done.stderr
    assert log.read_text().splitlines() == ["started"] * starts
