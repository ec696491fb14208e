"""Adding and dropping CHECK constraints of a table, which all later writes of this package must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lance_spark.schema.constraints import CHECK_PREFIX, checks_of, with_check
from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.schema_changes import check_followable
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.versions.changes import update_schema_metadata
from lance_spark.table.writing.checks import RowChecks, require_columns_of_checks
from lance_spark.table.writing.save import CommitOptions

Rows = Callable[[list[str]], Iterable[pa.RecordBatch]]
"""Reads the rows of a table, in the named columns."""


def add_check(
    table: TableLocation, base: Manifest, name: str, condition: str, options: CommitOptions | None = None
) -> Manifest:
    """The version with the CHECK constraint `name`; see `ColumnVerbs.add_check`."""
    policy = options.policy if options else None

    def attempt(version: Manifest) -> Manifest:
        check_followable(version)
        schema = schema_with_check(version.schema, name, condition)
        check_rows(schema, name, lambda columns: _rows(table, version, columns))
        return update_schema_metadata(table, version, {CHECK_PREFIX + name: checks_of(schema)[name]}, policy)

    return retry_on_conflict(attempt, base, table.newest, policy)


def drop_check(table: TableLocation, base: Manifest, name: str, options: CommitOptions | None = None) -> Manifest:
    """The version without the CHECK constraint `name`; see `ColumnVerbs.drop_check`."""
    existing = name_of_check(base.schema, name)
    return update_schema_metadata(table, base, {CHECK_PREFIX + existing: None}, options.policy if options else None)


def schema_with_check(schema: LanceSchema, name: str, condition: str) -> LanceSchema:
    """The schema with a new constraint. Raises as `add_check`, except for rows."""
    if not name.strip():
        raise InvalidInputError("a CHECK constraint needs a name")
    if any(existing.lower() == name.lower() for existing in checks_of(schema)):
        raise AlreadyExistsError(f"there is a CHECK constraint {name!r} already; drop it first, or choose another name")
    checked = with_check(schema, name, " ".join(condition.split()) if "'" not in condition else condition.strip())
    require_columns_of_checks(checked)
    return checked


def name_of_check(schema: LanceSchema, name: str) -> str:
    """The constraint as the table spells it; case does not matter.

    Raises:
        NotFoundError: there is no such constraint.
    """
    for existing in checks_of(schema):
        if existing.lower() == name.lower():
            return existing
    raise NotFoundError(
        f"there is no CHECK constraint {name!r}; the table has {', '.join(checks_of(schema)) or 'none'}"
    )


def check_rows(schema: LanceSchema, name: str, rows: Rows) -> None:
    """Passes if no row violates the constraint `name` of `schema`.

    Args:
        rows: gives the rows of the table, in columns of some names.

    Raises:
        InvalidInputError: one does.
    """
    only = LanceSchema(schema.fields, {})
    checks = RowChecks(with_check(only, name, checks_of(schema)[name]))
    used = checks.columns()
    for batch in rows([field.name for field in schema.fields if field.name.lower() in used]):
        checks(batch)


def _rows(table: TableLocation, version: Manifest, columns: list[str]) -> Iterable[pa.RecordBatch]:
    schema = with_blob_descriptors(version.schema, data_format(version))
    scan = Scan.of(schema, table.bases(version), columns=columns)
    for fragment in version.fragments:
        yield from scan.read([fragment])
