"""Generates the pages of this folder from the code: `make reference`."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from headwater import errors
from headwater.cli.app import COMMANDS, headwater
from headwater.cli.settings import setting_rows
from headwater.errors import HeadwaterError
from headwater.jobs import JOBS
from headwater.jvm.versions import CONNECTORS, SPARK_LINES
from headwater.kafka import acls
from headwater.kafka.error_kinds import KINDS, ErrorKind
from headwater.service.app import create_api
from headwater.settings import Settings
from headwater.spark.configuration import ROW_LINEAGE
from headwater.spark.row_lineage_settings import ROW_LINEAGE_SETTINGS

_FOLDER = Path(__file__).parent
_NOTE = "<!-- Generated from the code by `make reference`; do not edit. -->\n\n"


def settings_page() -> str:
    """Every setting with its variable, default and meaning."""
    lines = [
        "# Settings\n\n",
        _NOTE,
        "Precedence, lowest first: default, `headwater.toml`, the environment, "
        "`--set SECTION.KEY=VALUE`.\n\n",
        "| setting | variable | default | description |\n|---|---|---|---|\n",
    ]
    # Without validation: the page must not depend on the environment.
    for row in setting_rows(Settings.model_construct()):
        variable = row.variable.replace(" or ", "` or `")
        lines.append(f"| `{row.name}` | `{variable}` | {row.default} | {row.description} |\n")
    return "".join([*lines, *_row_lineage_settings()])


def _row_lineage_settings() -> Iterator[str]:
    yield (
        "\n## Row lineage of plain Spark jobs\n\n"
        f"Configuration of a Spark session with `spark.sql.extensions={ROW_LINEAGE}`, read when a "
        "query starts; see [Row lineage in an existing job](../guides/row-lineage.md).\n\n"
        "| setting | values | default | description |\n|---|---|---|---|\n"
    )
    for each in ROW_LINEAGE_SETTINGS:
        values = ", ".join(f"`{value}`" for value in each.values) or "text"
        yield f"| `{each.name}` | {values} | {each.default} | {each.description} |\n"


def commands_page() -> str:
    """Every command with its help text."""
    lines = ["# Commands\n\n", _NOTE, "```text\n", _help(headwater, "headwater"), "```\n"]
    for name in COMMANDS:
        command = headwater.get_command(click.Context(headwater), name)
        if command is not None:
            for path, each in _with_subcommands(command, f"headwater {name}"):
                lines.append(f"\n## {path}\n\n```text\n{_help(each, path)}```\n")
    lines.append(f"\n## Shipped jobs\n\n{', '.join(f'`{job}`' for job in JOBS)}\n")
    return "".join(lines)


def _with_subcommands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            if not each.hidden:
                yield from _with_subcommands(each, f"{path} {name}")


def _help(command: click.Command, path: str) -> str:
    # With the root's settings, such as the names of the help option, as when it is used.
    inherited = headwater.context_settings | command.context_settings
    context = click.Context(
        command, info_name=path, **{"terminal_width": 100, "max_content_width": 100, **inherited}
    )
    return command.get_help(context) + "\n"


_EXIT_CODES = {
    0: "done",
    1: "a check found something wrong, a query failed, or the outcome is unknown",
    2: "bad input or usage: fix it, then call again",
    3: "a service can't be reached or is not ready: the same call may succeed later",
    4: "Kafka refuses the request: change ACLs, credentials or the cluster's configuration",
    130: "interrupted with Ctrl-C",
}


def errors_page() -> str:
    """Every exit code, and every error with its exit code."""
    lines = ["# Errors and exit codes\n\n", _NOTE, "| exit code | meaning |\n|---|---|\n"]
    lines += [f"| {code} | {meaning} |\n" for code, meaning in _EXIT_CODES.items()]
    lines += [
        "\nA query that fails, or a producer whose records are rejected, has the exit code of the "
        "error that is the reason, if it is certain. `headwater run --restarts N` starts a job "
        "again after the codes 1 and 3.\n\n## Errors\n\n"
        "| error | exit code | meaning |\n|---|---|---|\n"
    ]
    for each in vars(errors).values():
        if (
            isinstance(each, type)
            and issubclass(each, HeadwaterError)
            and each is not HeadwaterError
        ):
            lines.append(f"| `{each.__name__}` | {each.exit_code} | {_summary(each)} |\n")
    lines.append(
        "\n## Errors of Kafka\n\nBy the code of the Python client, and by the exception in "
        "Spark's JVM. Others are a `KafkaRefusedError`.\n\n"
        "| error | exit code | codes | Java exceptions | what to do |\n|---|---|---|---|---|\n"
    )
    return "".join([*lines, *map(_kind_row, KINDS)])


def _summary(error: type[HeadwaterError]) -> str:
    return " ".join((error.__doc__ or "").split())


def _kind_row(kind: ErrorKind) -> str:
    codes, java = kind.codes.replace(" ", ", "), kind.java.replace(" ", ", ")
    hint = kind.hint or (
        "the hint names the ACL to add, with its command" if kind.error.exit_code == 4 else ""
    )
    name, code = kind.error.__name__, kind.error.exit_code
    return f"| `{name}` | {code} | {codes} | {java} | {hint} |\n"


def openapi_page() -> str:
    """The routes of the lineage service; the page's types are generated from it."""
    # The API connects only when it is started.
    api = create_api(Settings.model_construct(), "postgresql://user@localhost/database")
    return json.dumps(api.openapi(), indent=1, sort_keys=True) + "\n"


