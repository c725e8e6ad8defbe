"""Options that were renamed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

_LOG = logging.getLogger(__name__)


class RenamedOption(click.Option):
    """An option that also accepts its former names.

    A former name is not shown in the help and logs a warning with the current name. If both are
    used, the current name takes precedence.
    """

    def __init__(self, *args: Any, former: Sequence[str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.former = tuple(former)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        for name in self.former:
            # The parser stores the value under its own key, which `consume_value` looks for.
            alias = click.Option([name, self._key(name)], is_flag=self.is_flag or None)
            alias.add_to_parser(parser, ctx)

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        for name in self.former:
            if self._key(name) not in opts:
                continue
            if not ctx.resilient_parsing:
                _LOG.warning("%s is deprecated: use %s", name, self.opts[0])
            if source is not ParameterSource.COMMANDLINE:
                value, source = opts[self._key(name)], ParameterSource.COMMANDLINE
        return value, source

    @staticmethod
    def _key(name: str) -> str:
        return f"former{name.replace('-', '_')}"
