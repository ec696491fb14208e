"""Plain tables as targets of jobs: one split, one transaction a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.file.blob_writer import BlobSource
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.blobs.references import BlobInputs
from lance_spark.spark.constraints import TableConstraint, with_constraints
from lance_spark.spark.jobs.original_values import OriginalValues
from lance_spark.spark.jobs.row_change_job import RowChangeJob
from lance_spark.spark.jobs.target import Rows, RowSearch, Target, WriteMode
from lance_spark.spark.jobs.task_result import NewFiles
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.types.schemas import exchanged_schema, table_types, with_comments, written_schema
from lance_spark.storage.base import ObjectStore
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.indexes.zone_columns import AUTO_ZONEMAP, check_zone_columns
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.after_commit import zoned
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import new_job
from lance_spark.table.reading.blobs.blob_columns import objects_only, sources_in
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.delete import Search, address_scan
from lance_spark.table.row_level.read_conflicts import ReadRows, check_of
from lance_spark.table.row_level.replace import replace_matching_rows
from lance_spark.table.row_level.rewritten_row_writer import MovedRowWriter
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.row_level.row_changes import commit_row_changes, rows_by_fragment
from lance_spark.table.row_level.row_target import PlainRows
from lance_spark.table.row_level.upsert import replace_keys
from lance_spark.table.row_level.written_rows import require_same_table
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.identity import IdentityColumns, schema_without_identities
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import (
    APPEND,
    CommitOptions,
    WritePlan,
    commit_overwrite,
    commit_planned,
    plan_write,
)
from lance_spark.table.writing.write import FileLimits, FragmentWriter

_NEW_COLUMNS = (WriteMode.CREATE, WriteMode.OVERWRITE)
"""Modes that give the table the columns of the rows."""

_NO_ROWS = np.empty(0, np.uint64)


@dataclass(frozen=True)
class PlainTarget(Target):
    """A plain table.

    Attributes:
        location: the branch to write to.
        plan: how rows become files, its base left out; None if none are written.
        evolved: all columns of the table from then on, if the rows bring new ones.
    """

    location: TableLocation
    base_version: int | None
    job: str | None
    plan: WritePlan | None
    limits: FileLimits
    evolved: LanceSchema | None = None
    identity: IdentityColumns = field(default_factory=IdentityColumns)

    def write(self, rows: Iterable[Rows], *, with_source_addresses: bool, blobs: BlobInputs) -> tuple[NewFiles, ...]:
        assert self.plan is not None, "rows are written"
        write = self._write_rewritten if with_source_addresses else self._write_new
        new = write(rows, self.plan, self._blob_source(self.plan, blobs))
        return (NewFiles.of(new, with_source_addresses=with_source_addresses),) if new else ()

    def _write_new(self, rows: Iterable[Rows], plan: WritePlan, blob_source: BlobSource | None) -> list[NewFragment]:
        store, version = self.location.store, plan.file_version
        with FragmentWriter(
            store,
            plan.schema,
            file_version=version,
            limits=self.limits,
            job=self.job,
            blob_source=blob_source,
        ) as writer:
            for batch, _ in rows:
                writer.write(plan.pipeline(batch))
            return list(map(NewFragment, writer.close()))

    def _write_rewritten(
        self, rows: Iterable[Rows], plan: WritePlan, blob_source: BlobSource | None
    ) -> list[NewFragment]:
        store, version = self.location.store, plan.file_version
        with MovedRowWriter(
            store,
            plan.schema,
            file_version=version,
            limits=self.limits,
            job=self.job,
            blob_source=blob_source,
        ) as writer:
            for batch, source_addresses in rows:
                known = None if source_addresses is None else source_addresses.addresses
                writer.write(plan.pipeline(batch), known)
            return writer.close()

    def _blob_source(self, plan: WritePlan, blobs: BlobInputs) -> BlobSource | None:
        """Finds the files of the blobs of this table and of others, and the objects that rows name."""
        if not any(has_blobs(field) for field in plan.schema.fields):
            return None
        options = self.location.storage_options
        others = blobs.others(options)
        if self.base_version is None:
            return objects_only(options, others)
        return sources_in(self.location.bases(self._base()), options, others)

    def opener(self) -> Callable[[str | None], Split]:
        split = Split(self.location, self._base())
        return lambda _key: split

    def search(self, filter: Expr) -> RowSearch:
        base = self._evolved(self._base())
        return RowSearch([Split(self.location, base)], address_scan(self.location, base, filter))

    def save(
        self, mode: WriteMode, files: Sequence[NewFiles], options: CommitOptions, reads: Sequence[ReadRows]
    ) -> Manifest:
        assert self.plan is not None, "rows are written"
        new = _fragments(files)
        fragments = [item.fragment for item in new]
        base = None if self.base_version is None else self._base()
        if base is not None and self._changes_nothing(base, mode, new):
            return base
        if mode is WriteMode.TRUNCATE and base is not None:
            schema = self.evolved or base.schema
            return commit_overwrite(self.location, base, fragments, schema, self.plan.file_version, options)
        if reads and base is not None:
            return self._change_rows(base, _NO_ROWS, new, options, reads)
        plan = replace(self.plan, base=base, evolved=self.evolved)
        return commit_planned(self.location, plan, fragments, mode.value, options)

    def _changes_nothing(self, base: Manifest, mode: WriteMode, new: Sequence[NewFragment]) -> bool:
        if new or self.evolved is not None:
            return False
        return mode is WriteMode.APPEND or (mode is WriteMode.TRUNCATE and not len(base.fragments))

    def replace_rows(
        self,
        filter: Expr,
        files: Sequence[NewFiles],
        options: CommitOptions,
        found: Mapping[str | None, UInt64Array] | None,
    ) -> Manifest:
        base, new = self._base(), _fragments(files)
        known = None
        if found is not None:
            known = Search(self._evolved(base), rows_by_fragment(found.get(None, _NO_ROWS)))
        return replace_matching_rows(self.location, base, filter, new, options, known=known, evolved=self.evolved)

    def change_rows(
        self,
        deleted: Mapping[str | None, UInt64Array],
        files: Sequence[NewFiles],
        options: CommitOptions,
        reads: Sequence[ReadRows],
    ) -> Manifest:
        return self._change_rows(self._base(), deleted.get(None, _NO_ROWS), _fragments(files), options, reads)

    def replace_keys(
        self, keys: pa.Table, written_keys: pa.Table, files: Sequence[NewFiles], options: CommitOptions
    ) -> Manifest:
        base, new = self._base(), _fragments(files)

        def attempt(version: Manifest) -> Manifest:
            require_same_table(version, base, self.location.uri)
            rows = PlainRows(self.location, version, options, keeps_files=True)
            return replace_keys(rows, keys, new, written_keys)

        return retry_on_conflict(attempt, base, self.location.newest, options.policy)

    def _change_rows(
        self,
        base: Manifest,
        deleted: UInt64Array,
        new: Sequence[NewFragment],
        options: CommitOptions,
        reads: Sequence[ReadRows],
    ) -> Manifest:
        check = check_of(self.location, reads, base.schema)
        rows = rows_by_fragment(deleted)
        return commit_row_changes(self.location, base, rows, new, options, check=check, evolved=self.evolved)

    def _check_reads(self, reads: Sequence[ReadRows], newest: int) -> None:
        check = check_of(self.location, reads, self._base().schema)
        assert check is not None, "there are reads"
        check(self.location.at(newest).manifest)

    def stores(self, files: Sequence[NewFiles]) -> list[ObjectStore]:
        return [self.location.store]

    def _base(self) -> Manifest:
        assert self.base_version is not None, "there is a table"
        return self.location.at(self.base_version).manifest

    def _evolved(self, version: Manifest) -> Manifest:
        return version if self.evolved is None else replace(version, schema=self.evolved)


def plan_plain_write(
    location: TableLocation,
    base: Manifest | None,
    columns: StructType,
    mode: WriteMode,
    options: WriteOptions,
    *,
    config: Mapping[str, str] | None = None,
    replaced: Expr | None = None,
    like: pa.Schema | None = None,
    evolved: LanceSchema | None = None,
    from_query: bool = False,
    constraints: Sequence[TableConstraint] = (),
) -> WriteJob:
    """The job that writes rows with `columns` into the table whose version is `base`.

    Args:
        config: entries that the table's config gets with the commit, if it replaces the rows.
        replaced: which rows are replaced, with REPLACE_WHERE.
        like: columns of another table, whose types those of a new table get.
        evolved: all columns from then on, if the rows bring new ones; `base` shows them already.
        from_query: whether `columns` are those of a query; then columns that it makes are nullable, as in Spark.
        constraints: of a table that the job makes or replaces.

    Raises:
        InvalidInputError: the columns do not fit the table.
        UnsupportedFeatureError: this release cannot write to the table, or not such columns.
    """
    location.history.check_commits()
    known = like if base is None or mode is WriteMode.CREATE else to_arrow_schema(base.schema)
    makes_columns = base is None or mode in _NEW_COLUMNS
    if from_query and makes_columns:
        columns = columns.toNullable()
    _check_row_ids(base, options)
    types = table_types(
        written_schema(columns),
        known,
        options.column_properties,
        replaces=makes_columns,
        large=options.use_large_var_types,
    )
    if from_query or config is None:
        types = schema_without_identities(types)
    identity = IdentityColumns() if base is None or mode in _NEW_COLUMNS else IdentityColumns.of_version(base)
    evolves = options.merge_schema and mode is WriteMode.APPEND and base is not None
    # A statement that defines the table has its properties too; rows by path keep the comments.
    made = with_constraints(with_comments(types, columns, replaces=config is not None), constraints)
    plan = plan_write(
        base,
        RowSource(made if mode in _NEW_COLUMNS else identity.with_columns(types), iter(())),
        # Rows in the columns that the table has are planned as an append.
        mode=mode.value if mode in _NEW_COLUMNS else APPEND,
        file_format_version=options.file_format_version,
        merge_schema=location.history if evolves else None,
    )
    schema = evolved or plan.evolved or (plan.schema if base is None or mode in _NEW_COLUMNS else base.schema)
    check_zone_columns(schema, None if config is None else config.get(AUTO_ZONEMAP))
    return WriteJob(
        PlainTarget(
            _zoned(location, schema, options),
            None if base is None else base.version,
            new_job(),
            replace(plan, base=None, evolved=None),
            options.limits(base.config if base is not None and config is None else {}),
            evolved or plan.evolved,
            identity,
        ),
        types,
        CommitOptions(
            message=options.commit_message,
            stable_row_ids=bool(options.enable_stable_row_ids),
            config=config,
            mark=options.mark(),
        ),
        mode,
        replaced,
    )


def plan_plain_changes(
    location: TableLocation,
    base: Manifest,
    columns: StructType,
    options: WriteOptions,
    evolved: LanceSchema | None = None,
) -> RowChangeJob:
    """The statement that reads the version `base` and writes rows with `columns`, none if it only deletes.

    Args:
        evolved: all columns from then on, if the rows bring new ones; `base` shows them already.

    Raises:
        InvalidInputError: the columns do not fit the table.
        UnsupportedFeatureError: this release cannot write to the table, or not such columns.
    """
    check_plain_changeable(location, base)
    location.history.check_commits()
    display_name = exchanged_schema(columns)
    types = table_types(display_name, to_arrow_schema(base.schema))
    identity = IdentityColumns.of_version(base)
    given = RowSource(identity.with_columns(types), iter(()))
    plan = plan_write(base, given, mode=APPEND) if columns.fields else None
    return RowChangeJob(
        PlainTarget(
            _zoned(location, evolved or base.schema, options),
            base.version,
            None if plan is None else new_job(),
            None if plan is None else replace(plan, base=None),
            options.limits(base.config),
            evolved,
            identity,
        ),
        types,
        CommitOptions(message=options.commit_message, mark=options.mark()),
        OriginalValues.of(display_name, types),
    )


def _zoned(location: TableLocation, schema: LanceSchema, options: WriteOptions) -> TableLocation:
    """The table to commit to, with zone maps of the columns that the options name."""
    check_zone_columns(schema, options.auto_zonemap)
    return zoned(location, options.auto_zonemap)


def check_plain_changeable(location: TableLocation, base: Manifest) -> None:
    """Passes if rows of `base` can be identified and changed.

    Raises:
        InvalidInputError: a column of the table hides the one that identifies rows.
        UnsupportedFeatureError: this release cannot write to the table.
    """
    check_writable(base.writer_flags, location.uri)
    if ROW_ADDRESS in base.schema.names():
        raise InvalidInputError(
            f"rows of a table with a column {ROW_ADDRESS!r} cannot be identified; rename the column"
        )


def _fragments(files: Sequence[NewFiles]) -> list[NewFragment]:
    return [new for item in files for new in item.unpack()]


def _check_row_ids(base: Manifest | None, options: WriteOptions) -> None:
    if base is None or options.enable_stable_row_ids in (None, base.has_stable_row_ids):
        return
    has = "has them" if base.has_stable_row_ids else "has none"
    raise InvalidInputError(
        f"option enable_stable_row_ids: stable row ids are chosen when a table is created, and this one {has}; leave "
        "the option out, or DROP the table first"
    )