def python_page() -> str:
    """The public Python API."""
    page = runpy.run_path(str(_FOLDER / "python_page.py"))["python_page"]
    return str(page(_NOTE))


def acls_page() -> str:
    """The permissions of commands and jobs."""
    lines = [
        "# ACLs\n\n",
        _NOTE,
        "What the principal of a command or a job needs on a cluster with ACLs; tests run commands "
        "and delivery modes with exactly these.\n\n`INPUT` and `OUTPUT` are topics of a job, "
        "`RUNS` is the setting `kafka.runs_topic`. A name that ends with `*` is a prefix "
        "(`--resource-pattern-type prefixed`). `Read` and `Write` include `Describe`. Readers need "
        "no group.\n\n"
        "`headwater doctor --kafka --job NAME` checks those on topics.\n",
    ]
    lines += _needs("Commands", "command", acls.COMMANDS)
    lines += _needs("Jobs", "delivery mode", acls.JOBS)
    lines += _needs("In addition", "what", acls.FURTHER)
    return "".join(lines)


def _needs(title: str, column: str, needs: Iterable[acls.Need]) -> Iterator[str]:
    yield f"\n## {title}\n\n| {column} | permissions | remark |\n|---|---|---|\n"
    for need in needs:
        by_name: dict[tuple[str, str], list[str]] = {}
        for grant in need.grants:
            by_name.setdefault((grant.resource, grant.name), []).append(grant.operation)
        texts = [
            f"{', '.join(operations)} on the {resource} `{name}`"
            for (resource, name), operations in by_name.items()
        ]
        yield f"| {need.what} | {'; '.join(texts)} | {need.when} |\n"


_VERSIONS = "<!-- Versions: generated by `make reference`; do not edit. -->\n"
_END = "<!-- End of versions. -->\n"


def readme() -> str:
    """The README with its table of supported versions."""
    text = (_FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(_VERSIONS)
    _, _, after = rest.partition(_END)
    return "".join([before, _VERSIONS, *_versions(), _END, after])


def _versions() -> Iterator[str]:
    connectors = [name for name in CONNECTORS if name != "postgresql"]
    yield f"| Spark | Scala | {' | '.join(connectors)} |\n|---|---|{'---|' * len(connectors)}\n"
    for line in SPARK_LINES:
        versions = [
            line.groups[name].coordinates[0].rpartition(":")[2] if name in line.groups else "none"
            for name in connectors
        ]
        yield f"| {line.version} | {line.scala} | {' | '.join(versions)} |\n"


PAGES = {
    "../../README.md": readme,
    "acls.md": acls_page,
    "python.md": python_page,
    "settings.md": settings_page,
    "commands.md": commands_page,
    "errors.md": errors_page,
    "openapi.json": openapi_page,
}

if __name__ == "__main__":
    for file_name, page in PAGES.items():
        (_FOLDER / file_name).write_text(page(), encoding="utf-8")
