"""A child process that measures regular expressions: one that freezes ends with the process.

Reads JSON from stdin: a list of `[name, pattern, flags, method, [[prefix, pump, suffix], …]]`.
Prints the name of each expression before it is measured, and a line `slow` for a slow text.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any

# An exponential expression needs seconds for this many repetitions.
_FEW = 22
_FEW_SECONDS = 0.05
# Lengths for expressions of a higher power: twice the length may take at most three times as long.
_LENGTHS = (60, 150, 600, 6_000)
_NOTICED_SECONDS = 0.005
_MAX_GROWTH = 3.0


def _seconds(pattern: re.Pattern[Any], method: str, text: Any) -> float:
    arguments: tuple[Any, ...] = (text,)
    if method in ("sub", "subn"):
        arguments = (text[:0], text)
    began = time.thread_time()
    found = getattr(pattern, method)(*arguments)
    if method == "finditer":
        list(found)
    return time.thread_time() - began


def _is_slow(pattern: re.Pattern[Any], method: str, hostile: list[str]) -> str | None:
    prefix, pump, suffix = hostile

    def measured(count: int, tries: int = 1) -> float:
        text: Any = prefix + pump * count + suffix
        if isinstance(pattern.pattern, bytes):
            text = text.encode("utf-8", "surrogatepass")
        return min(_seconds(pattern, method, text) for _ in range(tries))

    if measured(_FEW) > _FEW_SECONDS and measured(_FEW, 2) > _FEW_SECONDS:
        return "exponential"
    for length in _LENGTHS:
        count = max(length // len(pump), 1)
        if measured(count) <= _NOTICED_SECONDS:
            continue
        once = measured(count, 3)
        if once > _NOTICED_SECONDS and measured(2 * count, 2) > _MAX_GROWTH * once:
            return f"{once:.3f} s for {length} characters, and faster than linear"
    return None


def main() -> None:
    for name, pattern, flags, method, texts in json.load(sys.stdin):
        print(name, flush=True)
        raw = pattern["bytes"].encode("latin-1") if isinstance(pattern, dict) else pattern
        compiled = re.compile(raw, flags)
        for hostile in texts:
            slow = _is_slow(compiled, method, hostile)
            if slow is not None:
                print(f"slow: {name}: {slow}: {hostile!r}", flush=True)
                break


if __name__ == "__main__":
    main()
