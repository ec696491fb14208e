"""The methods of a `PartitionedDataset` for indexes, and for segments of single partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.indexes import changes as indexes
from lance_spark.partitioned.indexes.changes import recorded_definitions
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.indexes.build import build_segment
from lance_spark.table.indexes.definition import IndexDefinition, define
from lance_spark.table.indexes.index_verbs import IndexVerbs
from lance_spark.table.indexes.optimize import OptimizeOptions
from lance_spark.table.manifests.index_metadata import IndexMetadata

if TYPE_CHECKING:
    from typing_extensions import Self


class PartitionedIndexVerbs(IndexVerbs, PartitionedTable):
    """Index verbs of a partitioned table."""

    def _create_index(
        self, column: str, kind: str, name: str | None, replace: bool, parameters: Mapping[str, Any]
    ) -> Self:
        indexed = indexes.create_partition_indexes(self, column, kind, name, replace=replace, parameters=parameters)
        return self._verbs_of(indexed)

    def _optimize_indices(self, options: OptimizeOptions) -> Self:
        return self._verbs_of(indexes.optimize_partition_indexes(self, options))

    def build_index_segment(
        self,
        column: str,
        kind: str = "BTREE",
        name: str | None = None,
        fragment_ids: Collection[int] | None = None,
        *,
        partition: str,
        **parameters: Any,
    ) -> IndexMetadata:
        """See `Dataset.build_index_segment`. Commit with `commit_index_segments`.

        Args:
            partition: the object id of the partition to index.

        Raises:
            InvalidInputError: no such partition, and as there.
        """
        chosen = self.index.by_id.get(partition)
        if chosen is None:
            raise InvalidInputError(f"{self.root} has no partition {partition!r}")
        opened = self.open(chosen)
        definition = define(opened.manifest, column, kind, name, parameters)
        return build_segment(opened.table, opened.manifest, definition, fragment_ids)

    def commit_index_segments(self, segments: Mapping[str, Sequence[IndexMetadata]]) -> Self:
        """The version in which segments that were built from this one replace the indexes of their names.

        Args:
            segments: by the object id of their partition.

        Raises: as `Dataset.commit_indices`.
        """
        return self._verbs_of(indexes.commit_partition_segments(self, segments))

    def recorded_index(self, name: str) -> IndexDefinition | None:
        return recorded_definitions(self).get(name)

    def commit_segments(
        self,
        new: Mapping[str | None, Sequence[IndexMetadata]],
        replaced: Mapping[str | None, Collection[str]] | None = None,
    ) -> Self:
        # If this fails, files are left to a clean-up: an abandoned version of a partition may name them.
        by_key = {key: segments for key, segments in new.items() if key is not None}
        if replaced is None:
            return self.commit_index_segments(by_key)
        optimized = {key: (segments, replaced.get(key, ())) for key, segments in by_key.items()}
        return self._verbs_of(indexes.commit_optimized_partitions(self, optimized))

    def drop_index(self, name: str) -> Self:
        return self._verbs_of(indexes.drop_partition_indexes(self, name))

    def list_indices(self) -> list[dict[str, Any]]:
        return indexes.list_partition_indexes(self)

    def index_columns(self) -> dict[str, list[str]]:
        return indexes.partition_index_columns(self)

    def index_statistics(self, name: str) -> dict[str, Any]:
        return indexes.partition_index_statistics(self, name)

    def _verbs_of(self, table: PartitionedTable) -> Self:
        if isinstance(table, type(self)):
            return table
        return type(self)(table.root, table.storage_options, table.catalog, table.catalog_version)
