"""The methods of tables for indexes: building, extending, listing and describing them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_spark.errors import InvalidInputError
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.table.indexes.definition import IndexDefinition
    from lance_spark.table.indexes.optimize import OptimizeOptions
    from lance_spark.table.manifests.index_metadata import IndexMetadata


class IndexVerbs(ABC):
    """Operations on indexes. No row changes, and every query has the same result with and without an index.

    The partitions of a partitioned table are indexed each for itself, all of them in one version of the table.
    """

    @abstractmethod
    def _create_index(
        self, column: str, kind: str, name: str | None, replace: bool, parameters: Mapping[str, Any]
    ) -> Self:
        """The version with a new index. Raises as `create_scalar_index`."""

    @abstractmethod
    def _optimize_indices(self, options: OptimizeOptions) -> Self:
        """The version with indexes that cover all rows. Raises as `optimize_indices`."""

    def create_scalar_index(
        self,
        column: str | Sequence[str],
        kind: str = "BTREE",
        name: str | None = None,
        replace: bool = True,
        *,
        index_type: str | None = None,
        **parameters: Any,
    ) -> Self:
        """The newest version of the branch with a new index over all of its rows.

        Rows that are added later are scanned, until `optimize_indices` adds them to the index; so are rows of new
        partitions. If other writers move or change indexed values during the build, it starts again.

        Args:
            column: a name, or a dotted path into structs; also as the only item of a list.
            kind: BTREE, BITMAP, LABEL_LIST, NGRAM, ZONEMAP, BLOOMFILTER, RTREE, JSON or INVERTED (also FTS), in any
                case of letters.
            name: by default the column's path and ``_idx``.
            replace: an index of this name is replaced; False refuses.
            index_type: `kind`, as the reference library calls it.
            parameters: `train=False` makes an index that covers no rows yet; `num_segments` splits it by fragments;
                BTREE knows `zone_size` (rows of a page, 4096), ZONEMAP `rows_per_zone` (8192), BLOOMFILTER
                `number_of_items` (rows of a zone, 8192) and `probability` (of a false hit, 0.00057), JSON `path` and
                `target_index_type` (btree, bitmap or zonemap; parameters of that kind too), INVERTED the options of
                `create_text_index`.

        Raises:
            NotFoundError: no such column.
            AlreadyExistsError: the name is taken, and `replace` is False.
            InvalidInputError: the kind, a parameter, the column's type or the name is invalid. Nothing was changed.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        _refuse_other_ways(parameters)
        return self._create_index(_only_column(column), index_type or kind, name, replace, parameters)

    def create_index(
        self,
        column: str | Sequence[str],
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
        """The newest version of the branch with a new index over the vectors of a column.

        Rows without a vector, and vectors with NaN or infinity (for cosine also zero vectors), are not in the index.
        With too few vectors to train it the index is only defined; `optimize_indices` builds it later. If other writers
        move or change indexed values during the build, it starts again.

        Args:
            column: a column of vectors (fixed_size_list of float16, float32, float64 or uint8), or of lists of vectors
                (cosine only); dotted for a field of a struct.
            index_type: IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ or IVF_HNSW_SQ, in any case; a
                scalar kind with its parameters too.
            name: by default the column's path and ``_idx``.
            metric: ``l2`` (the default), ``cosine``, ``dot``, or ``hamming``, the only one for uint8.
            replace: an index of this name is replaced; False refuses.
            num_partitions: by default the rows / 8192 (IVF_FLAT 4096, HNSW kinds 1,048,576), from 1 to 4096.
            ivf_centroids: the centroids of the partitions, [p, d]; they are not trained then.
            pq_codebook: the codewords of PQ, [sub-vectors, codewords, values]; only with `ivf_centroids`.
            num_sub_vectors: of PQ; divides the dimension, which is by default divided by 16, else 8.
            parameters: `num_bits` (PQ: 8 or 4; RQ: 1 to 9, by default 5), `sample_rate` (vectors to train a centroid
                with, 256), `max_iters` (50), `target_partition_size`, `seed`; HNSW kinds: `m` (20), `ef_construction`
                (150), `max_level` (7); `num_segments` and `train` as in `create_scalar_index`.

        Raises: as `create_scalar_index`.
        """
        named = {
            "metric": metric,
            "num_partitions": num_partitions,
            "ivf_centroids": ivf_centroids,
            "pq_codebook": pq_codebook,
            "num_sub_vectors": num_sub_vectors,
        }
        _refuse_other_ways(parameters)
        options = {**parameters, **{key: value for key, value in named.items() if value is not None}}
        return self._create_index(_only_column(column), index_type, name, replace, options)

    def optimize_indices(
        self,
        names: Sequence[str] | str | None = None,
        *,
        num_indices_to_merge: int | None = None,
        retrain: bool = False,
    ) -> Self:
        """The newest version of the branch with indexes that cover all rows; it itself if they do already.

        Args:
            names: of the indexes; None for all that this release can build. Of these, one over a JSON path at which
                values have several types by now stays as it is, with a warning, and rows that it lacks are scanned.
            num_indices_to_merge: how many of the newest segments of an index are merged with the rows that no segment
                covers; 0 gives these rows a segment of their own, which costs least. None is 1.
            retrain: builds the indexes from the data again.

        Raises:
            NotFoundError: there is no index of a name.
            InvalidInputError: an index that is named is of a kind that this release cannot build.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        from lance_spark.table.indexes.optimize import OptimizeOptions

        chosen = (names,) if isinstance(names, str) else None if names is None else tuple(names)
        options = OptimizeOptions(chosen, 1 if num_indices_to_merge is None else num_indices_to_merge, retrain)
        return self._optimize_indices(options)

    @abstractmethod
    def list_indices(self) -> list[dict[str, Any]]:
        """The segments of the indexes of this version, ordered by name; with the system indexes, as in the reference.

        Each is a dict: `name`, `type` (such as BTree), `uuid`, `fields` (column paths), `version` (that its values are
        from), `fragment_ids` (a set), `base_id`; of a
        partitioned table also `partition`, the object id of its partition.

        Raises:
            CorruptFileError: the list of indexes is damaged.
        """

    def index_columns(self) -> dict[str, list[str]]:
        """The column paths of each index by its name; of a partitioned table also of those that no partition has yet.

        Raises:
            CorruptFileError: the list of indexes is damaged.
        """
        return {str(index["name"]): index["fields"] for index in self.list_indices()}

    @abstractmethod
    def index_statistics(self, name: str) -> dict[str, Any]:
        """Statistics of an index of this version; of a partitioned table the sums over all partitions.

        A dict: `index_type`, `name`, `num_segments`, `num_indexed_fragments`, `num_indexed_rows` (rows that are not
        deleted in covered fragments), `num_unindexed_fragments`, `num_unindexed_rows`, `num_indexed_rows_per_segment`,
        `size_bytes` (None if the metadata does not have the sizes of all files), `updated_at_timestamp_ms` (None if not
        known) and `segments`, one dict each: `uuid`, `fragment_ids`, `size_bytes`, and what the kind has, such as
        `num_pages`.

        Raises:
            NotFoundError: no such index.
        """

    def recorded_index(self, name: str) -> IndexDefinition | None:
        """The definition of an index of which no split has a segment; None if there is none.

        Only partitioned tables record one: their partitions come and go.
        """
        return None

    @abstractmethod
    def commit_segments(
        self,
        new: Mapping[str | None, Sequence[IndexMetadata]],
        replaced: Mapping[str | None, Collection[str]] | None = None,
    ) -> Self:
        """The version with segments that were written from this one, in tasks for example.

        Args:
            new: by the key of their split.
            replaced: the ids of the segments that they replace, by the key of their split; None for all segments of
                the indexes of their names.

        Raises:
            RetryableConflictError: other writers have moved or changed values that an index knows. Nothing was changed.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
        """

    @abstractmethod
    def drop_index(self, name: str) -> Self:
        """The newest version of the branch without the index `name`, whose files the next clean-up removes.

        Raises:
            NotFoundError: there is no such index.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
        """


class DatasetIndexVerbs(IndexVerbs):
    """Index verbs of a table without partitions, and those for its segments."""

    location: TableLocation
    manifest: Manifest

    def __init__(self, location: TableLocation, manifest: Manifest) -> None:
        self.location = location
        self.manifest = manifest

    def _create_index(
        self, column: str, kind: str, name: str | None, replace: bool, parameters: Mapping[str, Any]
    ) -> Self:
        from lance_spark.table.indexes.create import create_index

        committed = create_index(self.location, column, kind, name, replace=replace, parameters=parameters)
        return type(self)(self.location, committed)

    def _optimize_indices(self, options: OptimizeOptions) -> Self:
        from lance_spark.table.indexes.optimize import optimize_indices

        return type(self)(self.location, optimize_indices(self.location, options))

    def list_indices(self) -> list[dict[str, Any]]:
        from lance_spark.table.indexes.describe import list_indices

        return list_indices(self.manifest, self.location.bases(self.manifest))

    def index_statistics(self, name: str) -> dict[str, Any]:
        from lance_spark.table.indexes.describe import index_statistics

        return index_statistics(self.manifest, self.location.bases(self.manifest), name)

    def commit_segments(
        self,
        new: Mapping[str | None, Sequence[IndexMetadata]],
        replaced: Mapping[str | None, Collection[str]] | None = None,
    ) -> Self:
        from lance_spark.table.indexes.create import removing_on_failure
        from lance_spark.table.indexes.optimize import commit_optimized

        segments = new[None]
        if replaced is not None:
            return type(self)(
                self.location, commit_optimized(self.location, self.manifest, segments, replaced.get(None, ()))
            )
        with removing_on_failure(self.location, segments):
            return self.commit_indices(segments)

    def drop_index(self, name: str) -> Self:
        from lance_spark.table.indexes.commit import drop_index

        return type(self)(self.location, drop_index(self.location, name))

    def build_index_segment(
        self,
        column: str,
        kind: str = "BTREE",
        name: str | None = None,
        fragment_ids: Collection[int] | None = None,
        **parameters: Any,
    ) -> IndexMetadata:
        """A segment of an index over some fragments of this version, for builds on several machines.

        Its files are written, but no version has it before `commit_indices` gets all segments of the index.

        Args:
            fragment_ids: the fragments to index; None for all.
            column, kind, name, parameters: as in `create_scalar_index`, without `train` and `num_segments`.

        Raises: as `create_scalar_index`.
        """
        from lance_spark.table.indexes.build import build_segment
        from lance_spark.table.indexes.definition import define

        definition = define(self.manifest, column, kind, name, parameters)
        return build_segment(self.location, self.manifest, definition, fragment_ids)

    def indices(self) -> tuple[IndexMetadata, ...]:
        """The indexes of this version, as their metadata; several entries of one name are segments of one index.

        Raises:
            CorruptFileError: the list of indexes is damaged.
        """
        from lance_spark.table.manifests.index_section import parse_indices

        return parse_indices(self.manifest.index_section)

    def commit_indices(self, new: Sequence[IndexMetadata]) -> Self:
        """The version in which indexes that were built from this one, files and all, replace those of their names.

        Raises:
            InvalidInputError: none is given, or one is over fields that the table does not have.
            RetryableConflictError: other writers have moved or changed values that an index knows. Nothing was changed.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
        """
        from lance_spark.table.indexes.commit import commit_indices

        return type(self)(self.location, commit_indices(self.location, self.manifest, new))


def _only_column(column: str | Sequence[str]) -> str:
    if isinstance(column, str):
        return column
    if len(column) != 1:
        raise InvalidInputError(f"an index is on one column; {len(column)} are given: {', '.join(column)}")
    return column[0]


_OTHER_WAYS = {
    **dict.fromkeys(
        ("fragment_ids", "index_uuid"),
        "call build_index_segment(column, kind, fragment_ids=...) for parts of an index, and commit_index_segments",
    ),
    "progress_callback": "call lance_spark.set_progress",
    "index_cache_size": "leave it out: caches of indexes are bounded by bytes",
    "accelerator": "leave it out: indexes are built on the CPU",
}
"""Parameters of the reference library, and what to write here."""


def _refuse_other_ways(parameters: Mapping[str, Any]) -> None:
    for name, value in parameters.items():
        if name in _OTHER_WAYS and value is not None:
            raise InvalidInputError(f"{name} is not a parameter of indexes here; {_OTHER_WAYS[name]}")
