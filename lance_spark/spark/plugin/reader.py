"""Reading a pinned version in Spark tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import DataType, LongType, StructField, StructType

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.expr.nodes import conjunction
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import project
from lance_spark.spark.blobs.columns import blob_bytes, in_target
from lance_spark.spark.connector.channel.warm_worker import errors_without_traceback, keep_imports
from lance_spark.spark.index_answers import IndexAnswers, asked_scalar_index
from lance_spark.spark.options.options import ReadOptions
from lance_spark.spark.partitions import LanceInputPartition, SizedRows, SizedSplit, plan_partitions
from lance_spark.spark.plugin.filters import split_filters
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.spark.projection import narrow
from lance_spark.spark.scan_spec import ScanSpec, bound_to
from lance_spark.spark.table_view import ShownAs, spark_view
from lance_spark.spark.types.schemas import exchanged_schema, to_spark_schema
from lance_spark.spark.types.values import to_spark_batch
from lance_spark.storage.paths import with_absolute_path
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID
from lance_spark.table.source import Split

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


@dataclass(frozen=True)
class Snapshot:
    """A version of a table as the driver sees it while it plans."""

    options: ReadOptions
    location: TableLocation
    manifest: Manifest

    @classmethod
    def open(cls, options: ReadOptions, pinned_version: int | None) -> Snapshot:
        """The version that `options` ask for, or `pinned_version` if it was found out before.

        Raises:
            NotFoundError: no such table, version, tag or branch.
        """
        branch = options.branch
        version = options.version
        location = TableLocation(options.path, options.storage_options, branch=branch)
        if options.tag is not None:
            tag = location.refs.tag(options.tag)
            location, version = location.on_branch(tag.branch), tag.version
        if pinned_version is not None:
            version = pinned_version
        if version is not None:
            return cls(options, location, location.at(version).manifest)
        if options.timestamp is not None:
            return cls(options, location, location.as_of(options.timestamp).manifest)
        newest = location.latest()
        if newest is None:
            raise NotFoundError(f"there is no Lance table at {with_absolute_path(location.uri)}")
        return cls(options, location, newest)

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def system_columns(self) -> tuple[str, ...]:
        """The system columns that the options ask for."""
        asked = ((ROW_ID, self.options.with_row_id), (ROW_ADDRESS, self.options.with_row_address))
        return tuple(name for name, on in asked if on)

    @property
    def shown_schema(self) -> LanceSchema:
        """The columns of the table as Spark sees them."""
        options = self.options
        shown = ShownAs.of(
            self.manifest.config,
            blob_handling=options.blob_handling,
            json_as=options.json_as,
            uuid_as=options.uuid_as,
        )
        return spark_view(self.manifest.schema, data_format(self.manifest), shown)

    @property
    def spark_schema(self) -> StructType:
        """Schema in Spark: the columns that the options select, then system columns."""
        schema = self.shown_schema
        chosen = schema if self.options.columns is None else project(schema, self.options.columns)
        columns = to_spark_schema(to_arrow_schema(chosen))
        return StructType([*columns.fields, *(StructField(name, LongType(), False) for name in self.system_columns)])


class LanceReader(DataSourceReader):
    """Reads the columns of `schema` from the version of `snapshot`.

    What a task needs is pickled once, with this reader: the scan. The manifest stays on the driver.

    Raises:
        NotFoundError: `schema` names a column that the table has not.
        InvalidInputError: a column of `schema` has another type in the table.
    """

    def __init__(self, snapshot: Snapshot, schema: StructType) -> None:
        self._snapshot: Snapshot | None = snapshot
        self._target = exchanged_schema(schema)
        self._limit = snapshot.options.limit
        # Rows are limited before Spark filters them, so a limit leaves nothing to push.
        self._pushes = self._limit is None
        _check_types(narrow(snapshot.shown_schema, schema, snapshot.system_columns), schema)
        spec = ScanSpec.of(snapshot.manifest.schema, data_format(snapshot.manifest), schema, snapshot.options)
        split = Split(snapshot.location, snapshot.manifest)
        self._scan = bound_to(spec.scan(split.bases, snapshot.options.filter), split)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_snapshot": None}

    def partitions(self) -> Sequence[InputPartition]:
        assert self._snapshot is not None, "planned on the driver only"
        parts = ((self._scan, fragment) for fragment in self._snapshot.manifest.fragments)
        sizes = ProjectedSizes(self._scan.schema, self._scan.projection, blob_bytes(parts, self._target, self._scan))
        rows = self._rows(self._snapshot, sizes)
        # Rows up to a limit are counted in one place, or there would be too many.
        target = self._snapshot.options.target_partition_bytes if self._limit is None else 1 << 62
        return [LanceInputPartition(part.slices()) for part in plan_partitions(rows, target)]

    def _rows(self, snapshot: Snapshot, sizes: ProjectedSizes) -> SizedRows:
        """Rows of the fragments that can match the filter, as far as indexes know."""
        asks = asked_scalar_index(snapshot.options.use_scalar_index, None)
        answers = IndexAnswers.of([(snapshot.manifest, self._scan)]) if asks else IndexAnswers()
        fragments = snapshot.manifest.fragments
        sized = SizedSplit(fragments, self._scan.bases, sizes)
        if not answers.know_rows:
            return sized.rows(0, len(fragments))
        found = (
            (place, answers.candidates(0, message.id, message.physical_rows))
            for place, message in enumerate(fragments.messages)
        )
        return SizedRows.of(
            fragments,
            [
                sized.fragment(place) if rows is None else sized.fragment(place).only(rows)
                for place, rows in found
                if rows is None or rows
            ],
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LanceInputPartition):
            return  # What Spark makes up for a table without fragments.
        with errors_without_traceback():
            yield from self._read(partition)
        keep_imports()

    def _read(self, partition: LanceInputPartition) -> Iterator[pa.RecordBatch]:
        left = self._limit
        slices = partition.slices.rows(self._scan.version)
        for batch in in_target(self._scan.read(slices), self._target, self._scan):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield to_spark_batch(batch, self._target)
            if left == 0:
                return


class PushdownReader(LanceReader):
    """The reader in sessions where Spark hands over its filters, for users who ask for it.

    Spark 4.3 keeps one plan for all queries over one DataFrame and replaces it whenever a filter is pushed. A later
    query without filters, or another branch of the same query, then reads with the filter of somebody else. So pushing
    is off unless the user says that this DataFrame serves one query (docs/design/028-filters-of-the-plug-in.md).
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        if not self._pushes:
            return filters
        pushed, left = split_filters(filters, to_arrow_schema(self._scan.schema))
        terms = tuple(pushed) if self._scan.filter is None else (self._scan.filter, *pushed)
        self._scan = replace(self._scan, filter=conjunction(terms))
        return left


def _check_types(projection: LanceSchema, asked: StructType) -> None:
    have = {field.name: field.dataType for field in to_spark_schema(to_arrow_schema(projection)).fields}
    for field in asked.fields:
        actual: DataType | None = have.get(field.name)
        if actual is not None and actual.simpleString() != field.dataType.simpleString():
            raise InvalidInputError(
                f"column {field.name} is {actual.simpleString()} in the table, not {field.dataType.simpleString()}; "
                "read it as it is and cast it"
            )
