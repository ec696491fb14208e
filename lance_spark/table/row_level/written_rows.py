"""Whether rows that are written already fit a newer version of their table."""

from __future__ import annotations

from lance_spark.errors import IncompatibleConflictError
from lance_spark.schema.constraints import has_new_checks
from lance_spark.schema.field import LanceSchema
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations import OperationKind
from lance_spark.table.operations.manifest_builder import keeps_places
from lance_spark.table.writing.conform import same_columns


def require_same_columns(current: LanceSchema, written: LanceSchema, uri: str, version: int) -> None:
    """Passes if rows that were written for the columns `written` can be committed to a version with `current`.

    Raises:
        IncompatibleConflictError: another writer has changed the columns, or has added a CHECK constraint.
    """
    if not same_columns(current, written):
        _refuse(f"the columns of {uri}", version)
    if has_new_checks(written, current):
        _refuse(f"the CHECK constraints of {uri}", version)


def require_same_table(current: Manifest, written: Manifest, uri: str) -> None:
    """Passes if files that were written for the version `written` of a plain table can be committed to `current`.

    Raises:
        IncompatibleConflictError: another writer has changed the columns, the file version or the bases, or has added
            a CHECK constraint.
    """
    require_same_columns(current.schema, written.schema, uri, current.version)
    if not keeps_places(written, current):
        _refuse(f"the file version or the base paths of {uri}", current.version)


def _refuse(changed: str, version: int) -> None:
    raise IncompatibleConflictError(
        f"another writer has changed {changed}. Run the operation again",
        own=OperationKind.UPDATE.value,
        table_version=version,
    )
