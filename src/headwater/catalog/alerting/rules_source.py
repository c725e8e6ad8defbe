"""Where the rules of alerts come from: a file that may appear, change or break while the service
runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from pathlib import Path

from headwater.catalog.alerting.channels import undefined
from headwater.catalog.alerting.fields import Scope
from headwater.catalog.alerting.rules import Rule, read_rules
from headwater.errors import AlertRulesError

_LOG = logging.getLogger("headwater.catalog.alerting")


class RulesSource:
    """The rules as they were last read. `find` says where the file lies; it is asked until there
    is one."""

    def __init__(self, find: Callable[[], Path | None], channels: Container[str]) -> None:
        self.rules: list[Rule] = []
        # Whether a file was read at all: until then nobody knows which alerts there are.
        self.known = False
        # What is wrong with the file, if it is newer than the rules.
        self.problem: str | None = None
        self.watches_datasets = False
        self._find = find
        self._channels = channels
        self._file: Path | None = None
        self._stamp: tuple[int, int] | None = None

    def there(self) -> bool:
        """Whether there is a file, or was: one that vanished is a mistake, not an end of rules."""
        if self._file is None:
            try:
                self._file = self._find()
            except OSError:
                # The working folder is gone, say.
                return False
        return self._file is not None

    def read(self) -> bool:
        """Read the file if it has changed; whether rules are new. A bad file changes nothing."""
        if not self.there():
            return False
        assert self._file is not None  # noqa: S101 - it is there
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return False
            self.rules = read_rules(self._file)
        except (OSError, AlertRulesError) as error:
            # Read anew the next time: what stood in the way may be gone while the file is the same.
            self._stamp = None
            if self.problem != str(error):
                _LOG.error("alerts: %s", error)
            self.problem = str(error)
            return False
        self._stamp, self.problem, self.known = stamp, None, True
        self.watches_datasets = any(r.condition.scope is Scope.DATASET for r in self.rules)
        missing = list(undefined(self.rules, self._channels))
        if missing:
            _LOG.warning("alerts: no setting defines these channels: %s", ", ".join(missing))
        return True
