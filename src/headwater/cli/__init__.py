"""The command line: parse, call one function, render, map errors to exit codes."""

from headwater.cli.app import main

__all__ = ["main"]
