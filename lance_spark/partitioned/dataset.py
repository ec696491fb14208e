"""A version of a partitioned table with the verbs that `Dataset` has for one without partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.partitioned import columns as column_changes
from lance_spark.partitioned import history
from lance_spark.partitioned.change_feed import plan_range
from lance_spark.partitioned.columns import add_check, drop_check
from lance_spark.partitioned.indexes.verbs import PartitionedIndexVerbs
from lance_spark.partitioned.maintenance import compaction
from lance_spark.partitioned.maintenance.clustering import cluster
from lance_spark.partitioned.maintenance.compaction import compact_small_fragments
from lance_spark.partitioned.maintenance.upgrade import commit_partition_upgrade
from lance_spark.partitioned.maintenance.vacuum import remove_orphans, vacuum
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.properties import set_properties
from lance_spark.partitioned.replace import planned_with
from lance_spark.partitioned.save import (
    PartitionBy,
    create_partitioned,
)
from lance_spark.partitioned.spec import is_partitioned
from lance_spark.partitioned.table import (
    PartitionedTable,
    PlannedTable,
    identity_columns,
    version_arguments,
)
from lance_spark.partitioned.without_branches import WithoutBranches
from lance_spark.schema.arrow import with_metadata_entries
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.paths import UriOrPath, absolute_uri, uri_text
from lance_spark.table.blobs.blob_verbs import BlobVerbs
from lance_spark.table.change_feed.change_feed import ChangeFeed, FeedColumns
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.cleanup.cleanup import CleanupStats
from lance_spark.table.cleanup.policy import SAFETY_WINDOW, CleanupPolicy
from lance_spark.table.columns.add_columns import ColumnsToAdd
from lance_spark.table.columns.alter_column import Alteration
from lance_spark.table.columns.column_verbs import FieldEntries
from lance_spark.table.columns.schema_changes import Change, Edit
from lance_spark.table.dataset import Dataset
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.indexes.optimizer import Optimizer
from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP
from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS, check_clustering
from lance_spark.table.maintenance.compaction_estimate import CompactionEstimate
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_setting import AutoCompaction
from lance_spark.table.maintenance.upgrade import Progress, upgrade_version
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.moments import Moment
from lance_spark.table.reading.exchange_verbs import ExchangeVerbs
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS
from lance_spark.table.reference_arguments import with_reference_arguments
from lance_spark.table.reference_verbs import ReferenceVerbs
from lance_spark.table.search.search_verbs import SearchVerbs
from lance_spark.table.search.text_filters import shared_analyses
from lance_spark.table.search.text_search import SearchedPart
from lance_spark.table.vector_search.hybrid_verbs import HybridVerbs
from lance_spark.table.vector_search.recall import IndexRecallVerbs
from lance_spark.table.vector_search.search import Part, Search
from lance_spark.table.versions.changes import set_identity_counts
from lance_spark.table.versions.known_properties import check_known
from lance_spark.table.versions.version_summary import TableVersion
from lance_spark.table.writing.save import CommitOptions

if TYPE_CHECKING:
    from typing_extensions import Self


class PartitionedSearchVerbs(PartitionedTable, SearchVerbs):
    """See `Dataset.search`. The statistics of scores are those of all partitions, whatever the filter."""

    def _searched_parts(
        self, columns: Sequence[str] | None, filter: str | Expr | None, with_row_id: bool, with_row_address: bool
    ) -> tuple[list[SearchedPart], pa.Schema]:
        shared = shared_analyses(self)
        matching = {partition.object_id for partition in self.partitions(filter)}
        parts = [
            SearchedPart(
                opened.manifest,
                self.plan(
                    opened,
                    columns,
                    self.searched_filter(opened, filter, shared),
                    with_row_id=with_row_id,
                    with_row_address=with_row_address,
                ),
                opened.key,
                opened.key in matching,
            )
            for opened in self.splits()
        ]
        schema = parts[0].scan.arrow_schema if parts else self._plan_of_nothing(columns, filter).arrow_schema
        system_columns = [name for name, is_on in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)) if is_on]
        for name in system_columns:
            if name not in schema.names:
                schema = schema.append(SYSTEM_FIELDS[name])
        return parts, schema


@with_reference_arguments
class PartitionedDataset(
    PartitionedIndexVerbs,
    PartitionedSearchVerbs,
    WithoutBranches,
    HybridVerbs,
    ExchangeVerbs,
    BlobVerbs,
    IndexRecallVerbs,
    ReferenceVerbs,
):
    """One version of a partitioned table. It never changes; each verb that writes returns the version that it made.

    Verbs of `Dataset` have the same arguments, results and errors here; what the format of partitioned tables does not
    allow raises `UnsupportedFeatureError`. Version numbers are those of `__manifest`.
    """

    @classmethod
    def of(cls, table: PartitionedTable) -> Self:
        """The same version of `table`, with verbs."""
        if isinstance(table, cls):
            return table
        return cls(table.root, table.storage_options, table.catalog, table.catalog_version)

    def __reduce__(self) -> tuple[Any, ...]:
        reopened, arguments = super().__reduce__()
        return _reopened, (reopened, arguments)

    def __repr__(self) -> str:
        return f"PartitionedDataset({self.root!r}, version={self.version})"

    def newest(self) -> Self:
        """The newest version of the table."""
        return self.of(super().newest())

    def _described_rows(self, scan: Scan, ids: Sequence[int] | None, addresses: Sequence[int] | None) -> pa.Table:
        raise InvalidInputError(
            f"row ids and addresses are those within a partition, {self.root} has several; name rows by indices"
        )

    def searched_parts(self, search: Search, keys: Collection[str | None] | None = None) -> list[Part]:
        """The partitions that can have rows that are searched."""
        partitions = self.partitions(search.searched_filter)
        opened = self.open_all([item for item in partitions if keys is None or item.object_id in keys])
        return [
            Part(item.manifest, partial(self.plan, item, with_row_id=search.with_row_id), item.key) for item in opened
        ]

    def unread(self, search: Search) -> Scan:
        """Reads the data columns of the result of a search."""
        return self._plan_of_nothing(search.data_columns, search.filter, with_row_id=search.with_row_id)

    def sync_identity(self) -> Self:
        newest = self.newest()
        columns, dataset = identity_columns(newest), newest.catalog_version.dataset
        mark = columns.counted(newest.to_batches(columns.names)) if columns else None
        if mark is None or dataset is None:
            return newest
        set_identity_counts(self.catalog.table, dataset.manifest, mark)
        return newest.newest()

    def write_target(self, zone_maps: str | None = None) -> PartitionedTarget:
        check_zone_columns(self.lance_schema, zone_maps)
        return PartitionedTarget.of(self)

    def _of_version(self, version: PartitionedTable) -> Self:
        return self.of(version)

    def _add_columns(self, columns: ColumnsToAdd) -> Self:
        fields = columns.null_fields
        if fields is not None:
            return self.of(column_changes.add_columns(self, fields))
        return self.of(column_changes.add_computed_columns(self, columns))

    def _change_columns(self, change: Change) -> Self:
        return self.of(column_changes.change_columns(self, change))

    def update_field_metadata(self, entries: Mapping[str, Mapping[str, str | None]], *, replace: bool = False) -> Self:
        return self.of(column_changes.update_field_metadata(self, entries, replace=replace))

    def edit_columns(self, edit: Edit) -> Self:
        return self.of(column_changes.edit_columns(self, edit))

    def with_edited_columns(self, edit: Edit) -> PlannedTable:
        return planned_with(self, edit(self.lance_schema, column_changes.next_field_id(self)))

    def update_properties(self, entries: Mapping[str, str | None], fields: FieldEntries) -> Self:
        def edited(schema: LanceSchema) -> LanceSchema:
            changed = fields(schema)
            tops = tuple(with_metadata_entries(item, changed.get(item.id, {})) for item in schema.fields)
            return LanceSchema(tops, schema.metadata)

        return self.of(set_properties(self, entries, edited))

    def add_check(self, name: str, condition: str) -> Self:
        return self.of(add_check(self, name, condition))

    def drop_check(self, name: str) -> Self:
        return self.of(drop_check(self, name))

    def _alter_column(self, change: Alteration) -> Self:
        """The type of a column that partition values come from cannot change."""
        return self.of(column_changes.alter_column(self, change))

    def update_config(self, entries: Mapping[str, str | None]) -> Self:
        """The version in which the table has these properties; None removes one.

        Raises:
            InvalidInputError: a property that describes columns, partitions or files; and other errors as
                `Dataset.update_config`.
        """
        check_known(entries, self.properties)
        check_zone_columns(self.lance_schema, entries.get(AUTO_ZONEMAP))
        check_clustering(self.lance_schema, entries.get(CLUSTERING_COLUMNS))
        return self.of(set_properties(self, entries))

    def compact(
        self,
        filter: str | Expr | None = None,
        *,
        target_rows_per_fragment: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        batch_size: int | None = None,
        defer_index_remap: bool | None = None,
        commit_message: str | None = None,
    ) -> Self:
        """See `Dataset.compact`. Each partition is compacted on its own, all of them in one version.

        Args:
            filter: compacts only partitions that may hold rows which match it.
        """
        options = CompactionOptions.of(
            self.properties,
            target_rows_per_fragment=target_rows_per_fragment,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions=materialize_deletions,
            materialize_deletions_threshold=materialize_deletions_threshold,
            batch_size=batch_size,
            defer_index_remap=defer_index_remap,
        )
        return self.of(compaction.compact(self, filter, options, CommitOptions(commit_message)))

    def cluster(
        self,
        columns: Sequence[str] | str | None = None,
        curve: str = "hilbert",
        where: str | Expr | None = None,
        *,
        commit_message: str | None = None,
    ) -> Self:
        """See `Dataset.cluster`. Each partition is clustered on its own, all of them in one version.

        Args:
            where: only partitions that may hold rows for which it is true.
        """
        return self.of(cluster(self, columns, curve, where, CommitOptions(commit_message)))

    @property
    def optimize(self) -> Optimizer[Self]:
        """`optimize_indices`, `cluster`, and `compact_files`, with the arguments of the reference library."""
        return Optimizer(self)

    def upgrade_files(
        self, version: str = "2.2", *, commit_message: str | None = None, progress: Progress | None = None
    ) -> Self:
        """See `Dataset.upgrade_files`. All partitions are upgraded in one version; new ones get the new files too."""
        options = CommitOptions(commit_message)
        file_version = upgrade_version(version)
        self.versions_location.history.check_commits()
        return self.of(commit_partition_upgrade(self.newest(), file_version, (), options, progress))

    def plan_compaction(self, options: CompactionOptions | None = None) -> list[compaction.PartitionTask]:
        """The tasks that compact this version, for those who run them on several machines. Raises as `compact`."""
        return compaction.plan_partition_compaction(self, None, options)

    def estimate_compaction(
        self, options: CompactionOptions | None = None, filter: str | Expr | None = None
    ) -> CompactionEstimate:
        """See `Dataset.estimate_compaction`.

        Args:
            filter: counts only partitions that may hold rows which match it.
        """
        return compaction.estimate_partition_compaction(self, filter, options)

    def run_compaction_task(self, task: compaction.PartitionTask) -> compaction.PartitionResult:
        """See `Dataset.run_compaction_task`."""
        return compaction.run_partition_task(self, task)

    def commit_compaction(
        self, results: Sequence[compaction.PartitionResult], *, commit_message: str | None = None
    ) -> Self:
        """See `Dataset.commit_compaction`."""
        return self.of(compaction.commit_partition_compaction(self, results, CommitOptions(commit_message)))

    def compact_small_fragments(self, policy: AutoCompaction) -> Self:
        return self.of(compact_small_fragments(self, self.partitions(), policy))

    def clean_up(self, policy: CleanupPolicy, keep_from: int | None = None) -> CleanupStats:
        return vacuum(self, policy, keep_from).total

    def remove_orphans(self, older_than: timedelta = SAFETY_WINDOW, *, dry_run: bool = False) -> CleanupStats:
        return remove_orphans(self, older_than, dry_run=dry_run).total

    def versions(self, limit: int | None = None, *, contents: bool = True) -> list[TableVersion]:
        """See `Dataset.versions`. `content` is None where it was not computed (`history.MAX_MANIFESTS`).

        Args:
            contents: False computes none.
        """
        return history.history(self, limit, contents=contents)[::-1]

    def restore(self, version: int | None = None) -> Self:
        """See `Dataset.restore`. Partition specs that were added since stay, for future rows."""
        return self.of(history.restore(self, self._or_own_version(version)))

    def plan_range(
        self, versions: VersionRange, columns: Sequence[str] | None = None, fields: FeedColumns | None = None
    ) -> ChangeFeed:
        return plan_range(self, versions, columns, fields)

    def on_branch(self, branch: str | None) -> Self:
        if branch is not None:
            raise self._without_branches()
        return self.newest()

    def shallow_clone(
        self, uri: UriOrPath, version: int | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._unsupported("shallow clones", "write its rows into a new table")

    def add_bases(self, bases: Sequence[Any]) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._unsupported("base paths", "keep all partitions below its root")

    def commit_indices(self, new: Sequence[Any]) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._unsupported("indexes without a partition", "use commit_index_segments")

    def update_metadata(self, entries: Mapping[str, str | None]) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._unsupported("metadata beside its properties", "use update_config")

    def update_schema_metadata(self, entries: Mapping[str, str | None], *, replace: bool = False) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._unsupported("metadata of its schema", "use update_config or alter_column")

    def _at_manifest(self, manifest: Manifest) -> Self:
        return type(self)(self.root, self.storage_options, self.catalog, self.catalog.at(manifest))

    def _unsupported(self, feature: str, remedy: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"the partitioned table {self.root} does not support {feature}; {remedy}",
            feature=f"{feature} of partitioned tables",
        )


def with_verbs(table: Dataset | PartitionedTable) -> Dataset | PartitionedDataset:
    """A version of a table of either kind, with its verbs."""
    return table if isinstance(table, Dataset) else PartitionedDataset.of(table)


def find_partitioned_table(
    root: UriOrPath,
    *,
    version: int | None = None,
    tag: str | None = None,
    timestamp: Moment | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> PartitionedDataset | None:
    """Opens a version as `open_partitioned_dataset`; None if there is no partitioned table at `root`."""
    root = absolute_uri(uri_text(root))
    catalog = CatalogTable(root, storage_options)
    newest = catalog.load()
    if not is_partitioned(newest.properties):
        return None
    if version is None and tag is None and timestamp is None:
        return PartitionedDataset(root, storage_options, catalog, newest)
    return open_partitioned_dataset(
        root, version=version, tag=tag, timestamp=timestamp, storage_options=storage_options
    )


def open_partitioned_dataset(
    root: UriOrPath,
    *,
    version: int | None = None,
    tag: str | None = None,
    timestamp: Moment | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> PartitionedDataset:
    """The partitioned table at `root`. Arguments and errors as `open_partitioned`."""
    return PartitionedDataset(*version_arguments(root, version, tag, timestamp, storage_options))


def create_partitioned_dataset(
    root: UriOrPath,
    schema: pa.Schema,
    partition_by: Sequence[PartitionBy],
    *,
    storage_options: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> PartitionedDataset:
    """A new partitioned table without rows at `root`. Arguments and errors as `create_partitioned`."""
    created = create_partitioned(root, schema, partition_by, storage_options=storage_options, properties=properties)
    return PartitionedDataset.of(created)


def _reopened(reopen: Any, arguments: tuple[Any, ...]) -> PartitionedDataset:
    """Unpickles a `PartitionedDataset`. Raises as `open_partitioned`."""
    return PartitionedDataset.of(reopen(*arguments))
