"""Columns for rows identified by address, in three steps, so that tasks on many machines can do the work.

1. The driver plans: `plan_new_columns` for new columns, `plan_new_values` for existing ones.
2. For each affected fragment a task writes a file with `write_backfill`: in all other rows new columns are null and
   existing columns keep their values.
3. The driver commits all files as one version with `commit_backfill`, or removes them with `remove_backfill`.

Other writers may append and delete rows concurrently. If they rewrite rows, as updates and compaction do, the
addresses are invalid and the commit raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyroaring

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import IDENTITY
from lance_spark.schema.projection import FieldFinder
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import Bases
from lance_spark.table.columns.column_commit import column_file_version, options_of
from lance_spark.table.columns.schema_changes import check_followable
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.merge import Merge, Recomputed
from lance_spark.table.operations.update import Update, UpdateMode
from lance_spark.table.paths import DATA
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import DEFAULT_BATCH_ROWS
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentId, FragmentList
from lance_spark.table.rows.row_address import UInt64Array, split_addresses
from lance_spark.table.writing.checks import RowChecks
from lance_spark.table.writing.column_files import PlacedBatch, physical_batches, write_column_file
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """The plan for tasks; it can be pickled.

    Attributes:
        base_version: the version of the row addresses.
        schema: the new schema of the table.
        written: the columns of the files.
        replaces: whether the table already has these columns.
        file_version: version of the files.
        job: the write job of the files (`paths.new_job`); None for none.
    """

    base_version: int
    schema: LanceSchema
    written: LanceSchema
    replaces: bool
    file_version: FileVersion
    job: str | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows for `write_backfill`."""
        return to_arrow_schema(self.written)


@dataclass(frozen=True, slots=True)
class ColumnsToFill:
    """Top-level columns that get values, in tables of both kinds.

    Attributes:
        schema: all columns of the table afterwards.
        written: the columns that get values.
        replaces: whether the table already has them.
    """

    schema: LanceSchema
    written: LanceSchema
    replaces: bool

    @classmethod
    def new(cls, schema: LanceSchema, fields: pa.Schema, first_id: int) -> ColumnsToFill:
        """The columns `fields`, which `schema` lacks; they become nullable and get field ids from `first_id` on.

        Raises:
            InvalidInputError: a column already exists, or Lance does not support its type.
        """
        for name in fields.names:
            if name in schema.names():
                raise InvalidInputError(f"the table has a column {name!r}; drop or rename it, or choose another name")
        addition = with_added(schema, pa.schema([field.with_nullable(True) for field in fields]), first_id)
        return cls(addition.schema, addition.added, False)

    @classmethod
    def existing(cls, schema: LanceSchema, columns: Sequence[str]) -> ColumnsToFill:
        """The columns of `schema` with these names.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: no column is named, or one is named twice.
        """
        if not columns or len(set(columns)) != len(columns):
            raise InvalidInputError(f"name at least one column to fill, and each only once, not {list(columns)}")
        checked = RowChecks(schema).columns()
        for name in columns:
            if name.lower() in checked:
                raise UnsupportedFeatureError(
                    f"column {name!r} has a CHECK constraint, or is a generated one or one that such a column is made "
                    "of, which filling in values does not check; use UPDATE",
                    feature="CHECK constraint",
                )
        finder = FieldFinder(schema)
        fields = tuple(finder.find((name,))[0] for name in columns)
        for field in fields:
            if IDENTITY in field.metadata:
                raise UnsupportedFeatureError(
                    f"column {field.name!r} is an identity column, whose values rows keep; use UPDATE if it is "
                    "GENERATED BY DEFAULT",
                    feature="identity columns",
                )
        return cls(schema, LanceSchema(fields, {}), True)


@dataclass(frozen=True, slots=True)
class BackfilledFragment:
    """A file written by a task; it can be pickled.

    Attributes:
        rows: the offsets of the rows with new values, as a portable Roaring bitmap.
    """

    fragment_id: FragmentId
    file: DataFile
    rows: bytes


def plan_new_columns(
    table: TableLocation, base: Manifest, fields: pa.Schema, *, job: str | None = None
) -> BackfillPlan:
    """A plan for top-level columns that `base` lacks; they are nullable.

    Raises:
        InvalidInputError: a column already exists, or Lance does not support its type.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
        StorageError: commits are not safe in this store.
    """
    _check_fillable(table, base)
    return _plan(base, ColumnsToFill.new(base.schema, fields, next_field_id(table.history, base)), job)


