"""Whether a version of a table still has the columns that a stream reads."""

from __future__ import annotations

from lance_spark.schema.field import Field, LanceSchema


def difference(known: LanceSchema, now: LanceSchema) -> str | None:
    """Description of a difference between the columns of a version and of the planned stream; None if they are equal.

    Columns are compared by field id: order, comments and other metadata do not matter. Added columns are found by
    `added_columns`.
    """
    return _difference(known.fields, now.fields, "")


def added_columns(known: LanceSchema, now: LanceSchema) -> list[str]:
    """The names of columns, and members of structs, that only `now` has."""
    ids = {field.id for field in known.walk()}
    return [field.name for field in now.walk() if field.id not in ids]


def _difference(known: tuple[Field, ...], now: tuple[Field, ...], path: str) -> str | None:
    by_id = {field.id: field for field in now}
    for field in known:
        name, found = f"{path}{field.name}", by_id.get(field.id)
        if found is None:
            return f"column {name} was dropped"
        if found.name != field.name:
            return f"column {name} was renamed to {found.name}"
        if found.logical_type != field.logical_type or found.nullable != field.nullable:
            return f"column {name} has another type"
        inner = _difference(field.children, found.children, f"{name}.")
        if inner is not None:
            return inner
    return None
