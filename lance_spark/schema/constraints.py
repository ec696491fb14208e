"""Constraints of a table's schema: CHECK conditions, and the unenforced primary key.

CHECK: SQL conditions in the metadata of the schema, which no row may make FALSE. Lance has no such constraints, so
other libraries neither show nor enforce them. All writers of this package do (`table/writing/checks.py`).

Primary key: fields that the schema marks, and whose values no library compares. The reference library cannot write to
a table whose key is invalid, and changes no key that is set.
"""

from __future__ import annotations

from collections.abc import Iterator

from lance_spark.errors import InvalidInputError
from lance_spark.schema.field import Field, FieldId, LanceSchema

CHECK_PREFIX = "lance-spark:check:"
"""The start of the key of an entry; the name of the constraint follows. Its value is the condition."""

_NO_FIELDS = LanceSchema(())


def checks_of(schema: LanceSchema) -> dict[str, str]:
    """The conditions by the name of their constraint, in the order of names."""
    conditions = {
        key.removeprefix(CHECK_PREFIX): value.decode("utf-8", "replace")
        for key, value in schema.metadata.items()
        if key.startswith(CHECK_PREFIX)
    }
    return dict(sorted(conditions.items()))


def with_check(schema: LanceSchema, name: str, condition: str | None) -> LanceSchema:
    """The schema with the constraint `name`; without it if `condition` is None."""
    rest = {key: value for key, value in schema.metadata.items() if key != CHECK_PREFIX + name}
    if condition is not None:
        rest[CHECK_PREFIX + name] = condition.encode()
    return LanceSchema(schema.fields, rest)


def without_checks(schema: LanceSchema) -> LanceSchema:
    """The schema without constraints."""
    rest = {key: value for key, value in schema.metadata.items() if not key.startswith(CHECK_PREFIX)}
    return LanceSchema(schema.fields, rest)


def has_new_checks(before: LanceSchema, after: LanceSchema) -> bool:
    """True if `after` has a constraint, or a condition of one, that `before` has not."""
    existing = checks_of(before)
    return any(existing.get(name) != condition for name, condition in checks_of(after).items())


def check_primary_key(after: LanceSchema, before: LanceSchema = _NO_FIELDS) -> None:
    """Passes if the key of `after` consists of leaves that forbid nulls, as do all fields above them.

    Fields that break this in `before` may do so in `after`.

    Raises:
        InvalidInputError: otherwise.
    """
    if after is before:
        return
    invalid_before = dict(_invalid_fields(before))
    for field_id, reason in _invalid_fields(after):
        if field_id not in invalid_before:
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