def plan_new_values(
    table: TableLocation, base: Manifest, columns: Sequence[str], *, job: str | None = None
) -> BackfillPlan:
    """A plan for new values of top-level columns of `base`.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: no column is named, or one is named twice.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
        StorageError: commits are not safe in this store.
    """
    _check_fillable(table, base)
    return _plan(base, ColumnsToFill.existing(base.schema, columns), job)


def _check_fillable(table: TableLocation, base: Manifest) -> None:
    check_followable(base)
    check_writable(base.writer_flags, table.uri)
    table.history.check_commits()


def _plan(base: Manifest, columns: ColumnsToFill, job: str | None) -> BackfillPlan:
    file_version = column_file_version(base, columns.written)
    require_writable(columns.written, file_version)
    return BackfillPlan(base.version, columns.schema, columns.written, columns.replaces, file_version, job)


def write_backfill(
    store: ObjectStore,
    bases: Bases,
    plan: BackfillPlan,
    fragment: DataFragment,
    addresses: UInt64Array,
    rows: pa.Table | pa.RecordBatch,
) -> BackfilledFragment | None:
    """Writes the file of a fragment with the values of some rows; None if there are none. On an error no file is left.

    Args:
        store: the root of the branch.
        fragment: as in the version of the plan.
        addresses: uint64[n]: the row addresses, in any order.
        rows: n rows with the columns of `plan.arrow_schema`, by name.

    Raises:
        InvalidInputError: the address of a deleted row or of another fragment, a duplicate address, or a value that
            does not match its column.
        StorageError: the store failed.
    """
    ids, offsets = split_addresses(np.asarray(addresses, np.uint64))
    if len(offsets) != rows.num_rows:
        raise InvalidInputError(f"{rows.num_rows} rows have {len(offsets)} addresses")
    if not len(offsets):
        return None
    reader = FragmentReader(fragment, bases)
    num_rows = reader.num_rows
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]
    if bool((ids != fragment.id).any()) or int(offsets[-1]) >= num_rows:
        raise InvalidInputError(f"an address is not in fragment {fragment.id}, which has {num_rows} rows")
    twice = offsets[1:][offsets[1:] == offsets[:-1]]
    if len(twice):
        raise InvalidInputError(f"several rows are for row {int(twice[0])} of fragment {fragment.id}")
    deleted = np.intersect1d(offsets, reader.deletions.offsets)
    if len(deleted):
        raise InvalidInputError(
            f"row {int(deleted[0])} of fragment {fragment.id} is not there any more: it was deleted, or an update has "
            "moved it; identify rows by addresses of the version that is read"
        )
    new = _BackfilledRows(_in_types(rows, plan.arrow_schema), offsets, order)
    batches = _replaced(fragment, bases, plan, new) if plan.replaces else new.batches()
    file = write_column_file(store, plan.written, batches, num_rows, file_version=plan.file_version, job=plan.job)
    return BackfilledFragment(fragment.id, file, pyroaring.BitMap(offsets.tolist()).serialize())


def commit_backfill(
    table: TableLocation,
    base: Manifest,
    plan: BackfillPlan,
    written: Sequence[BackfilledFragment],
    options: CommitOptions | None = None,
    *,
    keeps_files: bool = False,
) -> Manifest:
    """The version of `table` with the columns of all files. After an error the files are removed.

    Args:
        base: the version of the plan.
        keeps_files: leaves uncommitted files to the caller, who may commit again.

    Raises:
        RetryableConflictError: others have rewritten rows or changed columns; start again with the newest version.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed; the files are kept.
        StorageError: the store failed. Nothing was changed.
    """
    with nullcontext() if keeps_files else cleanup_on_failure(lambda: remove_backfill(table.store, written)):
        if base.version != plan.base_version:
            raise InvalidInputError(f"the plan is for version {plan.base_version}, not for {base.version}")
        if plan.replaces and not written:
            return base
        change = _Backfill(plan, written)
        transaction = Transaction.new(base.version, change.on_version(base), options_of(options).all_properties())
        new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
        policy = options_of(options).policy
        committed = Commit(table.history, base, transaction, new_table, policy, change.on_version).run()
    if not keeps_files:
        fragment_ids = {message.id for message in committed.fragments.messages}
        remove_backfill(table.store, [item for item in written if item.fragment_id not in fragment_ids])
    return committed


