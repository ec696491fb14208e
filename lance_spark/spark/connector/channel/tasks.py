"""The code of tasks: functions over Arrow batches, pickled by the driver as Spark's workers expect them.

The functions are instances of classes of this module, so that a pickle contains their data and not their code.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StructType

from lance_spark.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr, conjunction, referenced_columns, with_values
from lance_spark.layouts.arrow_take import take
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.blobs.columns import in_target
from lance_spark.spark.connector.channel.conditions import TaskError
from lance_spark.spark.connector.channel.warm_worker import keep_imports
from lance_spark.spark.connector.channel.wire_types import to_wire_batch
from lance_spark.spark.partitions import FragmentSlices
from lance_spark.spark.types.intervals import type_with_months
from lance_spark.spark.types.variant_paths import with_members
from lance_spark.storage.paths import absolute_uri
from lance_spark.table.bases import BasePath
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import filterable
from lance_spark.table.source import Split

MESSAGE_TYPE = StructType().add("message", BinaryType())


PARTITION_COLUMN = "_partition"
"""The metadata column with the key of a row's split, which is the object id of its partition."""


@dataclass(frozen=True, slots=True)
class SplitWork:
    """Rows of one split for one task.

    Attributes:
        uri: root of the split's table, or of its branch.
        base_paths, version: of that table.
        stable_row_ids: whether it has them.
        slices: the rows.
        key: of the split, None in a plain table.
        shown_as: what errors call the version.
        filter: of these rows, if it is not that of the scan of all tasks.
        older: schema and projection of the split, if its columns have other ids or types than those of the scan.
        constants: names and values of columns that are in none of its files.
    """

    uri: str
    base_paths: tuple[BasePath, ...]
    version: int
    stable_row_ids: bool
    slices: FragmentSlices
    key: str | None = None
    display_name: str | None = None
    filter: Expr | None = None
    older: tuple[LanceSchema, LanceSchema] | None = None
    constants: tuple[tuple[str, Literal], ...] = ()

    @classmethod
    def of(cls, split: Split, slices: FragmentSlices, filter: Expr | None = None) -> SplitWork:
        """The work of reading `slices` of `split`."""
        # A task may run where a relative path means something else.
        uri, manifest = absolute_uri(split.table.store.uri), split.manifest
        stable_row_ids = manifest.has_stable_row_ids
        table = (uri, manifest.base_paths, manifest.version, stable_row_ids)
        return cls(*table, slices, split.key, split.display_name, filter)

    def bound(self, scan: Scan) -> Scan:
        """`scan`, which belongs to no split, for this one."""
        bases = scan.bases.of_table(self.uri, self.base_paths, self.version, self.display_name, self.key)
        condition = scan.filter if self.filter is None else self.filter
        if self.older is not None:
            schema, projection = self.older
            scan = scan.returning(projection, scan.output, schema)
        if self.constants and condition is not None:
            condition = with_existing_values(condition, dict(self.constants), scan.schema)
        return replace(scan.of_version(bases, stable_row_ids=self.stable_row_ids), filter=condition)

    def read(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """The rows, by a scan that is bound to the split."""
        constants = dict(self.constants)
        for batch in scan.read(self.slices.rows(scan.version)):
            yield filled_in(batch, constants) if constants else batch


@dataclass(frozen=True, slots=True)
class ReadWork:
    """The work of one read task.

    Attributes:
        parts: what to read, split by split.
        runtime_filter: what rows have to match besides the filter of all tasks.
    """

    parts: tuple[SplitWork, ...]
    runtime_filter: Expr | None = None

    def to_bytes(self) -> bytes:
        """The serialized work, sent to a task as a row."""
        return pickle.dumps(self)

    @staticmethod
    def of_rows(batches: Iterable[pa.RecordBatch]) -> list[ReadWork]:
        """Reads all input eagerly: a worker that leaves some of it unread cannot be reused."""
        # Pickled by the driver of this very query; it was never in a file or accessible to a user.
        return [pickle.loads(row.as_py()) for batch in batches for row in batch.column(0)]


def bound_parts(scan: Scan, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[SplitWork, Scan]]:
    """Each part of the work in `batches`, with `scan` bound to its split and narrowed by the runtime filter."""
    for work in ReadWork.of_rows(batches):
        for part in work.parts:
            yield part, narrowed(part.bound(scan), work.runtime_filter)


def narrowed(scan: Scan, more: Expr | None) -> Scan:
    """`scan` with its filter AND `more`."""
    terms = tuple(term for term in (scan.filter, more) if term is not None)
    return scan if more is None else replace(scan, filter=conjunction(terms))


@dataclass(frozen=True)
class ReadTask:
    """Reads the rows that its input names.

    Attributes:
        scan: what to read of each split; it is bound to none.
        target: the columns in the Arrow types that Spark expects.
        limit: the number of rows after which a task stops.
        blob_key: signs where described blobs are.
    """

    scan: Scan
    target: pa.Schema
    limit: int | None = None
    blob_key: bytes = b""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self.limit
        for part, scan in bound_parts(self.scan, batches):
            found = in_target(self._read(part, scan), self.target, scan, self.blob_key)
            for batch in with_members(found, self.target):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                yield to_wire_batch(self._with_key(batch, part.key), self.target)
                if left == 0:
                    return

    def _read(self, part: SplitWork, scan: Scan) -> Iterator[pa.RecordBatch]:
        found = part.read(scan)
        if part.older is None:
            return found
        return (in_newer_types(batch, self.scan.arrow_schema) for batch in found)

    def _with_key(self, batch: pa.RecordBatch, key: str | None) -> pa.RecordBatch:
        place = self.target.get_field_index(PARTITION_COLUMN)
        if place < 0 or PARTITION_COLUMN in batch.schema.names:
            return batch
        keys = pa.repeat(pa.scalar(key, pa.string()), batch.num_rows)
        columns = [*batch.columns[:place], keys, *batch.columns[place:]]
        names = [*batch.schema.names[:place], PARTITION_COLUMN, *batch.schema.names[place:]]
        return pa.RecordBatch.from_arrays(columns, names)


def with_existing_values(condition: Expr, constants: Mapping[str, Expr], schema: LanceSchema) -> Expr:
    """A filter with the values of columns in the place of their names, however it spells them.

    Raises:
        NotFoundError: the filter names a column that is not there.
    """
    known = filterable(to_arrow_schema(schema))
    names = {path: resolve_names(known, path)[0] for path in referenced_columns(condition) if len(path) == 1}
    return with_values(condition, {path: constants[name] for path, name in names.items() if name in constants})


def filled_in(batch: pa.RecordBatch, constants: Mapping[str, Expr]) -> pa.RecordBatch:
    """A batch whose columns of these names have the values instead of NULL.

    Raises:
        InvalidInputError: a value does not fit the type of its column.
    """
    from lance_spark.expr.assign import constant

    places = np.zeros(batch.num_rows, np.int64)
    arrays = [
        take(constant(constants[field.name], field.type), places) if field.name in constants else array
        for field, array in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def in_newer_types(batch: pa.RecordBatch, newer: pa.Schema) -> pa.RecordBatch:
    """A batch of columns as an older version has them, in the types of a newer one.

    Raises:
        InvalidInputError: a value does not fit.
    """
    arrays = []
    for array, wanted in zip(batch.columns, newer, strict=True):
        try:
            array = array if array.type == wanted.type else array.cast(wanted.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(_older(wanted, f"its type was {array.type}: {error}")) from error
        if array.null_count and not wanted.nullable:
            raise InvalidInputError(_older(wanted, "it has a NULL there"))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=newer)


def _older(column: pa.Field, reason: str) -> str:
    return (
        f"column {column.name!r} is {column.type} now, and rows of an older version cannot be read so: {reason}. Leave "
        "the version out with skipVersions, or the column with the option columns"
    )


def messages(items: Iterable[bytes]) -> pa.RecordBatch:
    """Work items or results of tasks, one row each.

    Raises:
        UnsupportedFeatureError: they have 2 GiB or more together, which Spark cannot take.
    """
    values = list(items)
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    if ends[-1] >= 1 << 31:
        raise UnsupportedFeatureError(f"the results of a task have {ends[-1]} bytes; Spark takes less than 2 GiB")
    # `pa.array` imports pandas, which takes a worker longer than a small write.
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(values))]
    column = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    return pa.RecordBatch.from_arrays([column], ["message"])


def work_of(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    """Work items of a task: the items of its rows, which the driver of this very query has pickled."""
    return [item.as_py() for batch in batches for item in batch.column(0)]


TaskFunction = Callable[[Iterable[Any]], Iterator[Any]]
"""Maps batches to batches, or the arrays of a column to as many values."""


@dataclass(frozen=True)
class _InWarmWorker:
    """Runs `function` in a worker that is reused for more tasks."""

    function: TaskFunction

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from self.function(batches)
        except (LanceError, MemoryError) as error:
            raise TaskError(error) from error
        keep_imports()


def command(function: TaskFunction, returns: DataType) -> bytes:
    """`function` in the format of Spark's Python workers."""
    return pickle.dumps((_InWarmWorker(function), type_with_months(returns)))
