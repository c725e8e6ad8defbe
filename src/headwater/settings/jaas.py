"""The grammar of `sasl.jaas.config`, by which Kafka's Java clients get user and password."""

from __future__ import annotations

import re

# As java.io.StreamTokenizer reads it: quoted texts with escapes, words and single characters. The
# closing quote is optional, so that no text is scanned twice.
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"?|\'((?:[^\'\\]|\\.)*)\'?|([^\s=;"\']+)|([=;])', re.DOTALL)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """The login module's class and its options; empty for a text without a module."""
    words = [_value(match) for match in _TOKEN.finditer(text)]
    options = {
        words[place - 1]: words[place + 1]
        for place in range(1, len(words) - 1)
        if words[place] == "="
    }
    return (words[0] if words else ""), options


def jaas(module: str, **options: str) -> str:
    """The value of `sasl.jaas.config` for one login module."""
    written = "".join(f' {name}="{escaped(value)}"' for name, value in options.items())
    return f"{module} required{written};"


def _value(match: re.Match[str]) -> str:
    quoted = match[1] if match[1] is not None else match[2]
    return match[0] if quoted is None else _ESCAPE.sub(_unescaped, quoted)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return (
        chr(int(escaped, 8))
        if escaped.isdigit() and escaped < "8"
        else _LETTERS.get(escaped, escaped)
    )


def escaped(value: str) -> str:
    # The end of a line would end the text.
    value = value.replace("\\", "\\\\").replace('"', '\\"')
    return value.replace("\n", "\\n").replace("\r", "\\r")
