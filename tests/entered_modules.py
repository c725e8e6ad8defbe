"""Runs the command line and writes the modules of Headwater whose functions were called.

    python tests/entered_modules.py FILE run visits_decorator_job …

Code that runs while a module is imported does not count.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import headwater
from headwater.cli import main

_ROOT = str(Path(headwater.__file__).parent)
_OPTIMIZED = 0x01  # CO_OPTIMIZED: a function, not the body of a module or class

entered: set[str] = set()


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _on_event(frame: FrameType, event: str, argument: Any) -> None:
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(_ROOT) or code.co_filename in entered:
        return
    if code.co_flags & _OPTIMIZED and not _importing(frame):
        entered.add(code.co_filename)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    sys.argv[1:] = sys.argv[2:]
    threading.setprofile(_on_event)
    sys.setprofile(_on_event)
    try:
        main()
    finally:
        sys.setprofile(None)
        target.write_text("\n".join(sorted(str(Path(each).relative_to(_ROOT)) for each in entered)))
