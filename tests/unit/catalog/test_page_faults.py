"""An I/O error of the page is not reported as 404."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from headwater.service.page import Page


def test_an_io_error_is_not_reported_as_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    page = Page(FastAPI(), tmp_path)

    async def broken(self: StaticFiles, path: str, scope: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(StaticFiles, "get_response", broken)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(page(scope, None, None))  # type: ignore[arg-type]
