"""Limits on the size of what a response is built from.

Rows of the same number differ in size: a facet may be as large as a request. So a
statement returns the facets of its rows only as far as they fit, the smallest rows first. What does
not fit is replaced by a marker, and the row is marked as cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from headwater.catalog.store.bounded import BoundedConnection
from headwater.catalog.store.values import Json

# Rows of inputs and outputs, or edges, in one response: they take about 20 µs each.
MAX_LINKS = 20_000
# Markers for facets in one row; a row may have thousands of facets.
_MAX_MARKERS = 100
# Larger ones are not measured all at once, which would expand them, but facet by facet.
_MAX_MEASURED_BYTES = 64 * 1024
# An inline value is not compressed: its stored size is its size.
_INLINE_BYTES = 2000

_MARKER = '{"truncated":true,"bytes":'


def response_bytes(connection: AsyncConnection[Any]) -> int:
    """The limit for facets, and for other entries, of a response: a setting of the pool."""
    return getattr(connection, "response_bytes", BoundedConnection.response_bytes)


def is_marker(text: str) -> bool:
    """Whether the text replaces a facet that was left out."""
    return text.startswith(_MARKER)


def marker(size: str) -> str:
    """An SQL expression: the text that replaces a facet of `size` bytes."""
    return f"'{_MARKER}' || {size} || '}}'"


def truncated(*conditions: object) -> Json:
    """`{"truncated": true}` if something was left out; Marquez's responses do not have the key."""
    return {"truncated": True} if any(conditions) else {}


def within_limit(
    statement: str,
    columns: str,
    *,
    facets: Sequence[str],
    texts: Sequence[str] = (),
    order: str = "id",
    markers: bool = True,
) -> str:
    """The statement with its facets limited to `%(facet_bytes)s`, and a column `cut`.

    Rows whose facets do not fit get an equal share each, filled with their smallest facets.

    Args:
        columns: the other columns of the statement; one of them is `id`.
        texts: columns that count as well, and are null if they do not fit.
        markers: replace a facet that does not fit; otherwise it is missing.
    """
    sizes = [_facets_bytes(f"found.{column}") for column in facets]
    sizes += [f"coalesce(octet_length(found.{column}), 0)" for column in texts]
    listed = ", ".join(f"listed.{column.strip()}" for column in columns.split(","))
    chosen = [
        f"CASE WHEN listed.complete THEN listed.{column} ELSE {column}_part.facets END AS {column}"
        for column in facets
    ]
    chosen += [
        f"CASE WHEN {_fits(column)} THEN listed.{column} END AS {column}" for column in texts
    ]
    cuts = [f"coalesce({column}_part.cut, false)" for column in facets]
    cuts += [f"NOT {_fits(column)}" for column in texts]
    return f"""
WITH listed AS (
    SELECT sized.*, sum(sized.bytes) OVER (ORDER BY sized.bytes, sized.id)
            <= %(facet_bytes)s AS complete,
        %(facet_bytes)s / count(*) OVER () AS share
    FROM (
        SELECT found.*, {" + ".join(sizes)} AS bytes FROM ({statement}) AS found OFFSET 0
    ) AS sized
)
SELECT {listed}, {", ".join(chosen)}, {" OR ".join(cuts)} AS cut
FROM listed {" ".join(_part(column, markers) for column in facets)}
ORDER BY {order}
"""


def _facets_bytes(column: str) -> str:
    """An SQL expression: the size of facets, cheap for small ones and for very large ones."""
    return f"""CASE WHEN {column} IS NULL THEN 0
        WHEN pg_column_compression({column}) IS NULL AND pg_column_size({column}) < {_INLINE_BYTES}
            THEN pg_column_size({column})
        WHEN pg_column_size({column}) > {_MAX_MEASURED_BYTES} THEN 1073741824
        ELSE octet_length({column}::text) END::bigint"""


def _fits(column: str) -> str:
    return f"(listed.complete OR coalesce(octet_length(listed.{column}), 0) <= listed.share)"


def _part(column: str, markers: bool) -> str:
    """The facets of a row that gets only its share."""
    others = f"jsonb_build_array(facet->0, {marker('bytes')})"
    value = f"CASE WHEN total <= listed.share THEN facet ELSE {others} END" if markers else "facet"
    also = f" OR number <= {_MAX_MARKERS}" if markers else ""
    # The large ones are replaced before the window function, which would copy them.
    return f"""
LEFT JOIN LATERAL (
    SELECT coalesce(jsonb_object_agg(name, {value}) FILTER (
            WHERE total <= listed.share{also}), '{{}}') AS facets,
        coalesce(bool_or(total > listed.share), false) AS cut
    FROM (
        SELECT name, facet, bytes, row_number() OVER smallest AS number,
            sum(bytes + octet_length(name)) OVER smallest AS total
        FROM (
            SELECT key AS name, octet_length(value->>1) AS bytes,
                CASE WHEN octet_length(value->>1) <= listed.share THEN value
                    ELSE jsonb_build_array(value->0) END AS facet
            FROM jsonb_each(listed.{column}) OFFSET 0
        ) AS sizes WINDOW smallest AS (ORDER BY bytes, name)
    ) AS measured
) AS {column}_part ON NOT listed.complete"""
