"""A browser for each test module, and a tab for each test."""

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
    """A tab on the module's `service`; fails the test on script errors and policy violations."""
    found = Visit(browser, service.url)
    yield found
    found.close()
    assert found.page_errors == []
