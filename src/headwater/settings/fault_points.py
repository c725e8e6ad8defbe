"""Named points in production code where a test can inject a fault.

Code calls `reach("before_recovery")`; nothing happens unless `arm` was called in the same
process with the setting `testing.fault_points`, a list of `point=action[@times]`:

    before_recovery=kill@2, after_recovery=delay:1.5@1..3

    kill            SIGKILL to this process
    raise           FaultInjectedError
    delay:SECONDS   sleep, then continue
    exit:CODE       exit the process at once, without clean-up
    wait:PATH       a barrier: wait until the file exists, at most `BARRIER_SECONDS`

    @2 the second time only, @2..4 a range, @* every time; without it the first time only

A point can be named more than once: matching actions run in the given order. Times are counted
per process, starting with `arm`.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError, InternalError, SettingError

SETTING = "HEADWATER_TESTING__FAULT_POINTS"

# All points. They are listed here, not registered by modules on import, because a spec is parsed at
# start, before most modules are imported.
POINTS: frozenset[str] = frozenset(
    {
        "before_recovery",
        "after_recovery",
        "failed_records_stored",
        "before_failed_records",
        "after_failed_records",
        "record_redriven",
        "before_replay_step",
        "after_replay_step",
        "before_replay_manifest",
        "before_index_commit",
        "after_index_commit",
        "before_index_compaction",
        "before_table_commit",
        "after_table_commit",
        "before_archive_commit",
        "after_archive_commit",
        "before_archive_compaction",
        "before_catalog_commit",
        "after_catalog_commit",
        "before_spool_fsync",
        "after_spool_fsync",
    }
)

# Long enough to start a Spark session in another process, shorter than the timeout of a test.
BARRIER_SECONDS = 30.0
_POLL_SECONDS = 0.01

# The argument of each action. A path can't contain a comma or `@`, which end an action.
_ARGUMENTS: Mapping[str, re.Pattern[str]] = {
    "kill": re.compile(""),
    "raise": re.compile(""),
    "delay": re.compile(r":[0-9]{1,4}(\.[0-9]{1,6})?"),
    "exit": re.compile(r":([0-9]{1,2}|1[0-9]{2}|2[0-4][0-9]|25[0-5])"),
    "wait": re.compile(r":[^\0]+"),
}
_TIMES = re.compile(r"(?P<first>[1-9][0-9]{0,8})(\.\.(?P<last>[1-9][0-9]{0,8}))?")
_FORMAT = "`point=action[@times]`; actions: kill, raise, delay:SECONDS, exit:CODE, wait:PATH"


class FaultInjectedError(HeadwaterError):
    """A failure that a test injected."""


class BarrierTimeoutError(HeadwaterError):
    """The file of a `wait` was not created: a mistake in the test, not the injected fault."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """An action at a point, and the times at which it runs."""

    point: str
    action: str
    argument: str
    first: int
    last: int | None

    def matches(self, count: int) -> bool:
        return self.first <= count and (self.last is None or count <= self.last)

    def run(self, count: int) -> None:
        match self.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "delay":
                time.sleep(float(self.argument))
            case "exit":
                # Not sys.exit, which only ends the thread in Spark's callbacks.
                os._exit(int(self.argument))
            case "wait":
                self._wait(count)
            case _:
                raise FaultInjectedError(
                    f"fault point {self.point}: raised at time {count}",
                    point=self.point,
                    count=count,
                )

    def _wait(self, count: int) -> None:
        deadline = time.monotonic() + BARRIER_SECONDS
        while not os.path.exists(self.argument):
            if time.monotonic() > deadline:
                raise BarrierTimeoutError(
                    f"fault point {self.point} waited {BARRIER_SECONDS:g} s at time {count}"
                    f" for a file that did not appear: {self.argument}",
                    point=self.point,
                    count=count,
                )
            time.sleep(_POLL_SECONDS)


class _Armed:
    """The faults of one `arm`, with their counts."""

    def __init__(self, faults: tuple[_Fault, ...], journal: Path | None) -> None:
        self._faults = faults
        self._journal = journal
        self._reached = dict.fromkeys(POINTS, 0)
        self._fired = {fault.point: 0 for fault in faults}
        self._lock = threading.Lock()

    def reach(self, name: str) -> None:
        if name not in self._reached:
            raise InternalError(f"fault point is not in POINTS: {name!r}", point=name)
        with self._lock:
            self._reached[name] += 1
            count = self._reached[name]
        for fault in self._faults:
            if fault.point == name and fault.matches(count):
                self._log(fault, count)
                fault.run(count)

    def fired(self) -> dict[str, int]:
        with self._lock:
            return dict(self._fired)

    def _log(self, fault: _Fault, count: int) -> None:
        with self._lock:
            self._fired[fault.point] += 1
        if self._journal is None:
            return
        line = f"{fault.point} {fault.action} {count} {os.getpid()}\n"
        # A single write in append mode, so that lines of several processes are not mixed.
        with self._journal.open("ab", buffering=0) as journal:
            journal.write(line.encode())
            os.fsync(journal.fileno())


# None unless a test has armed faults.
current: _Armed | None = None


def reach(name: str) -> None:
    """Run the actions that a test armed for this point; otherwise do nothing.

    Raises:
        FaultInjectedError: the armed action is `raise`.
        BarrierTimeoutError: the armed action is `wait`, and the file did not appear.
    """
    armed = current
    if armed is not None:
        armed.reach(name)


@contextmanager
def do_then_raise(name: str) -> Iterator[None]:
    """Run the body, then reach the point: the commit succeeded, but its response was lost.

    A body that raises does not reach the point.
    """
    yield
    reach(name)


def arm(spec: str, journal: Path | None = None) -> None:
    """Replace the armed faults with `spec`, and reset the counts. An empty spec disarms.

    Args:
        spec: the setting `testing.fault_points`, in the format described above.
        journal: a file to which a line `name action count pid` is appended for every action. It
            is synced before the action runs, so that it survives a SIGKILL.

    Raises:
        SettingError: `spec` is invalid, or names an unknown point. The armed faults are kept.
        OSError: the journal can't be written.
    """
    global current
    faults = _parse(spec)
    if faults and journal is not None:
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.open("ab").close()
    current = _Armed(faults, journal) if faults else None


def disarm() -> None:
    """Disarm all faults, and reset the counts."""
    global current
    current = None


def fired() -> Mapping[str, int]:
    """The number of actions that ran, for each armed point."""
    armed = current
    return {} if armed is None else armed.fired()


def _parse(spec: str) -> tuple[_Fault, ...]:
    if not spec.strip():
        return ()
    return tuple(_parse_fault(item.strip()) for item in spec.split(","))


def _parse_fault(item: str) -> _Fault:
    point, has_action, rest = item.partition("=")
    if not has_action:
        raise _invalid(f"not a fault: {item!r}", item)
    if point not in POINTS:
        raise _invalid(f"unknown fault point: {point!r}", item)
    text, has_times, times = rest.partition("@")
    action, _, argument = text.partition(":")
    pattern = _ARGUMENTS.get(action)
    if pattern is None or pattern.fullmatch(text.removeprefix(action)) is None:
        raise _invalid(f"unknown action: {text!r} in {item!r}", item)
    first, last = _parse_times(times, item) if has_times else (1, 1)
    return _Fault(point, action, argument, first, last)


def _parse_times(times: str, item: str) -> tuple[int, int | None]:
    if times == "*":
        return 1, None
    match = _TIMES.fullmatch(times)
    first, last = (int(match["first"]), int(match["last"] or match["first"])) if match else (1, 0)
    if last < first:
        raise _invalid(f"not a number of times: {times!r} in {item!r}", item)
    return first, last


def _invalid(message: str, item: str) -> SettingError:
    return SettingError(
        f"setting {SETTING}: {message}; known points: {', '.join(sorted(POINTS))}",
        hint=f"a fault is {_FORMAT}; times: @2, @2..4 or @*",
        setting=SETTING,
        value=item,
    )
