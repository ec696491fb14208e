"""One version of a table without partitions, and its verbs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import NotFoundError
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.paths import absolute_uri
from lance_spark.table.blobs.blob_verbs import DatasetBlobVerbs
from lance_spark.table.columns.column_verbs import DatasetColumnVerbs
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.after_commit import maintain_after, zoned
from lance_spark.table.maintenance.maintenance_verbs import MaintenanceVerbs
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.exchange_verbs import ExchangeVerbs
from lance_spark.table.reading.opened_version import OpenedVersion
from lance_spark.table.reading.read_verbs import BlobOptions
from lance_spark.table.reading.scan import DEFAULT_WINDOW_BYTES, Scan
from lance_spark.table.reference_arguments import with_reference_arguments
from lance_spark.table.reference_verbs import ReferenceVerbs
from lance_spark.table.rows.fragment import FragmentList
from lance_spark.table.search.search_verbs import DatasetSearchVerbs
from lance_spark.table.vector_search.hybrid_verbs import HybridVerbs
from lance_spark.table.vector_search.recall import IndexRecallVerbs
from lance_spark.table.versions.version_verbs import VersionVerbs

if TYPE_CHECKING:
    from lance_spark._proto import table_pb2
    from lance_spark.expr.nodes import Expr
    from lance_spark.table.columns.schema_changes import Edit
    from lance_spark.table.dataset_fragment import DatasetFragment
    from lance_spark.table.reading.take import Take
    from lance_spark.table.row_level.plain_target import PlainTarget
    from lance_spark.table.source import Split
    from lance_spark.table.vector_search.search import Part, Search

_MAX_PLANS = 64
"""Plans that a dataset keeps."""


@with_reference_arguments
class Dataset(
    ReferenceVerbs,
    DatasetSearchVerbs,
    HybridVerbs,
    ExchangeVerbs,
    DatasetBlobVerbs,
    DatasetColumnVerbs,
    VersionVerbs,
    MaintenanceVerbs,
    IndexRecallVerbs,
):
    """One version of a table. It never changes; open the table again to see what others have committed.

    It can be pickled: unpickling opens the same version, in another process too. Storage options are in the pickle.

    Attributes:
        location: where the table is.
        manifest: the version.
    """

    def __init__(self, location: TableLocation, manifest: Manifest) -> None:
        super().__init__(location, manifest)
        self._shown = with_blob_descriptors(manifest.schema, data_format(manifest))
        self._opened = OpenedVersion(location.bases(manifest))
        self._plans: dict[tuple[object, ...], Scan] = {}
        self._takes: dict[tuple[tuple[str, ...] | None, BlobOptions], Take] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled is where the version is; storage options, credentials among them, travel as the user set them.
        where = self.location
        arguments = (where.storage_options, where.branch, self.version, self.manifest.timestamp_nanos)
        return _reopened, (absolute_uri(where.uri), *arguments)

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, version={self.version})"

    @property
    def uri(self) -> str:
        """The root of the table's main branch."""
        return self.location.uri

    @property
    def branch(self) -> str | None:
        """The branch, None for the main one."""
        return self.location.branch

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""
        return self.manifest.timestamp

    @property
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids."""
        return self.manifest.schema

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """The columns in the Arrow types in which they are stored, as `plan` reads them."""
        return to_arrow_schema(self._shown)

    @property
    def file_version(self) -> FileVersion | None:
        """File version of new data files; None in a table without files whose manifest does not say."""
        return data_format(self.manifest)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return self.manifest.has_stable_row_ids

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's config, under the name that partitioned tables have for it."""
        return self.manifest.config

    @property
    def num_splits(self) -> int:
        """One: all fragments belong together."""
        return 1

    @property
    def has_split_keys(self) -> bool:
        """False: the only split needs no key."""
        return False

    @property
    def split_columns(self) -> list[tuple[str, ...]]:
        """None: a filter never leaves out the only split."""
        return []

    def splits(self, filter: Expr | str | None = None, *, time_zone: str = "UTC") -> list[Split]:
        """The table as one split, whatever the filter."""
        from lance_spark.table.source import Split

        return [Split(self.location, self.manifest)]

    @property
    def fragments(self) -> FragmentList:
        """The horizontal pieces of the table, in scan order."""
        return self.manifest.fragments

    def get_fragments(self) -> list[DatasetFragment]:
        """The fragments in scan order, each of which can be read by itself."""
        return [self._alone(message) for message in self.fragments.messages]

    def get_fragment(self, fragment_id: int) -> DatasetFragment | None:
        """The fragment with this id; None if the version does not have it."""
        if fragment_id not in self.fragments.ids:
            return None
        return self._alone(self.fragments.messages[self.fragments.place_of(fragment_id)])

    def _alone(self, message: table_pb2.DataFragment) -> DatasetFragment:
        from lance_spark.table.dataset_fragment import DatasetFragment

        one = FragmentList([message])
        rows = Dataset(self.location, replace(self.manifest, fragments=one))
        return DatasetFragment(one[0], rows._opened.reader(one[0]), rows)

    @property
    def config(self) -> Mapping[str, str]:
        """The table's config."""
        return self.manifest.config

    @property
    def metadata(self) -> Mapping[str, str]:
        """The table's metadata."""
        return self.manifest.table_metadata

    def restore(self, version: int | None = None) -> Dataset:
        """The branch's new newest version, with the content of `version`; with that of this dataset if it is None.

        Schema, rows, indices, config and table metadata are as they were; nothing that came since is lost, its versions
        stay. To restore the newest version makes a version too.

        Raises:
            NotFoundError: there is no such version.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        from lance_spark.table.versions.changes import restore

        return Dataset(self.location, restore(self.location, self._or_own_version(version)))

    def update_config(self, entries: Mapping[str, str | None]) -> Dataset:
        """The version in which the table's config has these entries; None removes one.

        Raises:
            InvalidInputError: an entry is no text; an entry under `lance.` is unknown and the table does not have it
                yet, or has an invalid value; `lance.auto_zonemap` names a column that can have no zone map, or
                `lance.clustering.columns` one whose values have no order.
            NotFoundError: it names a column that the table does not have.
            IncompatibleConflictError: since this version another writer has changed one of the entries.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        from lance_spark.table.indexes.auto_zonemap import check_zone_columns
        from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP
        from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS, check_clustering
        from lance_spark.table.versions.changes import update_config
        from lance_spark.table.versions.known_properties import check_known

        check_known(entries, self.config)
        check_zone_columns(self.manifest.schema, entries.get(AUTO_ZONEMAP))
        check_clustering(self.manifest.schema, entries.get(CLUSTERING_COLUMNS))
        return Dataset(self.location, update_config(self.location, self.manifest, entries))

    def update_metadata(self, entries: Mapping[str, str | None]) -> Dataset:
        """The version in which the table's metadata has these entries; None removes one. Raises as `update_config`."""
        from lance_spark.table.versions.changes import update_metadata

        return Dataset(self.location, update_metadata(self.location, self.manifest, entries))

    def plan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Expr | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_rows: int | None = None,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
    ) -> Scan:
        """A plan that reads this version, for those who read fragment by fragment; arguments and errors as `scan`.

        Args:
            batch_rows: rows of a batch at most.
            window_bytes: about how much is decoded at a time.
        """
        return Scan.of(
            self._shown,
            self._opened,
            columns=columns,
            filter=self._searched(filter),
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            stable_row_ids=self.manifest.has_stable_row_ids,
            batch_rows=batch_rows,
            window_bytes=window_bytes,
        )

    def _planned(
        self,
        columns: Sequence[str] | None,
        filter: str | Expr | None = None,
        *,
        batch_rows: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> tuple[Scan, list[tuple[Scan, Manifest]]]:
        plan = self._unfiltered(
            columns, batch_rows=batch_rows, with_row_id=with_row_id, with_row_address=with_row_address
        )
        if filter is not None:
            done = self._searched(filter)
            plan = plan if done is None else plan.filtered(done)
        return plan, [(plan, self.manifest)]

    def _searched(self, filter: str | Expr | None) -> Expr | None:
        """A filter with the rows that its text searches have found; raises as `with_text_searches_done`."""
        if filter is None:
            return None
        from lance_spark.table.search.text_filters import with_text_searches_done

        return with_text_searches_done(filter, self.manifest, self._shown, self._opened.bases, "UTC")

    def _unfiltered(self, columns: Sequence[str] | None, **options: Any) -> Scan:
        """`plan` without a filter, kept for lookups that differ in nothing else."""
        key = (None if columns is None else tuple(map(str, columns)), *options.items())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self.plan(columns, **options)
        return plan

    def _take(self, columns: Sequence[str] | None, blobs: BlobOptions) -> Take:
        key = None if columns is None else tuple(map(str, columns)), blobs
        take = self._takes.get(key)
        if take is None:
            if len(self._takes) >= _MAX_PLANS:
                self._takes.clear()
            take = self._takes[key] = super()._take(columns, blobs)
        return take

    def explain(self, filter: str | Expr, *, use_scalar_index: bool = True) -> str:
        """Describes how a scan with this filter finds its rows: for each index that answers, its kind, the condition,
        the number of segments that answered and their fragments; and the fragments that are scanned without an index.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the filter is invalid.
        """
        from lance_spark.table.reading.index_plan import explained
        from lance_spark.table.search.text_filters import asked_text_indexes

        plan = self.plan(columns=[], filter=filter)
        searched = asked_text_indexes(filter, self.manifest, self._shown, self._opened.bases)
        return explained(plan, self.manifest, searched, use_scalar_index=use_scalar_index)

    def searched_parts(self, search: Search, keys: Collection[str | None] | None = None) -> list[Part]:
        """The table as one part."""
        from lance_spark.table.vector_search.search import Part

        return [Part(self.manifest, partial(self._part_plan, with_row_id=search.with_row_id))]

    def _part_plan(self, columns: Sequence[str] | None, filter: Expr | str | None, *, with_row_id: bool) -> Scan:
        return self._planned(columns, filter, with_row_id=with_row_id)[0]

    def unread(self, search: Search) -> Scan:
        """Reads the data columns of the result of a search."""
        return self._unfiltered(search.data_columns, with_row_id=search.with_row_id)

    def with_edited_columns(self, edit: Edit) -> Dataset:
        from lance_spark.table.commits.field_ids import next_field_id

        schema = edit(self.lance_schema, next_field_id(self.location.history, self.manifest))
        return Dataset(self.location, replace(self.manifest, schema=schema))

    def newest(self) -> Dataset:
        """The newest version of the branch."""
        return Dataset(self.location, self.location.newest())

    @property
    def data_digest(self) -> str:
        """Text that is equal for versions of the table with the same fragments."""
        import hashlib

        digest = hashlib.sha256()
        for message in self.fragments.messages:
            digest.update(message.SerializeToString(deterministic=True))
        return digest.hexdigest()[:16]

    def sync_identity(self) -> Dataset:
        from lance_spark.table.versions.changes import set_identity_counts
        from lance_spark.table.writing.identity import IdentityColumns

        newest = self.newest()
        columns = IdentityColumns.of_version(newest.manifest)
        mark = columns.counted(newest.to_batches(columns.names)) if columns else None
        if mark is None:
            return newest
        return Dataset(self.location, set_identity_counts(self.location, newest.manifest, mark))

    def write_target(self, zone_maps: str | None = None) -> PlainTarget:
        from lance_spark.table.indexes.auto_zonemap import check_zone_columns
        from lance_spark.table.row_level.plain_target import PlainTarget

        check_zone_columns(self.manifest.schema, zone_maps)
        return PlainTarget.of(zoned(self.location, zone_maps), self.manifest)

    def _of_version(self, version: Manifest) -> Dataset:
        return self if version is self.manifest else Dataset(self.location, version)


def _reopened(
    uri: str, storage_options: Mapping[str, str] | None, branch: str | None, version: int, committed: int
) -> Dataset:
    """Opens the version of a pickled `Dataset` again.

    Raises:
        NotFoundError: the version was cleaned up since, or replaced by one of another table at the same place.
    """
    location = TableLocation(uri, storage_options, branch=branch, after_commit=maintain_after)
    manifest = location.at(version).manifest
    if manifest.timestamp_nanos != committed:
        raise NotFoundError(f"version {version} of {uri} is another one than was pickled; open the table again")
    return Dataset(location, manifest)
