"""The page of the public Python API, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any

import headwater
import headwater.quality
import headwater.testing

_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):$")
_ITEM = re.compile(r"^    (\w+): (.*)$")
_HIDDEN = {"Logic", "__version__"}


def python_page(note: str) -> str:
    """Every public name with its signature and docstring."""
    names = [name for name in headwater.__all__ if name not in _HIDDEN]
    lines = [
        "# Python API\n\n",
        note,
        "These names, `headwater.quality` and `headwater.testing` are the public API. Everything "
        "else is internal and may change with any release.\n",
        *_module("headwater", headwater, names),
        *_module("headwater.quality", headwater.quality, headwater.quality.__all__),
        *_module("headwater.testing", headwater.testing, headwater.testing.__all__),
    ]
    return "".join(lines)


def _module(title: str, module: ModuleType, names: list[str]) -> Iterator[str]:
    yield f"\n## {title}\n"
    for name in sorted(names, key=str.lower):
        value = getattr(module, name)
        yield f"\n### {name}\n\n"
        if inspect.isclass(value):
            yield from _class(name, value)
        elif callable(value):
            yield _signature(name, value)
            yield _text(value)
        else:
            yield f"`{value}`\n"


def _class(name: str, value: type) -> Iterator[str]:
    if "__init__" in vars(value) and not issubclass(value, BaseException):
        yield _signature(name, value)
    yield _text(value)
    for each, member in vars(value).items():
        text = getattr(member, "__doc__", None)
        if each.startswith("_") or not text or text.startswith("Internal"):
            continue
        function = getattr(member, "__func__", member)
        if isinstance(member, property):
            yield f"\n**`{each}`**\n\n{_text(member)}"
        elif inspect.isfunction(function):
            yield "\n" + _signature(f"{name}.{each}", function, bound=True)
            yield _text(function)


def _signature(name: str, value: Any, *, bound: bool = False) -> str:
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    inner = [_parameter(each) for each in parameters]
    by_name = [at for at, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY]
    if by_name and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        inner.insert(by_name[0], "*")
    returned = signature.return_annotation
    result = "" if inspect.isclass(value) or returned is signature.empty else f" -> {returned}"
    text = f"{name}({', '.join(inner)}){result}"
    if len(text) > 96:
        text = f"{name}(\n" + "".join(f"    {each},\n" for each in inner) + f"){result}"
    return f"```python\n{text}\n```\n\n"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = "" if each.annotation is each.empty else f": {each.annotation}"
    if each.default is each.empty:
        return f"{stars}{each.name}{kind}"
    return f"{each.name}{kind} = {_default(each.default)}"


def _default(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value)
    shown = str(getattr(value, "__name__", None) or repr(value))
    return "…" if shown.startswith("<") else shown


def _text(value: object) -> str:
    """The docstring as Markdown: sections become lists."""
    lines: list[str] = []
    inside = False
    for line in (inspect.getdoc(value) or "").splitlines():
        if section := _SECTION.match(line):
            inside = True
            lines += [f"*{section[1]}*", ""]
        elif inside and (item := _ITEM.match(line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif inside and line.startswith("        "):
            lines[-1] += f" {line.strip()}"
        else:
            inside = inside and line.startswith("    ")
            lines.append(line)
    return "\n".join(lines).strip() + "\n"
