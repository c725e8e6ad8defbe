"""A real Chromium for tests of the page: Debian's, or the one that an npm package carries."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

WEB = Path(__file__).parents[1] / "web"
_AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# For all that a page has to do or to show: several browsers may share two cores.
_PATIENCE_MS = 15_000
# The rules of WCAG 2.2 AA, and good practice.
_RULES = """async (scope) => {
    const found = await axe.run(scope, {resultTypes: ["violations"], preload: false});
    return found.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 160) + " " +
        (n.any[0] ? n.any[0].message.slice(0, 120) : "")).slice(0, 4).join(" | "));
}"""


def executable() -> str:
    """Where the browser is; skips the test where there is neither it nor Node."""
    if not _AXE.is_file():
        pytest.skip("web/node_modules is not there: `make page-test` installs it, with Node")
    found = shutil.which("chromium")
    if found:
        return found
    command = ["node", str(WEB / "browser.mjs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@contextmanager
def chromium() -> Iterator[Browser]:
    """An empty profile, closed at the end."""
    path = executable()
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield browser
        browser.close()


class Visit:
    """A tab, and all that it complained about."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        self.context = browser.new_context(base_url=url, reduced_motion="reduce", **options)
        self.context.set_default_timeout(_PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        # An answer other than success is a state of the page, and told by the browser as well.
        answers = "Failed to load resource: the server responded with a status of"
        if message.type in ("error", "warning") and answers not in message.text:
            self.complaints.append(message.text)

    def violations(self) -> list[str]:
        """What axe finds in the view as it stands."""
        if not self.page.evaluate("() => 'axe' in window"):
            # Not as an element of the page: its policy would refuse that, as it should.
            self.page.evaluate(_AXE.read_text(encoding="utf-8") + ";0")
        found: list[str] = self.page.evaluate(_RULES, "body")
        return found

    def close(self) -> None:
        self.context.close()
