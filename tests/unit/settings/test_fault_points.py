"""Fault points: disarmed by default, exact when armed, and journaled before a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.waiting import wait_until

from headwater.errors import HeadwaterError, InternalError, SettingError
from headwater.settings import fault_points
from headwater.settings.fault_points import (
    POINTS,
    BarrierTimeoutError,
    FaultInjectedError,
    arm,
    disarm,
    do_then_raise,
    fired,
    reach,
)

pytestmark = pytest.mark.timeout(30)

BEFORE = "before_recovery"
AFTER = "after_recovery"


@pytest.fixture(autouse=True, scope="module")
def _nothing_stays_armed() -> Iterator[None]:
    yield
    disarm()


@pytest.fixture(autouse=True)
def _nothing_is_armed() -> None:
    disarm()


def times_raised(point: str, calls: int) -> list[int]:
    """The calls, counted from 1, that raised."""
    raised = []
    for call in range(1, calls + 1):
        try:
            reach(point)
        except FaultInjectedError:
            raised.append(call)
    return raised


def run_child(spec: str, journal: Path, body: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys, pathlib\n"
        "from headwater.settings.fault_points import arm, do_then_raise, reach\n"
        "arm(sys.argv[1], journal=pathlib.Path(sys.argv[2]))\n"
        "print('armed', flush=True)\n" + body
    )
    return subprocess.run(
        [sys.executable, "-c", code, spec, str(journal)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_a_point_does_nothing_when_nothing_is_armed() -> None:
    reach(BEFORE)
    with do_then_raise(AFTER):
        pass
    assert fired() == {}


def test_a_disarmed_process_does_not_check_the_name(tmp_path: Path) -> None:
    reach("no_such_point")
    assert fired() == {}
    # With any armed fault, the same call is an error.
    arm(f"{BEFORE}=raise", tmp_path / "journal")
    with pytest.raises(InternalError):
        reach("no_such_point")
    disarm()


def test_an_empty_spec_disarms() -> None:
    arm(f"{BEFORE}=raise@*")
    arm("  ")
    reach(BEFORE)
    assert fired() == {}


@pytest.mark.parametrize(
    ("times", "expected"),
    [("", [1]), ("@1", [1]), ("@3", [3]), ("@2..4", [2, 3, 4]), ("@*", [1, 2, 3, 4, 5])],
)
def test_a_fault_runs_only_at_the_given_times(times: str, expected: list[int]) -> None:
    arm(f"{BEFORE}=raise{times}")
    assert times_raised(BEFORE, calls=5) == expected
    assert fired() == {BEFORE: len(expected)}


def test_each_point_has_its_own_count() -> None:
    arm(f"{BEFORE}=raise@2, {AFTER}=raise@1")
    assert times_raised(BEFORE, calls=1) == []
    assert times_raised(AFTER, calls=2) == [1]
    assert fired() == {BEFORE: 0, AFTER: 1}


def test_arming_again_resets_the_counts() -> None:
    arm(f"{BEFORE}=raise@2")
    reach(BEFORE)
    arm(f"{BEFORE}=raise@2")
    assert times_raised(BEFORE, calls=2) == [2]


def test_concurrent_callers_share_one_count() -> None:
    arm(f"{BEFORE}=raise@7..9")
    raised: list[int] = []
    threads = [
        threading.Thread(target=lambda: raised.extend(times_raised(BEFORE, calls=50)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(raised) == fired()[BEFORE] == 3


def test_the_raised_error_has_the_point_and_the_count() -> None:
    arm(f"{BEFORE}=raise@2")
    reach(BEFORE)
    with pytest.raises(FaultInjectedError, match=f"{BEFORE}.*time 2") as caught:
        reach(BEFORE)
    assert isinstance(caught.value, HeadwaterError)
    assert caught.value.attributes == {"point": BEFORE, "count": 2}


def test_do_then_raise_runs_the_body_before_it_raises() -> None:
    arm(f"{AFTER}=raise")
    done = []
    with pytest.raises(FaultInjectedError), do_then_raise(AFTER):
        done.append("commit")
    assert done == ["commit"]


def test_do_then_raise_propagates_an_error_of_the_body() -> None:
    arm(f"{AFTER}=raise")
    with pytest.raises(ValueError, match="conflict"), do_then_raise(AFTER):
        raise ValueError("conflict")
    assert fired() == {AFTER: 0}


def test_a_delay_sleeps_and_continues() -> None:
    arm(f"{BEFORE}=delay:0.15")
    start = time.monotonic()
    reach(BEFORE)
    assert time.monotonic() - start >= 0.15
    assert fired() == {BEFORE: 1}


def test_two_writers_interleave_at_a_barrier(tmp_path: Path) -> None:
    barrier, journal, order = tmp_path / "go", tmp_path / "journal", []
    arm(f"{BEFORE}=wait:{barrier}", journal=journal)

    def first_writer() -> None:
        reach(BEFORE)
        order.append("first")

    writer = threading.Thread(target=first_writer, daemon=True)
    writer.start()
    wait_until(journal.read_text, 10, "the first writer to reach the fault point")
    order.append("second")
    barrier.touch()
    writer.join(10)
    assert order == ["second", "first"]


def test_a_barrier_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_points, "BARRIER_SECONDS", 0.1)
    arm(f"{BEFORE}=wait:{tmp_path / 'never'}")
    with pytest.raises(BarrierTimeoutError, match="never") as caught:
        reach(BEFORE)
    assert not isinstance(caught.value, FaultInjectedError)


def test_faults_of_one_point_run_in_the_given_order(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    arm(f"{BEFORE}=delay:0@*,{BEFORE}=raise@2", journal=journal)
    assert times_raised(BEFORE, calls=3) == [2]
    words = [line.split()[1:3] for line in journal.read_text().splitlines()]
    assert words == [["delay", "1"], ["delay", "2"], ["raise", "2"], ["delay", "3"]]


def test_a_killed_process_leaves_its_fault_in_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "state" / "journal"
    body = f"for n in (1, 2, 3):\n    reach('{BEFORE}')\n    print(n, flush=True)\n"
    child = run_child(f"{BEFORE}=kill@2", journal, body)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert child.stdout.split() == ["armed", "1"]
    name, action, count, pid = journal.read_text().split()
    assert (name, action, count) == (BEFORE, "kill", "2")
    assert pid.isdigit()
    assert int(pid) != os.getpid()


def test_a_kill_after_the_commit_leaves_the_commit(tmp_path: Path) -> None:
    table = tmp_path / "table"
    body = (
        f"try:\n    with do_then_raise('{AFTER}'):\n"
        f"        pathlib.Path({str(table)!r}).write_text('v1')\n"
        "finally:\n    print('cleaned up')\n"
    )
    child = run_child(f"{AFTER}=kill", tmp_path / "journal", body)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert table.read_text() == "v1"
    assert "cleaned up" not in child.stdout


def test_exit_ends_the_process_with_its_code_even_from_a_thread(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    body = (
        "import threading\n"
        f"thread = threading.Thread(target=reach, args=('{BEFORE}',))\n"
        "thread.start()\nthread.join()\nprint('survived')\n"
    )
    child = run_child(f"{BEFORE}=exit:42", journal, body)
    assert (child.returncode, child.stdout.split()) == (42, ["armed"]), child.stderr
    assert journal.read_text().startswith(f"{BEFORE} exit 1 ")


def test_several_runs_append_to_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    for _ in range(2):
        arm(f"{BEFORE}=raise", journal=journal)
        assert times_raised(BEFORE, calls=2) == [1]
    assert journal.read_text() == f"{BEFORE} raise 1 {os.getpid()}\n" * 2


def test_arming_fails_if_the_journal_is_not_writable(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        arm(f"{BEFORE}=kill", journal=tmp_path)
    assert fired() == {}


def test_the_error_of_an_unknown_point_names_the_setting_and_all_points() -> None:
    with pytest.raises(SettingError, match="befor_batch_write") as caught:
        arm("befor_batch_write=kill")
    assert "HEADWATER_TESTING__FAULT_POINTS" in str(caught.value)
    for point in POINTS:
        assert point in str(caught.value)


@pytest.mark.parametrize(
    "fault",
    [
        BEFORE,
        f"{BEFORE}=",
        f"{BEFORE}=explode",
        f"{BEFORE}=kill:9",
        f"{BEFORE}=kill,",
        f"{BEFORE}=kill@",
        f"{BEFORE}=kill@0",
        f"{BEFORE}=kill@-1",
        f"{BEFORE}=kill@3..2",
        f"{BEFORE}=kill@1..",
        f"{BEFORE}=kill@two",
        f"{BEFORE}=kill@1@2",
        f"{BEFORE}=delay",
        f"{BEFORE}=delay:",
        f"{BEFORE}=delay:-1",
        f"{BEFORE}=delay:nan",
        f"{BEFORE}=delay:1e9",
        f"{BEFORE}=exit:256",
        f"{BEFORE}=exit:x",
        f"{BEFORE}=wait:",
    ],
)
def test_an_invalid_fault_is_rejected_and_the_armed_ones_are_kept(fault: str) -> None:
    arm(f"{AFTER}=raise")
    with pytest.raises(SettingError, match="HEADWATER_TESTING__FAULT_POINTS") as caught:
        arm(fault)
    assert "point=action" in str(caught.value.hint)
    assert times_raised(AFTER, calls=1) == [1]


@given(st.text(alphabet=f"{BEFORE}killraisedelaywaitexit:=@.,*0123456789 \n\0\ud800"))
@example(f"{BEFORE}=wait:\0")
@example(f"{BEFORE}=kill@" + "9" * 5000)
def test_any_text_is_armed_or_rejected_with_an_error(text: str) -> None:
    try:
        arm(text)
    except SettingError:
        return
    assert set(fired()) <= POINTS


def test_an_armed_process_rejects_an_unknown_point() -> None:
    arm(f"{BEFORE}=raise")
    with pytest.raises(InternalError, match="no_such_point"):
        reach("no_such_point")


def test_a_disarmed_point_is_cheap() -> None:
    start = time.thread_time()
    for _ in range(100_000):
        reach(BEFORE)
    # About 4 ms here; a lock or a lookup in the environment would take more than 10 times as long.
    assert time.thread_time() - start < 0.5
