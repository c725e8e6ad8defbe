"""`down --wipe` deletes what Headwater made, and nothing else."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import environment

from headwater.model.local_files import MARK, is_marked, private_home, state_folder
from headwater.service import down
from headwater.service.processes import pid_file
from headwater.service.wiping import STATE_PATHS, archives_of, make_private, wipe
from headwater.settings import load
from headwater.storage.checkpoint import checkpoint_location
from headwater.storage.tables.registry import KnownTable, register

ARCHIVES = ("archive", "lineage-index", "replays", "tables", "warehouse")
FOLDERS = [name for name in STATE_PATHS if name not in (MARK, "faults.journal")]


def file_in(folder: Path, name: str, text: str = "x") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def delta_table(folder: Path, properties: str) -> None:
    commit = {"metaData": {"configuration": {properties: "1"}}}
    file_in(folder / "_delta_log", f"{0:020}.json", json.dumps(commit))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_the_user_is_kept_whatever_its_name_is(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    mine = file_in(home / name, "my-notes.txt")
    down(load(home=home), wipe=True, archives=True)
    assert mine.read_text() == "x"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_headwater_made_is_deleted_and_archives_only_on_request(
    name: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    file_in(state_folder(home, name), "content")
    wipe(home, archives=False)
    assert (home / name).exists() is (name in ARCHIVES)
    wipe(home, archives=True)
    assert not home.exists()


def test_the_user_keeps_an_empty_home_that_headwater_did_not_make(tmp_path: Path) -> None:
    file_in(state_folder(tmp_path, "logs"), "kafka.log")
    wipe(tmp_path, archives=True)
    assert list(tmp_path.iterdir()) == []


def test_a_link_with_the_name_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = state_folder(tmp_path / "elsewhere", "logs")
    home = tmp_path / "home"
    home.mkdir()
    (home / "logs").symlink_to(elsewhere)
    wipe(home, archives=True)
    assert is_marked(elsewhere)


def test_a_home_of_an_earlier_version_is_recognised_by_its_content(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder, name in [
        ("kafka", "server.properties"),
        ("logs", "kafka.out"),
        ("logs", "postgres.log"),
        ("postgres", "password"),
        ("redrive", "visits.lock"),
        ("run", "up.lock"),
        ("run", "demo-17.json"),
        ("spool/open-runs", "a.json"),
        ("demo/scraped", "articles.csv"),
        ("checkpoints/my-job/headwater", "lease"),
        ("replays/r-1", "plan.json"),
    ]:
        file_in(home / folder, name)
    delta_table(home / "archive" / "visits", "headwater.archive")
    delta_table(home / "lineage-index", "headwater.lineageIndex")
    register(KnownTable("t", "/t"), load(home=home))
    (home / "tables" / MARK).unlink(missing_ok=True)
    archives = {path.name for path in archives_of(home)}
    assert archives == {"archive", "lineage-index", "replays", "tables"}
    wipe(home, archives=False)
    assert {path.name for path in home.iterdir()} == archives
    wipe(home, archives=True)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("archive/2024", "report.pdf"),
        ("archive/mine/_delta_log", "00000000000000000000.json"),
        ("checkpoints/model", "weights.bin"),
        ("logs", "nginx.log"),
        ("tables", "prices.json"),
    ],
)
def test_a_folder_without_a_mark_that_has_other_content_is_kept(
    folder: str, name: str, tmp_path: Path
) -> None:
    mine = file_in(tmp_path / folder, name, "{}")
    wipe(tmp_path, archives=True)
    assert mine.exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_of_the_home_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        settings = load(home=tmp_path / "new" / "home")
        checkpoint_location("job", None, settings)
        register(KnownTable("t", "/t"), settings)
        with pid_file("demo", settings.home_dir):
            pass
    finally:
        os.umask(before)
    home = settings.home_dir
    made = [home.parent, home, *(path for path in home.iterdir() if path.is_dir())]
    assert {path.name for path in made} == {"new", "home", "checkpoints", "tables", "run"}
    assert {mode(path) for path in made} == {0o700}


def test_folders_of_an_earlier_version_become_private(tmp_path: Path) -> None:
    file_in(tmp_path / "logs", "kafka.log")
    file_in(tmp_path / "archive", "my-notes.txt")
    for folder in (tmp_path, tmp_path / "logs", tmp_path / "archive"):
        folder.chmod(0o755)
    make_private(tmp_path)
    assert [mode(tmp_path / name) for name in ("logs", "archive")] == [0o700, 0o755]
    assert mode(tmp_path) == 0o700
    tmp_path.chmod(0o755)
    file_in(tmp_path, "of-the-user.txt")
    make_private(tmp_path)
    assert mode(tmp_path) == 0o755, "the home is a folder of the user"


def test_an_existing_home_is_not_marked(tmp_path: Path) -> None:
    private_home(tmp_path)
    assert not is_marked(tmp_path)


def run_down(home: Path, *options: str, stdin: int = subprocess.DEVNULL) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "down", "--wipe", *options],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=home.parent,
        env=environment(load(home=home)),
    )
    return done.stdout + done.stderr


def test_without_a_terminal_archives_are_kept_and_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    archive = state_folder(home, "archive")
    file_in(home / "logs", "nginx.log")
    output = run_down(home)
    assert f"kept: {archive} (--archives deletes it)" in output
    assert f"kept: {home / 'logs'} (not made by Headwater" in output
    assert archive.exists()
    run_down(home, "--archives")
    assert [path.name for path in home.iterdir() if path.is_dir()] == ["logs"]


@pytest.mark.parametrize(("answer", "kept"), [("n", True), ("", True), ("y", False)])
def test_on_a_terminal_the_user_is_asked(answer: str, kept: bool, tmp_path: Path) -> None:
    home = tmp_path / "home"
    archive = state_folder(home, "archive")
    terminal, child = pty.openpty()
    try:
        os.write(terminal, f"{answer}\n".encode())
        output = run_down(home, stdin=child)
    finally:
        os.close(terminal)
        os.close(child)
    assert f"Also delete {archive}?" in output
    assert archive.exists() is kept
