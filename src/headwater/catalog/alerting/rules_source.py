"""Loads the rules file, which may appear, change or become invalid while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from pathlib import Path

from headwater.catalog.alerting.channels import undefined_channels
from headwater.catalog.alerting.fields import Scope
from headwater.catalog.alerting.rules import Rule, read_rules
from headwater.errors import AlertRulesError

_LOG = logging.getLogger("headwater.catalog.alerting")


class RulesSource:
    """The rules as last loaded. `find` returns the file's path; it is called until one exists."""

    def __init__(self, find: Callable[[], Path | None], channels: Container[str]) -> None:
        self.rules: list[Rule] = []
        # Whether a file was loaded at all: until then it is unknown which alerts exist.
        self.loaded = False
        # The error of the file, if it is newer than the rules.
        self.problem: str | None = None
        self.has_dataset_rules = False
        self._find = find
        self._channels = channels
        self._file: Path | None = None
        self._stamp: tuple[int, int] | None = None

    def exists(self) -> bool:
        """Whether there is or was a file: a file that disappeared is an error, not an empty one."""
        if self._file is None:
            try:
                self._file = self._find()
            except OSError:
                # For example, the working directory was deleted.
                return False
        return self._file is not None

    def reload(self) -> bool:
        """Load the file if it changed, and return whether it did. A bad file keeps the rules."""
        if not self.exists():
            return False
        assert self._file is not None  # noqa: S101 - it exists
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return False
            self.rules = read_rules(self._file)
        except (OSError, AlertRulesError) as error:
            # Read it again next time: the error may disappear without a change of the file.
            self._stamp = None
            if self.problem != str(error):
                _LOG.error("alerts: %s", error)
            self.problem = str(error)
            return False
        self._stamp, self.problem, self.loaded = stamp, None, True
        self.has_dataset_rules = any(r.condition.scope is Scope.DATASET for r in self.rules)
        missing = list(undefined_channels(self.rules, self._channels))
        if missing:
            _LOG.warning("alerts: no setting defines these channels: %s", ", ".join(missing))
        return True
