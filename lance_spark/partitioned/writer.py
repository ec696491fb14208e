"""Writes rows into the directories of their partitions.

Tasks of one job give a new partition one directory without asking each other, because its name follows from the job and
the partition values.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.file.blob_writer import BlobSource
from lance_spark.namespace.json_arrow_schema import FIELD_ID_KEY
from lance_spark.partitioned.manifest_index import Partition, PartitionKey
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.partitioned.values.row_values import PartitionRows, grouped
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.constraints import without_checks
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.table.bases import Bases
from lance_spark.table.reading.blobs.blob_columns import sources_in
from lance_spark.table.reading.blobs.signed_sources import SignedSources
from lance_spark.table.row_level.rewritten_rows import MovedRowWriter, NewFragment
from lance_spark.table.row_level.row_writer import RowOrigins, RowWriter, WrittenSplit
from lance_spark.table.writing.file_limits import FileLimits
from lance_spark.table.writing.row_pipeline import TaskRows
from lance_spark.table.writing.write import FragmentWriter, remove_fragments

MAX_OPEN_FILES = 64
"""The number of partitions that one task writes at the same time; sorted rows need one."""


@dataclass(frozen=True, slots=True)
class WrittenPartition(WrittenSplit):
    """New fragments of one partition.

    Attributes:
        partition: as the version of the table that the rows were written for has it, or as it is to be.
    """

    partition: Partition


class PartitionWriter(RowWriter):
    """Writes rows of one task into the directories of their partitions.

    Args:
        rows: completes and checks them.
        table: the version that knows the partitions, with the columns and specs that the table gets.
        schema: the columns that data files get, with their field ids.
        job: the name of the write; its data files and new directories follow from it.
        others: finds the blobs of other tables; None if rows have no descriptions of blobs.
    """

    def __init__(
        self,
        rows: TaskRows,
        table: PartitionedTable,
        schema: LanceSchema,
        limits: FileLimits,
        job: str,
        others: SignedSources | None = None,
    ) -> None:
        super().__init__(rows)
        self._table = table
        self._schema = schema
        self._limits = limits
        self._job = job
        self._others = others
        self._spec = table.specs.current
        self._partitions: dict[PartitionKey, Partition] = {}
        self._open: OrderedDict[PartitionKey, MovedRowWriter] = OrderedDict()
        self._closed: dict[PartitionKey, list[NewFragment]] = {}
        self._copies_blobs = others is not None and any(has_blobs(field) for field in schema.fields)
        self._bases: dict[str, Bases] = {}

    def _write(self, batch: pa.RecordBatch, origins: RowOrigins | None) -> None:
        values = self._spec.values(_with_missing_columns(batch, self._table.lance_schema), self._table.lance_schema)
        for part in grouped(batch, values):
            writer = self._writer(part)
            key = self._partitions[self._spec.id, part.key].object_id
            writer.write(part.rows, None if origins is None else origins.within(key, part.places))

    def close(self) -> tuple[WrittenPartition, ...]:
        while self._open:
            self._close_oldest()
        return tuple(
            WrittenPartition(tuple(new), self._partitions[place]) for place, new in self._closed.items() if new
        )

    def abort(self) -> None:
        for writer in self._open.values():
            writer.abort()
        self._open.clear()
        for place, new in self._closed.items():
            remove_fragments(self._store(place), [item.fragment for item in new])
        self._closed.clear()

    def _writer(self, part: PartitionRows) -> MovedRowWriter:
        place = (self._spec.id, part.key)
        if place in self._open:
            self._open.move_to_end(place)
            return self._open[place]
        if len(self._open) >= MAX_OPEN_FILES:
            self._close_oldest()
        if place not in self._partitions:
            existing = self._table.index.find(place)
            new = existing or self._table.index.new_partition(self._spec, part.values, self._job)
            self._partitions[place] = new
        fragments = FragmentWriter(
            self._store(place),
            self._schema,
            file_version=self._table.file_version,
            limits=self._limits,
            job=self._job,
            blob_source=self._blob_source() if self._copies_blobs else None,
        )
        writer = self._open[place] = MovedRowWriter(fragments)
        return writer

    def _blob_source(self) -> BlobSource:
        return sources_in(self._bases_of, self._table.root, self._table.storage_options, self._others)

    def _bases_of(self, object_id: str | None) -> Bases:
        """The bases of a partition in the version that rows were read from."""
        if object_id is None:
            raise InvalidInputError("a blob that is copied is of another table; write its bytes")
        if object_id not in self._bases:
            partition = self._table.index.by_id.get(object_id)
            if partition is None:
                raise InvalidInputError(f"{self._table.root} has no partition {object_id}, which a blob is of")
            self._bases[object_id] = self._table.open(partition).bases
        return self._bases[object_id]

    def _store(self, place: PartitionKey) -> ObjectStore:
        return open_store(self._table.location(self._partitions[place]).store.uri, self._table.storage_options)

    def _close_oldest(self) -> None:
        place, writer = next(iter(self._open.items()))
        self._closed.setdefault(place, []).extend(writer.close())
        del self._open[place]


def partition_schema(schema: LanceSchema) -> LanceSchema:
    """The schema of partition tables: the namespace's, each field with its id in its metadata too."""

    def tagged(field: Field) -> Field:
        metadata = {**field.metadata, FIELD_ID_KEY: str(field.id).encode()}
        return replace(field, metadata=metadata, children=tuple(map(tagged, field.children)))

    # Constraints are the namespace's; partitions would keep those that it has dropped.
    return LanceSchema(tuple(map(tagged, schema.fields)), dict(without_checks(schema).metadata))


def _with_missing_columns(rows: pa.RecordBatch, schema: LanceSchema) -> pa.RecordBatch:
    """`rows` with null columns where partition values may need a column that is missing."""
    names = set(rows.schema.names)
    missing = [to_arrow_field(field) for field in schema.fields if field.name not in names]
    if not missing:
        return rows
    if any(not field.nullable for field in missing):
        raise InvalidInputError("a column that must not be null is missing")
    arrays = [*rows.columns, *(pa.nulls(rows.num_rows, field.type) for field in missing)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*rows.schema, *missing]))
