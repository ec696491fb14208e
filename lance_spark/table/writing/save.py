"""Writes to a plain table: the plan of a write in one of three modes, and the commits of its fragments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import CommitStateUnknownError, InvalidInputError, LanceError, NotFoundError
from lance_spark.file.writable import WRITABLE_VERSIONS, require_writable
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.blob import as_blob_v2, has_blobs
from lance_spark.schema.constraints import has_new_checks
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import BasePath
from lance_spark.table.commits.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.epoch_mark import EpochMark
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.marks import CommitMark, IdentityMark
from lance_spark.table.manifests.transaction import COMMIT_MESSAGE, Transaction
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.merge import Merge
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.base_selection import require_same_bases
from lance_spark.table.writing.conform import same_columns
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.modes import APPEND, CREATE, MODES
from lance_spark.table.writing.row_pipeline import RowPipeline
from lance_spark.table.writing.schema_merge import MapFiles, append_evolving, evolved_schema

DEFAULT_FILE_VERSION = FileVersion.V2_2


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """The options of a commit.

    Attributes:
        message: stored in the transaction's properties.
        properties: additional properties.
        stable_row_ids: for a table that the commit creates.
        initial_bases: base paths of such a table.
        policy: the retry policy.
        config: entries of the table's config to set when the rows replace all others.
        mark: the epoch of a streaming query that the rows are.
        identity: the values of identity columns that the rows have.
        other_marks: further marks of the commit.
        zone_maps: the columns that get zone maps; None for what the table's config or properties say. Those of a plain
            table are built by what follows the commit (`after_commit.zoned`).
    """

    message: str | None = None
    properties: Mapping[str, str] | None = None
    stable_row_ids: bool = False
    initial_bases: tuple[BasePath, ...] = ()
    policy: RetryPolicy | None = None
    config: Mapping[str, str] | None = None
    mark: EpochMark | None = None
    identity: IdentityMark | None = None
    zone_maps: str | None = None
    other_marks: tuple[CommitMark, ...] = ()

    def marks(self) -> tuple[CommitMark, ...]:
        """Config marks that the commit sets."""
        return tuple(mark for mark in (self.mark, self.identity, *self.other_marks) if mark is not None)

    def all_properties(self) -> dict[str, str]:
        properties = dict(self.properties or {})
        if self.message is not None:
            properties[COMMIT_MESSAGE] = self.message
        if self.mark is not None:
            properties |= self.mark.properties()
        return properties


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan for writing rows of one schema. Travels to the tasks.

    Attributes:
        schema: the columns of the data files, with their field ids.
        table_schema: the columns of the table once the rows are in it.
        file_version: version of the data files.
        pipeline: completes and checks the rows.
        evolved: the new schema of the table, if appended rows have new columns.
    """

    schema: LanceSchema
    table_schema: LanceSchema
    file_version: FileVersion
    pipeline: RowPipeline
    evolved: LanceSchema | None = None


def plan_write(
    base: Manifest | None,
    columns: pa.Schema,
    *,
    mode: str,
    identity: IdentityColumns | None = None,
    file_format_version: str | None = None,
    merge_schema: History | None = None,
) -> WritePlan:
    """The plan for writing rows with the columns `columns` to the table whose newest version is `base`.

    Args:
        identity: the identity columns whose values new rows get.
        merge_schema: the history of the table, if an append may add columns.

    Raises:
        InvalidInputError: the mode or the schema does not match the table.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
    """
    if mode not in MODES:
        raise InvalidInputError(f"unknown mode {mode!r}; one of {', '.join(MODES)}")
    if mode == CREATE and base is not None:
        raise InvalidInputError("the table exists; use mode 'append' or 'overwrite'")
    if base is not None:
        check_writable(base.writer_flags, "the table")
    chosen = None if file_format_version is None else FileVersion.parse(file_format_version)
    if mode == APPEND and base is not None:
        # New rows have a value in each identity column.
        given_columns = columns if identity is None else identity.with_columns(columns)
        evolved = None if merge_schema is None else evolved_schema(merge_schema, base, given_columns)
        schema, file_version = evolved or base.schema, chosen or data_format(base) or DEFAULT_FILE_VERSION
        # Before the rows are compared with them: no rows fit columns that are not written.
        names = frozenset(columns.names)
        require_writable(LanceSchema(tuple([field for field in schema.fields if field.name in names])), file_version)
        pipeline = RowPipeline.of(schema, columns, identity)
        plan = WritePlan(pipeline.schema, schema, file_version, pipeline, evolved)
    else:
        current = None if base is None else data_format(base)
        current = current if current in WRITABLE_VERSIONS else None
        # In a table that records its field ids not even an overwrite reuses one.
        used = None if base is None else base.max_allocated_field_id
        schema = from_arrow_schema(columns, first_id=0 if used is None else used + 1)
        file_version = chosen or current or DEFAULT_FILE_VERSION
        if file_version is FileVersion.V2_2 and any(has_blobs(field) for field in schema.fields):
            schema = as_blob_v2(schema)
        plan = WritePlan(schema, schema, file_version, RowPipeline(schema, columns, identity))
    require_writable(plan.schema, plan.file_version)
    return plan


