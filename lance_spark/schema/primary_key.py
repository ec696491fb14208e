"""The unenforced primary key of a table: fields that the schema marks, and whose values no library compares.

The reference library cannot write to a table whose key is invalid, and changes no key that is set.
"""

from __future__ import annotations

from collections.abc import Iterator

from lance_spark.errors import InvalidInputError
from lance_spark.schema.field import Field, FieldId, LanceSchema

_NO_FIELDS = LanceSchema(())


def check_primary_key(after: LanceSchema, before: LanceSchema = _NO_FIELDS) -> None:
    """Passes if the key of `after` consists of leaves that forbid nulls, as do all fields above them.

    Fields that break this in `before` may do so in `after`.

    Raises:
        InvalidInputError: otherwise.
    """
    if after is before:
        return
    known = dict(_invalid_fields(before))
    for field_id, reason in _invalid_fields(after):
        if field_id not in known:
            raise InvalidInputError(reason)


def check_key_stays(after: LanceSchema, before: LanceSchema) -> None:
    """Passes if no field enters or leaves a key that is set. Its columns may be dropped, renamed and converted.

    Raises:
        InvalidInputError: otherwise.
    """
    if after is before:
        return
    key = _key(before)
    changed = [node for node in after.walk() if node.id in key and key[node.id] != _position(node)]
    if key and len(_key(after)) > len(key):
        changed += [node for node in after.walk() if node.unenforced_primary_key and node.id not in key]
    if changed:
        raise InvalidInputError(f"{changed[0].name!r} would change the primary key, which stays once it is set")


def _invalid_fields(schema: LanceSchema) -> Iterator[tuple[FieldId, str]]:
    for top in schema.fields:
        yield from _invalid_below(top, nullable=False, path=top.name)


def _invalid_below(node: Field, *, nullable: bool, path: str) -> Iterator[tuple[FieldId, str]]:
    nullable = nullable or node.nullable
    if node.unenforced_primary_key and (nullable or node.children):
        reason = "it has fields below it" if node.children else "it, or a field above it, allows nulls"
        yield node.id, f"{path!r} cannot be part of the primary key: {reason}"
    for child in node.children:
        yield from _invalid_below(child, nullable=nullable, path=f"{path}.{child.name}")


def _key(schema: LanceSchema) -> dict[FieldId, int | None]:
    return {node.id: _position(node) for node in schema.walk() if node.unenforced_primary_key}


def _position(node: Field) -> int | None:
    return node.unenforced_primary_key_position if node.unenforced_primary_key else None
