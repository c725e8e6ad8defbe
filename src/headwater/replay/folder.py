"""The files of a replay: its plan, its ledger of steps, and its manifest.

    HEADWATER_HOME/replays/ID/plan.json
                              offsets/N      written before step N: the offsets that it reads
                              commits/N      written after step N: its result
                              manifest.json  written at the end

The ledger has the format of a Spark checkpoint, with a step as a micro-batch, so that the code
that completes an interrupted batch also completes an interrupted step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headwater.errors import InputError, UnknownReplayError
from headwater.model.local_files import state_folder, write_durably
from headwater.replay.manifest import Manifest, StepResult, signature_problem
from headwater.replay.plan import Plan, ranges_as_json
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

    def make(self) -> None:
        """Make the folder, unless it exists."""
        state_folder(self.path.parents[1], self.path.parent.name)
        self.path.mkdir(exist_ok=True)

    def begin(self, plan: Plan, request: str, began: str) -> None:
        """Store the plan before the first step; `request` identifies the same request later."""
        self.make()
        content = {"plan": plan.as_json(), "request": request, "began": began}
        write_durably(self.path / "plan.json", json.dumps(content, indent=2))

    def plan(self) -> Plan:
        return Plan.from_json(self._stored_plan()["plan"])

    def request(self) -> str:
        return str(self._stored_plan()["request"])

    def began(self) -> str:
        return str(self._stored_plan()["began"])

    def progress(self) -> QueryProgress:
        """The latest step that was started, and the latest that was committed."""
        return read_progress(self.path)

    def store_ends(self, name: str, ends: Mapping[str, Mapping[str, int]]) -> None:
        """Store the target's end offsets, unless an earlier, interrupted run has stored them."""
        path = self.path / f"ends-{name}.json"
        if not path.is_file():
            write_durably(path, json.dumps(ends))

    def stored_ends(self, name: str) -> dict[str, Any]:
        return _json(self.path / f"ends-{name}.json") or {}

    def begin_step(self, number: int, offsets: Mapping[int, OffsetRanges], topic: str) -> None:
        self._write_step("offsets", number, {}, {topic: ranges_as_json(offsets)})

    def commit_step(self, number: int, result: StepResult) -> None:
        self._write_step("commits", number, result.as_json())

    def result(self) -> StepResult:
        """The sum of all steps' results."""
        total = StepResult()
        for number in range(self.progress().committed + 1):
            line = (self.path / "commits" / str(number)).read_text().splitlines()[1]
            total.merge(StepResult.from_json(json.loads(line)))
        return total

    def store_manifest(self, manifest: Manifest, settings: Settings) -> None:
        """Sign the manifest, if a key is set, and store it."""
        content = manifest.as_json(_signing_key(settings))
        write_durably(self.path / "manifest.json", json.dumps(content, indent=2))

    def manifest_content(self) -> dict[str, Any] | None:
        """The manifest as it is stored; None until the replay is done.

        Raises:
            InputError: it is not JSON.
        """
        return _json(self.path / "manifest.json")

    def manifest(self) -> Manifest | None:
        content = self.manifest_content()
        return None if content is None else Manifest.from_json(content)

    def signature_problem(self, settings: Settings) -> str | None:
        """Why the manifest's signature is not valid; None if it is, or if no key is set."""
        return signature_problem(self.manifest_content() or {}, _signing_key(settings))

    def state(self) -> str:
        """`done`, `undone`, or the number of steps that are done."""
        manifest = self.manifest()
        if manifest is not None:
            return manifest.state
        return f"{self.progress().committed + 1} of {self.plan().steps} steps"

    def _stored_plan(self) -> dict[str, Any]:
        content = _json(self.path / "plan.json")
        if content is None:
            raise UnknownReplayError(f"there is no replay {self.replay_id!r}")
        return content

    def _write_step(self, folder: str, number: int, *lines: Mapping[str, Any]) -> None:
        text = "\n".join(["v1", *(json.dumps(line) for line in lines)])
        write_durably(self.path / folder / str(number), text)


def replays_folder(settings: Settings) -> Path:
    """The folder of all replays."""
    return settings.home_dir / "replays"


def all_replays(settings: Settings) -> Iterator[ReplayFolder]:
    """Every replay that was started, oldest first."""
    folder = replays_folder(settings)
    paths = [path.parent for path in folder.glob("*/plan.json")] if folder.is_dir() else []
    yield from sorted(map(ReplayFolder, paths), key=lambda each: (each.began(), each.replay_id))


def find_replay(replay_id: str, settings: Settings) -> ReplayFolder:
    """The replay with this id, or the only one whose id starts with it.

    Raises:
        UnknownReplayError: there is none, or several ids start with it.
    """
    replays = list(all_replays(settings))
    exact = [folder for folder in replays if folder.replay_id == replay_id]
    by_prefix = [folder for folder in replays if folder.replay_id.startswith(replay_id)]
    matching = exact or (by_prefix if replay_id else [])
    if len(matching) != 1:
        what = "no replay has" if not matching else "several replays have"
        raise UnknownReplayError(
            f"{what} the id {replay_id!r}", hint="`headwater replay list` shows all"
        )
    return matching[0]


def _signing_key(settings: Settings) -> str | None:
    key = settings.replay.signing_key
    return None if key is None else key.get_secret_value()


def _json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object")
    return content