def remove_backfill(store: ObjectStore, written: Iterable[BackfilledFragment]) -> None:
    """Removes files that no version references."""
    for item in written:
        delete_quietly(store, f"{DATA}/{item.file.path}")


class _Backfill:
    """The operation that adds the files to a version."""

    def __init__(self, plan: BackfillPlan, written: Sequence[BackfilledFragment]) -> None:
        self._plan = plan
        self._written = {int(item.fragment_id): item for item in written}
        if len(self._written) != len(written):
            raise InvalidInputError("a fragment was written twice; hand over what one task wrote")
        self._field_ids = tuple(node.id for node in plan.written.walk() if node.id >= 0)

    def on_version(self, manifest: Manifest) -> Merge | Update:
        """For the version of the plan, or a newer one in which the row addresses are unchanged."""
        return self._update(manifest) if self._plan.replaces else self._merge(manifest)

    def _merge(self, manifest: Manifest) -> Merge:
        messages = []
        for message in manifest.fragments.messages:
            item = self._written.get(message.id)
            if item is not None:
                changed = type(message)()
                changed.CopyFrom(message)
                changed.files.append(item.file.to_proto())
                message = changed
            messages.append(message)
        return Merge(
            FragmentList(messages),
            LanceSchema(self._plan.schema.fields, manifest.schema.metadata),
            preserves_nullability=True,
            recomputed=Recomputed.BY_PLACE,
            new_files=frozenset(item.file.path for item in self._written.values()),
        )

    def _update(self, manifest: Manifest) -> Update:
        updated = []
        for place, message in enumerate(manifest.fragments.messages):
            if message.id in self._written:
                fragment = manifest.fragments[place]
                updated.append(fragment.with_columns_of(self._written[fragment.id].file))
        return Update(
            removed_fragment_ids=(),
            updated_fragments=tuple(updated),
            new_fragments=(),
            fields_modified=self._field_ids,
            mode=UpdateMode.REWRITE_COLUMNS,
            updated_offsets={fragment.id: self._written[fragment.id].rows for fragment in updated},
        )


@dataclass(frozen=True, slots=True)
class _BackfilledRows:
    """Rows for a fragment.

    Attributes:
        offsets: int64[n], ascending: their row offsets.
        order: int64[n]: the indexes of these rows in `table`.
    """

    table: pa.Table
    offsets: np.typing.NDArray[np.int64]
    order: np.typing.NDArray[np.int64]

    def batches(self) -> Iterator[PlacedBatch]:
        for start in range(0, len(self.order), DEFAULT_BATCH_ROWS):
            part = self.order[start : start + DEFAULT_BATCH_ROWS]
            columns = [take_chunked(column, part) for column in self.table.columns]
            table = pa.Table.from_arrays(columns, schema=self.table.schema).combine_chunks()
            for batch in table.to_batches():
                yield PlacedBatch(self.offsets[start : start + batch.num_rows], batch)
                start += batch.num_rows


def _replaced(fragment: DataFragment, bases: Bases, plan: BackfillPlan, new: _BackfilledRows) -> Iterator[PlacedBatch]:
    """All rows of the fragment, with the values of `new` where it has the row."""
    for old in physical_batches(FragmentReader(fragment, bases), plan.written.fields):
        start, num_rows = int(old.offsets[0]), old.batch.num_rows
        first, last = np.searchsorted(new.offsets, [start, start + num_rows])
        if first == last:
            yield old
            continue
        sources = np.arange(num_rows)
        sources[new.offsets[first:last] - start] = num_rows + np.arange(last - first)
        arrays = []
        for column, fresh in zip(old.batch.columns, new.table.columns, strict=True):
            both = pa.chunked_array([column, *take_chunked(fresh, new.order[first:last]).chunks], column.type)
            arrays.append(take_chunked(both, sources))
        table = pa.Table.from_arrays(arrays, schema=plan.arrow_schema).combine_chunks()
        for batch in table.to_batches():
            yield PlacedBatch(np.arange(start, start + batch.num_rows), batch)
            start += batch.num_rows


def _in_types(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if sorted(table.column_names) != sorted(schema.names):
        raise InvalidInputError(f"the columns {schema.names} are written, the rows have {table.column_names}")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidInputError(f"the rows do not fit the columns: {error}") from error
