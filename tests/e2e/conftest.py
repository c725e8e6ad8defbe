"""A browser for each file of tests, and a tab for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.browser import Visit, chromium
from tests.catalog_support import Catalog


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser: Browser, service: Catalog) -> Iterator[Visit]:
    """A tab before the file's own `service`, that must not complain: of scripts, of its policy, of
    anything."""
    found = Visit(browser, service.url)
    yield found
    found.close()
    assert found.complaints == []
