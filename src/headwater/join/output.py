"""The default key and value of joined rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.join.rule import JoinRule
from headwater.spark.utc import IN_UTC, utc_text

# A column of the output, from the fields of the left and of the right record by name. The fields
# of a missing record are null.
ColumnOf = Callable[[Mapping[str, Column], Mapping[str, Column]], Column]

_WITH_NULLS = {**IN_UTC, "ignoreNullFields": "false"}


def default_key(rule: JoinRule) -> ColumnOf:
    """The key of the join: the text of its field, or several fields as a JSON object."""
    left_keys, right_keys = rule.left.keys, rule.right.keys
    kind = rule.left.fields[left_keys[0]]

    def key(left: Mapping[str, Column], right: Mapping[str, Column]) -> Column:
        parts = [
            F.coalesce(left[ours], right[theirs]).alias(ours)
            for ours, theirs in zip(left_keys, right_keys, strict=True)
        ]
        if len(parts) > 1:
            return F.to_json(F.struct(*parts), IN_UTC)
        if kind in ("string", "binary"):
            return parts[0]
        return utc_text(parts[0]) if kind == "timestamp" else parts[0].cast("string")

    return key


def default_value(rule: JoinRule) -> ColumnOf:
    """A JSON object with all fields of both records."""

    def value(left: Mapping[str, Column], right: Mapping[str, Column]) -> Column:
        fields = []
        for name, (ours, theirs) in output_fields(rule).items():
            columns = [left[ours]] if ours is not None else []
            columns += [right[theirs]] if theirs is not None else []
            fields.append(
                F.coalesce(*columns).alias(name) if len(columns) > 1 else columns[0].alias(name)
            )
        return F.to_json(F.struct(*fields), _WITH_NULLS)

    return value


def output_fields(rule: JoinRule) -> dict[str, tuple[str | None, str | None]]:
    """The names of the fields in the default value, with those of the left and the right record.

    A key field of one name is there once. Another name that both records have gets the prefix
    `left_` or `right_`.
    """
    shared = {
        ours for ours, theirs in zip(rule.left.keys, rule.right.keys, strict=True) if ours == theirs
    }
    both = (set(rule.left.fields) & set(rule.right.fields)) - shared
    fields: dict[str, tuple[str | None, str | None]] = {}
    for name in rule.left.fields:
        fields[f"left_{name}" if name in both else name] = (name, name if name in shared else None)
    for name in rule.right.fields:
        if name not in shared:
            fields[f"right_{name}" if name in both else name] = (None, name)
    return fields
