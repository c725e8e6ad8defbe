"""What is kept of a replay: its plan, its ledger of steps, and its manifest.

    HEADWATER_HOME/replays/ID/plan.json
                              offsets/N      written before step N: the offsets that it reads
                              commits/N      written after it: what it did
                              manifest.json  written at the end

The ledger has the form of a Spark checkpoint, a step in the place of a micro-batch: so whatever
finishes a batch that was cut off finishes a step, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headwater.errors import InputError, UnknownReplayError
from headwater.replay.manifest import DONE, Manifest, StepResult, signature_doubt
from headwater.replay.offsets import ranges_as_json
from headwater.replay.plan import Plan
from headwater.settings import Settings
from headwater.storage.checkpoint import QueryProgress, read_progress
from headwater.storage.offset_ranges import OffsetRanges


class ReplayFolder:
    """The folder of one replay."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, replay_id: str, settings: Settings) -> ReplayFolder:
        return cls(replays_folder(settings) / replay_id)

    @property
    def replay_id(self) -> str:
        return self.path.name

    def exists(self) -> bool:
        return (self.path / "plan.json").is_file()

    def begin(self, plan: Plan, request: str, began: str) -> None:
        """Keep the plan before anything is done; `request` tells the same request again."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = {"plan": plan.as_json(), "request": request, "began": began}
        write_durably(self.path / "plan.json", json.dumps(content, indent=2))

    def plan(self) -> Plan:
        return Plan.from_json(self._note()["plan"])

    def request(self) -> str:
        return str(self._note()["request"])

    def began(self) -> str:
        return str(self._note()["began"])

    def progress(self) -> QueryProgress:
        """The newest step that was begun, and the newest that was committed."""
        return read_progress(self.path)

    def note_ends(self, name: str, ends: Mapping[str, Mapping[str, int]]) -> None:
        """Note where the target ends, unless that was done by an earlier start."""
        path = self.path / f"ends-{name}.json"
        if not path.is_file():
            write_durably(path, json.dumps(ends))

    def noted_ends(self, name: str) -> dict[str, Any]:
        return _json(self.path / f"ends-{name}.json") or {}

    def begin_step(self, number: int, offsets: Mapping[int, OffsetRanges], topic: str) -> None:
        self._write_step("offsets", number, {}, {topic: ranges_as_json(offsets)})

    def commit_step(self, number: int, result: StepResult) -> None:
        self._write_step("commits", number, result.as_json())

    def result(self) -> StepResult:
        """What all steps did together."""
        total = StepResult()
        for number in range(self.progress().committed + 1):
            line = (self.path / "commits" / str(number)).read_text().splitlines()[1]
            total.merge(StepResult.from_json(json.loads(line)))
        return total

    def keep_manifest(self, manifest: Manifest, settings: Settings) -> None:
        """Sign it, if a key is set, and keep it."""
        content = manifest.as_json(signing_key(settings))
        write_durably(self.path / "manifest.json", json.dumps(content, indent=2))

    def manifest_content(self) -> dict[str, Any] | None:
        """The manifest as it is kept; None while there is none.

        Raises:
            InputError: it is not JSON.
        """
        return _json(self.path / "manifest.json")

    def manifest(self) -> Manifest | None:
        content = self.manifest_content()
        return None if content is None else Manifest.from_json(content)

    def doubt(self, settings: Settings) -> str | None:
        """Why the manifest's signature proves nothing; None if it does, or none is asked for."""
        return signature_doubt(self.manifest_content() or {}, signing_key(settings))

    def state(self) -> str:
        """`done`, `undone`, or how far it has come."""
        manifest = self.manifest()
        if manifest is not None:
            return manifest.state
        return f"{self.progress().committed + 1} of {self.plan().steps} steps"

    def is_done(self) -> bool:
        manifest = self.manifest()
        return manifest is not None and manifest.state == DONE

    def _note(self) -> dict[str, Any]:
        content = _json(self.path / "plan.json")
        if content is None:
            raise UnknownReplayError(f"there is no replay {self.replay_id!r}")
        return content

    def _write_step(self, folder: str, number: int, *lines: Mapping[str, Any]) -> None:
        (self.path / folder).mkdir(exist_ok=True)
        text = "\n".join(["v1", *(json.dumps(line) for line in lines)])
        write_durably(self.path / folder / str(number), text)


def replays_folder(settings: Settings) -> Path:
    """Where all replays are kept."""
    return settings.home_dir / "replays"


def all_replays(settings: Settings) -> Iterator[ReplayFolder]:
    """Every replay that was begun, oldest first."""
    folder = replays_folder(settings)
    paths = [path.parent for path in folder.glob("*/plan.json")] if folder.is_dir() else []
    yield from sorted(map(ReplayFolder, paths), key=lambda one: (one.began(), one.replay_id))


def find_replay(replay_id: str, settings: Settings) -> ReplayFolder:
    """The replay of that id, or of the only one that begins like it.

    Raises:
        UnknownReplayError: there is none, or several begin like it.
    """
    exact = [one for one in all_replays(settings) if one.replay_id == replay_id]
    alike = [one for one in all_replays(settings) if one.replay_id.startswith(replay_id)]
    found = exact or (alike if replay_id else [])
    if len(found) != 1:
        what = "no replay has" if not found else "several replays have"
        raise UnknownReplayError(
            f"{what} the id {replay_id!r}", hint="`headwater replay list` shows all"
        )
    return found[0]


def signing_key(settings: Settings) -> str | None:
    key = settings.replay.signing_key
    return None if key is None else key.get_secret_value()


def write_durably(path: Path, text: str) -> None:
    """All of it or nothing, also when the machine stops."""
    unfinished = path.with_name(f".{path.name}.tmp")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no object")
    return content