def commit_append(
    table: TableLocation,
    base: Manifest,
    fragments: Sequence[DataFragment],
    options: CommitOptions | None = None,
    evolved: LanceSchema | None = None,
) -> Manifest:
    """The version of `table` with `fragments` appended to `base` or to the newest version.

    Args:
        evolved: the new schema, if the fragments have new columns; then no concurrent transaction may change columns.

    Raises:
        CommitConflictError: they conflict with a concurrent transaction; they are not visible.
        CommitStateUnknownError: it is unknown whether they are visible.
    """
    options = options or CommitOptions()
    file_version = data_format(base) or DEFAULT_FILE_VERSION
    if evolved is None:
        append = Append(tuple(fragments))
        transaction = Transaction.new(base.version, append, options.all_properties())
        keeps_bases = require_same_bases(append, base)
        new_table = NewTable(file_version)
        return Commit(
            table.history, base, transaction, new_table, options.policy, keeps_bases, marks=options.marks()
        ).run()
    schema = evolved
    maps = MapFiles(table, base, schema)

    def on_version(manifest: Manifest) -> Merge:
        return append_evolving(manifest, fragments, schema, maps)

    new_table, marks = NewTable(file_version), options.marks()
    with cleanup_on_failure(maps.remove):
        transaction = Transaction.new(base.version, on_version(base), options.all_properties())
        committed = Commit(table.history, base, transaction, new_table, options.policy, on_version, marks=marks).run()
    maps.remove(but_those_of=committed)
    return committed


def commit_overwrite(
    table: TableLocation,
    base: Manifest | None,
    fragments: Sequence[DataFragment],
    schema: LanceSchema,
    file_version: FileVersion = DEFAULT_FILE_VERSION,
    options: CommitOptions | None = None,
) -> Manifest:
    """The version of `table` with its content replaced by `fragments`; creates the table if `base` is None.

    Raises:
        CommitConflictError: another writer also replaced the rows, or created the table. Ours are not visible.
        CommitStateUnknownError: it is unknown whether they are visible.
    """
    options = options or CommitOptions()
    initial_bases = options.initial_bases if base is None else ()
    operation = Overwrite(tuple(fragments), schema, dict(options.config or {}), initial_bases)
    transaction = Transaction.new(0 if base is None else base.version, operation, options.all_properties())
    new_table = NewTable(file_version, options.stable_row_ids)
    keeps_bases = None if base is None else require_same_bases(operation, base)
    return Commit(table.history, base, transaction, new_table, options.policy, keeps_bases, marks=options.marks()).run()


def commit_planned(
    table: TableLocation,
    base: Manifest | None,
    plan: WritePlan,
    fragments: Sequence[DataFragment],
    mode: str,
    options: CommitOptions,
) -> Manifest:
    """Commits fragments written by `plan` for `base`; returns the new version. On an error the files are kept.

    An append that was to create the table becomes a normal append if another writer has created an equal one.

    Raises: as `commit_append` and `commit_overwrite`.
    """
    if mode == APPEND and base is not None:
        return commit_append(table, base, fragments, options, plan.evolved)
    try:
        return commit_overwrite(table, base, fragments, plan.schema, plan.file_version, options)
    except CommitStateUnknownError:
        raise
    except LanceError:
        created = _created_meanwhile(table, plan) if mode == APPEND and not options.initial_bases else None
        if created is None:
            raise
    return commit_append(table, created, fragments, options)


def _created_meanwhile(table: TableLocation, plan: WritePlan) -> Manifest | None:
    """The table that another writer has concurrently created, if our files match it."""
    try:
        newest = table.latest()
    except NotFoundError:
        return None
    if newest is None or has_new_checks(plan.schema, newest.schema):
        return None
    return newest if same_columns(newest.schema, plan.schema) else None
