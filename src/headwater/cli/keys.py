"""`keys create|list|revoke`."""

from __future__ import annotations

from typing import Any

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, messages, print_json, print_table
from headwater.errors import InputError
from headwater.settings import Settings


@click.group()
def keys() -> None:
    """API keys of the lineage service. Only their hashes are stored."""


@keys.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["read", "write", "admin"]),
    default="read",
    show_default=True,
    help="write can also send events and tag; admin can also delete.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="A namespace of jobs or datasets that the key can access, such as `kafka://host:9092`; "
    "can be repeated. Default: all.",
)
@json_option
@with_settings
def create(
    settings: Settings, name: str, role: str, namespaces: tuple[str, ...], as_json: bool
) -> None:
    """Create a key and print it. It can't be shown again."""
    from headwater.catalog.store.keys import create_key

    key, secret = create_key(_migrated(settings), name, role, namespaces)
    if as_json:
        shown = {"id": key.id, "name": name, "role": role, **_namespaces(key.namespaces)}
        print_json({**shown, "key": secret})
        return
    messages.print(
        f"key {key.id} for {name}, role {role}: store it, it can't be shown again", markup=False
    )
    click.echo(secret)


@keys.command("list")
@json_option
@with_settings
def list_(settings: Settings, as_json: bool) -> None:
    """Show all keys, without their secrets."""
    from headwater.catalog.store.keys import list_keys

    rows = [
        {
            "id": key.id,
            "name": key.name,
            "role": key.role,
            **_namespaces(key.namespaces),
            "created": key.created_at.isoformat(timespec="seconds"),
            "revoked": key.revoked_at.isoformat(timespec="seconds") if key.revoked_at else None,
        }
        for key in list_keys(_migrated(settings))
    ]
    if as_json:
        print_json(rows)
        return
    headings = ("id", "name", "role", "namespace", "created", "revoked")
    for row in rows:
        row["namespace"] = ", ".join(row["namespaces"] or ())
    print_table(headings, [[row[name] or "" for name in headings] for row in rows])


@keys.command()
@click.argument("key_id", metavar="ID")
@with_settings
def revoke(settings: Settings, key_id: str) -> None:
    """Revoke a key; services reject it within five seconds."""
    from headwater.catalog.store.keys import revoke_key

    if not revoke_key(_migrated(settings), key_id):
        raise InputError(f"no active key {key_id!r}", hint="`headwater keys list` lists all keys")
    click.echo(f"revoked: {key_id}")


def _namespaces(granted: tuple[str, ...] | None) -> dict[str, Any]:
    """All of them, and the first one: scripts read `namespace` of keys for one namespace."""
    return {
        "namespace": granted[0] if granted else None,
        "namespaces": None if granted is None else list(granted),
    }


def _migrated(settings: Settings) -> str:
    from headwater.catalog.store import migrate
    from headwater.service.catalog import check_installed, database_url

    check_installed()
    url = database_url(settings)
    migrate(url)
    return url
