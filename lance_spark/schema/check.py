"""CHECK constraints: SQL conditions in the metadata of a table's schema, which no row may make FALSE.

Lance has no such constraints, so other libraries neither show nor enforce them. All writers of this package do
(`table/writing/checks.py`).
"""

from __future__ import annotations

from lance_spark.schema.field import LanceSchema

CHECK_PREFIX = "lance-spark:check:"
"""The start of the key of an entry; the name of the constraint follows. Its value is the condition."""


def checks_of(schema: LanceSchema) -> dict[str, str]:
    """The conditions by the name of their constraint, in the order of names."""
    found = {
        key.removeprefix(CHECK_PREFIX): value.decode("utf-8", "replace")
        for key, value in schema.metadata.items()
        if key.startswith(CHECK_PREFIX)
    }
    return dict(sorted(found.items()))


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
    known = checks_of(before)
    return any(known.get(name) != condition for name, condition in checks_of(after).items())
