"""The page in the package is built from the sources in `web/`."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from headwater.service.page import static_folder

WEB = Path(__file__).parents[3] / "web"
FILES = ["index.html", "package-lock.json", "sources.mjs", "tsconfig.json", "vite.config.js"]


def sources_hash(root: Path) -> str:
    """The hash that `web/sources.mjs` computes, without Node."""
    paths = [root / name for name in FILES]
    paths += [p for folder in ("public", "src") for p in (root / folder).rglob("*") if p.is_file()]
    digest = hashlib.sha256()
    for name in sorted(path.relative_to(root).as_posix() for path in paths):
        digest.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
    return digest.hexdigest()


@pytest.mark.skipif(not WEB.is_dir(), reason="the sources are only in a checkout")
def test_the_page_was_built_from_these_sources() -> None:
    build = json.loads((static_folder() / "build.json").read_text(encoding="utf-8"))
    assert build == {"sources": sources_hash(WEB)}, "run `make web` to rebuild the page"


def test_the_page_has_no_external_requests_and_no_inline_code() -> None:
    index = (static_folder() / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!/)', index) == []
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", index) == []
    for path in (static_folder() / "assets").iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"""@import|url\(['"]?https?:|fetch\(['"`]https?:""", text), path.name


def test_the_page_is_small() -> None:
    built = [path for path in static_folder().rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in built) < 600_000
