"""Data files with values of columns for rows that are known by their address: what a backfill and an update write.

In all other rows of the fragment new columns are null, and existing columns keep their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyroaring

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file.writable import WRITABLE_VERSIONS
from lance_spark.file_version import FileVersion
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.generated import IDENTITY
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import DATA
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import DEFAULT_BATCH_ROWS
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentId
from lance_spark.table.rows.row_address import UInt64Array, split_addresses
from lance_spark.table.writing.checks import RowChecks
from lance_spark.table.writing.column_files import PlacedBatch, physical_batches, write_column_file
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION


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
class BackfilledFragment:
    """A file written by a task; it can be pickled.

    Attributes:
        rows: the offsets of the rows with new values, as a portable Roaring bitmap.
    """

    fragment_id: FragmentId
    file: DataFile
    rows: bytes

    @property
    def num_rows(self) -> int:
        """Number of rows with new values."""
        return len(pyroaring.BitMap.deserialize(self.rows))


@dataclass(frozen=True, slots=True)
class BackfilledSplit:
    """A file that a task wrote for a fragment; it can be pickled.

    Attributes:
        key: of the fragment's split, None in a plain table.
    """

    key: str | None
    fragment: BackfilledFragment


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


def remove_backfill(store: ObjectStore, written: Iterable[BackfilledFragment]) -> None:
    """Removes files that no version references."""
    for item in written:
        delete_quietly(store, f"{DATA}/{item.file.path}")


def obstacle_to_filling(schema: LanceSchema, fields: Iterable[Field]) -> str | None:
    """The reason why columns of a table cannot get values apart from the rest of their rows; None if there is none."""
    checked = RowChecks(schema).columns()
    for field in fields:
        if field.name.lower() in checked:
            return f"column {field.name!r} is in a CHECK constraint, or is or makes a generated column"
        if IDENTITY in field.metadata:
            return f"column {field.name!r} is an identity column"
    return None


def column_file_version(base: Manifest, columns: LanceSchema) -> FileVersion:
    """The file version of new files with `columns` beside those of `base`.

    Values of deleted rows are null, and files of version 2.0 have no null structs; such columns get a newer file.

    Raises:
        UnsupportedFeatureError: the table is a legacy one.
    """
    version = data_format(base)
    if version is FileVersion.V0_1:
        raise UnsupportedFeatureError(
            "a table of the legacy file version 0.1 cannot get columns with values; "
            "convert it with upgrade_files first",
            feature="file version",
            version=version.value,
        )
    has_structs = any(node.logical_type == "struct" for field in columns.fields for node in field.walk())
    if version not in WRITABLE_VERSIONS or (version is FileVersion.V2_0 and has_structs):
        return DEFAULT_FILE_VERSION
    return version


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
