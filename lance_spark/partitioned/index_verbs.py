"""The methods of a `PartitionedDataset` for scalar indexes; they have the names and arguments of `Dataset`'s."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned import indexes
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.indexes.build import build_segment
from lance_spark.table.indexes.definition import define
from lance_spark.table.indexes.optimize import OptimizeOptions
from lance_spark.table.manifests.index_metadata import IndexMetadata

if TYPE_CHECKING:
    from typing_extensions import Self


class PartitionedIndexVerbs(PartitionedTable):
    """Operations on indexes: each partition's table has its own, all of them in one version."""

    def create_scalar_index(
        self, column: str, kind: str = "BTREE", name: str | None = None, replace: bool = True, **parameters: Any
    ) -> Self:
        """See `Dataset.create_scalar_index`. Partitions that come later get the index by `optimize_indices`.

        Raises:
            InvalidInputError: the table has no partition yet, and as there.
        """
        made = indexes.create_partition_indexes(self, column, kind, name, replace=replace, parameters=parameters)
        return self._verbs_of(made)

    def create_index(
        self,
        column: str,
        index_type: str,
        name: str | None = None,
        metric: str | None = None,
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: Any = None,
        pq_codebook: Any = None,
        num_sub_vectors: int | None = None,
        **parameters: Any,
    ) -> Self:
        """See `Dataset.create_index`: the partitions of the table are indexed each for itself."""
        named = {
            "metric": metric,
            "num_partitions": num_partitions,
            "ivf_centroids": ivf_centroids,
            "pq_codebook": pq_codebook,
            "num_sub_vectors": num_sub_vectors,
        }
        given = {**parameters, **{key: value for key, value in named.items() if value is not None}}
        return self.create_scalar_index(column, index_type, name, replace, **given)

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
        found = self.index.by_id.get(partition)
        if found is None:
            raise InvalidInputError(f"{self.root} has no partition {partition!r}")
        opened = self.open(found)
        definition = define(opened.manifest, column, kind, name, parameters)
        return build_segment(opened.table, opened.manifest, definition, fragment_ids)

    def commit_index_segments(self, segments: Mapping[str, Sequence[IndexMetadata]]) -> Self:
        """The version in which segments that were built from this one replace the indexes of their names.

        Args:
            segments: by the object id of their partition.

        Raises: as `Dataset.commit_indices`.
        """
        return self._verbs_of(indexes.commit_partition_segments(self, segments))

    def optimize_indices(
        self, names: Sequence[str] | str | None = None, *, num_indices_to_merge: int = 1, retrain: bool = False
    ) -> Self:
        """See `Dataset.optimize_indices`. Partitions that lack an index that others have get it."""
        chosen = (names,) if isinstance(names, str) else None if names is None else tuple(names)
        options = OptimizeOptions(chosen, num_indices_to_merge, retrain)
        return self._verbs_of(indexes.optimize_partition_indexes(self, options))

    def drop_index(self, name: str) -> Self:
        """See `Dataset.drop_index`."""
        return self._verbs_of(indexes.drop_partition_indexes(self, name))

    def list_indices(self) -> list[dict[str, Any]]:
        """See `Dataset.list_indices`; each segment has the object id of its partition as `partition`."""
        return indexes.list_partition_indexes(self)

    def index_statistics(self, name: str) -> dict[str, Any]:
        """See `Dataset.index_statistics`: the sums over all partitions."""
        return indexes.partition_index_statistics(self, name)

    def _verbs_of(self, table: PartitionedTable) -> Self:
        if isinstance(table, type(self)):
            return table
        return type(self)(table.root, table.storage_options, table.catalog, table.catalog_version)
