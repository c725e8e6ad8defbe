"""A real Chromium for tests of the page: Debian's, or the one of an npm package."""

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
# For every action and assertion: several browsers may share two cores.
_TIMEOUT_MS = 15_000
# The rules of WCAG 2.2 AA, and good practice.
_RULES = """async (scope) => {
    const found = await axe.run(scope, {resultTypes: ["violations"], preload: false});
    return found.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 160) + " " +
        (n.any[0] ? n.any[0].message.slice(0, 120) : "")).slice(0, 4).join(" | "));
}"""


def executable() -> str:
    """Path of the browser; skips the test without web/node_modules."""
    if not _AXE.is_file():
        pytest.skip("web/node_modules does not exist: `make page-test` installs it, with Node")
    installed = shutil.which("chromium")
    if installed:
        return installed
    command = ["node", str(WEB / "browser.mjs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile, closed at the end."""
    path = executable()
    expect.set_options(timeout=_TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield browser
        browser.close()


class Visit:
    """A tab, and the errors and warnings of its page."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        self.context = browser.new_context(base_url=url, reduced_motion="reduce", **options)
        self.context.set_default_timeout(_TIMEOUT_MS)
        self.page: Page = self.context.new_page()
        self.page_errors: list[str] = []
        self.page.on("pageerror", lambda error: self.page_errors.append(str(error)))
        self.page.on("console", self._on_console)

    def _on_console(self, message: Any) -> None:
        # Error responses are handled by the page; the browser logs them in addition.
        expected = "Failed to load resource: the server responded with a status of"
        if message.type in ("error", "warning") and expected not in message.text:
            self.page_errors.append(message.text)

    def violations(self) -> list[str]:
        """Violations that axe finds in the current view."""
        if not self.page.evaluate("() => 'axe' in window"):
            # Not as a script element: the content security policy of the page forbids that.
            self.page.evaluate(_AXE.read_text(encoding="utf-8") + ";0")
        violations: list[str] = self.page.evaluate(_RULES, "body")
        return violations

    def close(self) -> None:
        self.context.close()
