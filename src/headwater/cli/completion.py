"""`completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash: add `eval "$(headwater completion bash)"` to ~/.bashrc.
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - the choices are click's own
    root = ctx.find_root()
    click.echo(found(root.command, {}, "headwater", "_HEADWATER_COMPLETE").source())
