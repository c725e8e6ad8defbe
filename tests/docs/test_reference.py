"""The generated pages are up to date, and links in the docs are valid."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from headwater.errors import SettingError
from headwater.settings import Settings, load

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = runpy.run_path(str(REFERENCE / "generate.py"))["PAGES"]
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text() == PAGES[name](), "run `make reference`"


def test_every_setting_has_a_description() -> None:
    page = (REFERENCE / "settings.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    assert [row[0] for row in rows if len(row[3].strip(" |")) < 10] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_in_the_docs_refer_to_files(text: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", text.read_text())
    relative = [link for link in links if "://" not in link]
    assert [link for link in relative if not (text.parent / link).exists()] == []


def test_every_setting_named_in_the_docs_and_in_the_code_exists() -> None:
    documented = {
        name for text in TEXTS for name in re.findall(r"HEADWATER_[A-Z_]+", text.read_text())
    }
    # Hints of errors name settings, too.
    in_code = {
        name
        for module in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"HEADWATER_[A-Z]+__[A-Z_]+", module.read_text())
    }
    assert len(documented) > 10
    assert len(in_code) > 10
    names = documented | in_code
    # Patterns, and an example of a mistake.
    names -= {"HEADWATER_SECTION__KEY", "HEADWATER_", "HEADWATER_KAFAK__PORT"}
    # The names of channels are configured.
    names = {name for name in names if not name.startswith("HEADWATER_ALERTS__CHANNELS__")}
    known = set(_variables(Settings.model_construct(), "HEADWATER_"))
    assert names - known == set()


def _variables(settings: object, prefix: str) -> list[str]:
    fields = type(settings).model_fields  # type: ignore[attr-defined]
    names: list[str] = []
    for key in fields:
        value = getattr(settings, key)
        name = f"{prefix}{key.upper()}"
        names += _variables(value, f"{name}__") if hasattr(value, "model_fields_set") else [name]
    return names


def test_a_setting_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_KAFAK__PORT", "1")
    with pytest.raises(SettingError, match="HEADWATER_KAFAK__PORT"):
        load()
