"""Writing rows into the directories of their partitions.

The driver makes a plan, tasks write by it, and the driver commits what they report (`commit`). Tasks of one
plan give a new partition one directory without asking each other, because its name follows from the plan's job and
the partition values.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.file.blob_writer import BlobSource
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.namespace.catalog_table import CatalogTable
from lance_spark.namespace.json_arrow_schema import FIELD_ID_KEY
from lance_spark.namespace.locations import location_uri
from lance_spark.partitioned.manifest_index import Partition, PartitionKey
from lance_spark.partitioned.spec import PartitionSpecs
from lance_spark.partitioned.table import PartitionedTable, PlannedTable
from lance_spark.partitioned.values.row_values import PartitionRows, grouped
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.check import without_checks
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.storage import open_store
from lance_spark.table.bases import Bases
from lance_spark.table.paths import new_job
from lance_spark.table.reading.blobs.blob_columns import sources_in
from lance_spark.table.reading.blobs.signed_sources import SignedSources
from lance_spark.table.row_level.rewritten_row_writer import MovedRowWriter
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN, NewFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.row_pipeline import RowPipeline
from lance_spark.table.writing.write import FileLimits, remove_fragments, remove_job_files

MAX_OPEN_FILES = 64
"""The number of partitions that one task writes at the same time; sorted rows need one."""


@dataclass(frozen=True, slots=True)
class PartitionedWrite:
    """Plan of a write of rows with one schema to a partitioned table. It is sent to the tasks.

    Attributes:
        root, storage_options: the namespace.
        catalog_version: the version of `__manifest` that knows the partitions.
        schema: the columns that data files get, with their field ids.
        pipeline: completes and checks the rows.
        file_version: of the data files.
        limits: when a data file is full.
        job: the name of the write; its data files and new directories follow from it.
        specs: the columns and specs that the table is to get with the rows; None if it keeps its own.
    """

    root: str
    storage_options: Mapping[str, str] | None
    catalog_version: int
    schema: LanceSchema
    pipeline: RowPipeline
    file_version: FileVersion
    limits: FileLimits
    job: str
    specs: PartitionSpecs | None = None

    @classmethod
    def of(cls, table: PartitionedTable, given: pa.Schema, limits: FileLimits | None = None) -> PartitionedWrite:
        """The plan for rows with the columns `given`.

        Raises:
            InvalidInputError: the columns do not fit the table.
            UnsupportedFeatureError: this release cannot write such columns.
        """
        table.catalog.table.history.check_commits()
        pipeline = RowPipeline(table.lance_schema, given)
        require_writable(pipeline.schema, table.file_version)
        return cls(
            table.root,
            table.storage_options,
            table.version,
            pipeline.schema,
            pipeline,
            table.file_version,
            limits or FileLimits(),
            new_job(),
            table.specs if isinstance(table, PlannedTable) else None,
        )

    def table(self) -> PartitionedTable:
        """The version of the table that the plan was made for."""
        catalog = CatalogTable(self.root, self.storage_options)
        found = catalog.at(catalog.table.at(self.catalog_version).manifest)
        table = PartitionedTable(self.root, self.storage_options, catalog, found)
        return table if self.specs is None else PlannedTable(table, self.specs)

    def remove_files(self, written: Iterable[WrittenPartition]) -> None:
        """Removes what tasks have written, and in those partitions what killed tasks have left."""
        for location in {item.partition.location for item in written}:
            remove_job_files(open_store(location_uri(self.root, location), self.storage_options), self.job)


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """New fragments of one partition. Travels to the driver.

    Attributes:
        partition: as the plan's version of the table has it, or as it is to be.
        new: in row order, without ids.
    """

    partition: Partition
    new: tuple[NewFragment, ...]


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """Original partitions and addresses of the rows of a batch.

    Attributes:
        partitions: object ids of their partitions, null for new rows.
        addresses: uint64[rows]: their addresses there, `NO_ORIGIN` for new rows.
    """

    partitions: pa.Array
    addresses: UInt64Array

    def within(self, object_id: str, places: Int64Array) -> UInt64Array:
        """Original addresses of the rows at `places`; a row from another partition is a new one here."""
        chosen = self.partitions.take(pa.array(places))
        stays = pc.fill_null(pc.equal(chosen, object_id), False).to_numpy(zero_copy_only=False)
        source_addresses: UInt64Array = np.where(stays, self.addresses[places], np.uint64(NO_ORIGIN))
        return source_addresses


class PartitionWriter:
    """Writes rows of one task. Use it as a context manager: an error inside removes everything that was written.

    Args:
        others: finds the blobs of other tables.
    """

    def __init__(self, plan: PartitionedWrite, others: SignedSources | None = None) -> None:
        self._plan = plan
        self._others = others
        self._table = plan.table()
        self._spec = self._table.specs.current
        self._partitions: dict[PartitionKey, Partition] = {}
        self._open: OrderedDict[PartitionKey, MovedRowWriter] = OrderedDict()
        self._closed: dict[PartitionKey, list[NewFragment]] = {}
        self._has_blobs = any(has_blobs(field) for field in plan.schema.fields)
        self._bases: dict[str, Bases] = {}

    def write(self, batch: pa.RecordBatch, source_addresses: RowOrigins | None = None) -> None:
        """Appends rows.

        Args:
            origins: where the rows were; None if they are new ones.

        Raises:
            InvalidInputError: the batch does not fit the table, or a partition value cannot be computed.
        """
        rows = self._plan.pipeline(batch)
        values = self._spec.values(_with_missing_columns(rows, self._table.lance_schema), self._table.lance_schema)
        for part in grouped(rows, values):
            writer = self._writer(part)
            home = self._partitions[self._spec.id, part.key].object_id
            writer.write(part.rows, None if source_addresses is None else source_addresses.within(home, part.places))

    def close(self) -> list[WrittenPartition]:
        """Finishes all files; what was written, partition by partition."""
        while self._open:
            self._close_oldest()
        return [WrittenPartition(self._partitions[place], tuple(new)) for place, new in self._closed.items() if new]

    def abort(self) -> None:
        """Removes everything that was written."""
        for writer in self._open.values():
            writer.abort()
        self._open.clear()
        for place, new in self._closed.items():
            store = open_store(self._uri(place), self._plan.storage_options)
            remove_fragments(store, [item.fragment for item in new])
        self._closed.clear()

    def __enter__(self) -> PartitionWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self.abort()

    def _writer(self, part: PartitionRows) -> MovedRowWriter:
        place = (self._spec.id, part.key)
        if place in self._open:
            self._open.move_to_end(place)
            return self._open[place]
        if len(self._open) >= MAX_OPEN_FILES:
            self._close_oldest()
        if place not in self._partitions:
            known = self._table.index.find(place)
            new = known or self._table.index.new_partition(self._spec, part.values, self._plan.job)
            self._partitions[place] = new
        writer = self._open[place] = MovedRowWriter(
            open_store(self._uri(place), self._plan.storage_options),
            self._plan.schema,
            file_version=self._plan.file_version,
            limits=self._plan.limits,
            job=self._plan.job,
            blob_source=self._blob_source() if self._has_blobs else None,
        )
        return writer

    def _blob_source(self) -> BlobSource:
        return sources_in(self._bases_of, self._plan.storage_options, self._others)

    def _bases_of(self, object_id: str | None) -> Bases:
        """The bases of a partition in the version that rows were read from."""
        if object_id is None:
            raise InvalidInputError("a blob that is copied is of another table; write its bytes")
        if object_id not in self._bases:
            found = [item for item in self._table.index.partitions if item.object_id == object_id]
            if not found:
                raise InvalidInputError(f"{self._plan.root} has no partition {object_id}, which a blob is of")
            self._bases[object_id] = self._table.open_all(found)[0].bases
        return self._bases[object_id]

    def _uri(self, place: PartitionKey) -> str:
        return self._table.location(self._partitions[place]).store.uri

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
