"""Runs a command as a container would: as a user that is not root, with read-only file systems."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

# Every mount becomes read-only, except `/proc`: the second namespace is written to it. The first
# user namespace is for the mounts, the second one to be another user without any capability.
_SCRIPT = """
user=$1 writable=$2
shift 2
cut -d' ' -f2 /proc/self/mounts | grep -v '^/proc' | while read -r folder; do
    mount -o remount,bind,ro "$folder" 2>/dev/null || true
done
for folder in $writable; do
    mount --bind "$folder" "$folder"
    mount -o remount,bind,rw "$folder"
done
exec setpriv --no-new-privs unshare --user --map-user="$user" --map-group="$user" -- "$@"
"""


def restricted(command: Sequence[str], *, user: int, writable: Sequence[Path] = ()) -> list[str]:
    """The command line that runs `command` as `user`, with read-only file systems.

    Args:
        writable: folders that can be written, such as those of volumes.
    """
    namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]
    folders = " ".join(map(str, writable))
    return [*namespaces, "sh", "-ec", _SCRIPT, "sh", str(user), folders, *command]


@cache
def _reason() -> str | None:
    try:
        subprocess.run(
            restricted(["true"], user=10001), check=True, capture_output=True, timeout=30
        )
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", b"") or b""
        return f"no user namespaces: {output.decode().strip() or error}"
    return None


def require_sandbox() -> None:
    """Skip the test on a machine that has no user namespaces."""
    if (reason := _reason()) is not None:
        pytest.skip(reason)
