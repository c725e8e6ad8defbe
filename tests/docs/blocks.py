"""The code blocks of the README, the guides, the page on row lineage and the examples, and the
commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FILES = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    ROOT / "docs" / "concepts" / "row-lineage.md",
]
PAGES = [str(path.relative_to(ROOT)) for path in _FILES]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.S)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line of a console block, or a part of one: `A=1 program arguments`."""

    block: Block
    text: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.block}: {self.text}"


def blocks(*languages: str) -> list[Block]:
    """All blocks of these languages; without any, all blocks."""
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for page in PAGES
        for text in [(ROOT / page).read_text()]
        for match in _BLOCK.finditer(text)
        if not languages or match[1] in languages
    ]


def commands() -> Iterator[Command]:
    """The commands of console blocks and of the steps of images, also those in `$(…)`."""
    for block in blocks("console", "dockerfile"):
        text = block.text.replace("\\\n", " ")
        for line in re.findall(r"^(?:\$|RUN) (.*)", text, re.M):
            for part in line.split(" && "):
                for inner in re.findall(r"\$\((.*?)\)", part):
                    yield _command(block, inner)
                yield _command(block, part)


def _command(block: Block, text: str) -> Command:
    words = shlex.split(text, comments=True)
    variables = []
    for word in words[words[0] == "export" :]:
        assignment = _ASSIGNMENT.fullmatch(word)
        if not assignment:
            break
        variables.append((assignment[1], assignment[2]))
    rest = words[(words[0] == "export") + len(variables) :]
    return Command(block, " ".join(text.split()), tuple(rest), tuple(variables))
