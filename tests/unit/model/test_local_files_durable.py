"""Durable writes, and file systems that other hosts use, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.model.local_files import network_file_system, write_durably

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /mnt/share rw shared:9 - nfs4 server:/export rw,vers=4.2
31 22 0:27 / /mnt/share/local rw - xfs /dev/sdb1 rw
32 22 0:28 / /mnt/with\040space rw - fuse.sshfs host:/ rw
33 22 0:29 / /data rw - nfs server:/a rw
34 22 0:30 / /data rw - ext4 /dev/sdc1 rw
35 22 0:31 / /smb rw master:1 - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/ann/checkpoint", None),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/checkpoints/clean", "nfs4"),
        ("/mnt/shared", None),
        ("/mnt/share/local/clean", None),
        ("/mnt/with space/clean", "fuse.sshfs"),
        ("/data/clean", None),
        ("/smb/clean", "cifs"),
    ],
)
def test_a_network_file_system_is_known_by_its_mount(
    tmp_path: Path, path: str, kind: str | None
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.lstrip())
    assert network_file_system(Path(path), mounts) == kind


def test_without_a_list_of_mounts_a_file_system_counts_as_local(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "none") is None
    assert network_file_system(tmp_path) is None


def test_a_file_and_its_folder_are_synced_before_the_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new" / "file.json"
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def record(handle: int) -> None:
        synced.append((Path(f"/proc/self/fd/{handle}").resolve().name, file.exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", record)
    write_durably(file, "content")
    assert file.read_text() == "content"
    assert [path.name for path in file.parent.iterdir()] == ["file.json"]
    # The new folder's name, the content before the rename, and the rename.
    assert synced == [(tmp_path.name, False), (".file.json.tmp", False), ("new", True)]
