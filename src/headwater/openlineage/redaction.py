"""Keeps secrets out of events: those that are in the settings, and what looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pydantic import BaseModel, SecretStr

from headwater.settings import Settings

HIDDEN = "***"

_SECRET_NAME = re.compile(r"pass(word|wd)?|secret|token|jaas|api[-_.]?key|credential|private", re.I)
# Of a value that is shorter every text would be full.
_SHORTEST = 4

# Each begins with letters of its own, and what follows has a bound: an error's text may be a single
# word of a megabyte, and the job waits for its end.
_PATTERNS = (
    # user:password@ in an address.
    (re.compile(r"(://[^\s/@:]{0,1000}):[^\s/@]{1,4000}@"), rf"\1:{HIDDEN}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s{1,20}[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    # name=value, name: value, "name": "value" and ("name", "value") of what is named like a secret.
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|api[-_.]?key|credential)[\w.-]{0,100}"
            r"(?:[\"']?\s{0,20}[=:]|[\"']\s{0,20},)\s{0,20})"
            r"(\"[^\"]{0,4000}\"|'[^']{0,4000}'|[^\s,;&)}\]]{1,4000})"
        ),
        rf"\1{HIDDEN}",
    ),
)


class Redactor:
    """Replaces secrets in texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        kept = {secret for secret in secrets if len(secret) >= _SHORTEST}
        # The longest first: one may be part of another.
        self._secrets = sorted(kept, key=len, reverse=True)

    @classmethod
    def from_settings(cls, settings: Settings) -> Redactor:
        return cls(_secrets(settings))

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return text


def _secrets(section: BaseModel) -> Iterator[str]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif isinstance(value, BaseModel):
            yield from _secrets(value)
        elif isinstance(value, dict):
            for key, each in value.items():
                if isinstance(each, str) and _SECRET_NAME.search(key):
                    yield each
                    # Of a JAAS line, which names the user and the module as well.
                    yield from re.findall(r'password="?([^"\s;]+)', each)
