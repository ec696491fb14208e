"""A partitioned namespace as one table: what a version of its `__manifest` names (partitioning specification).

Everything that is read comes from one version of `__manifest`, so that a reader sees all partitions as one commit has
left them. Columns belong together by their field ids: a partition that was written before a column was added reads as
null there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.literals import TRUE, literal
from lance_spark.expr.nodes import And, Column, Comparison, ComparisonOp, Expr, Not, Or, StringMatch, StringMatchOp
from lance_spark.expr.sql.parse import to_expr
from lance_spark.file_version import FileVersion
from lance_spark.namespace.directory.catalog_rows import OBJECT_ID, OBJECT_TYPE, TABLE
from lance_spark.namespace.directory.catalog_table import CatalogTable, CatalogVersion, starts_with
from lance_spark.namespace.json_arrow_schema import FIELD_ID_KEY
from lance_spark.namespace.locations import location_uri
from lance_spark.namespace.object_id import DELIMITER
from lance_spark.partitioned.manifest_index import Partition, PartitionIndex, partitions_of
from lance_spark.partitioned.names import is_definition
from lance_spark.partitioned.spec import PartitionSpecs, is_partitioned, specs_from_metadata
from lance_spark.partitioned.values.conditions import any_of
from lance_spark.partitioned.values.prune import full_partition_filter, manifest_filter
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.overlap import overlapped
from lance_spark.storage.paths import UriOrPath, absolute_uri, uri_text
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_summary import ManifestSummary
from lance_spark.table.moments import Moment
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.index_plan import explained
from lance_spark.table.reading.read_verbs import ReadVerbs
from lance_spark.table.reading.scan import DEFAULT_WINDOW_BYTES, Scan
from lance_spark.table.search.text_columns import SharedAnalyses
from lance_spark.table.search.text_filters import asked_text_indexes, shared_analyses, with_text_searches_done
from lance_spark.table.source import Split
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION

NUM_THREADS = 16
"""The number of partitions that are opened, or committed to, at the same time."""

_MAX_PLANS = 64
"""Plans that a table keeps."""

_MAX_OPENED = 256
"""The number of partitions that a version of the table keeps open, so that the next read of it finds them."""

STABLE_ROW_IDS = "lance.enable_stable_row_ids"
FILE_VERSION = "lance.file_format_version"
"""Properties of the namespace that say how new partitions are made."""


@dataclass(frozen=True, slots=True)
class PartitionVersion(Split):
    """A partition at the version that is read; its key is the partition's object id.

    Attributes:
        partition: which one.
    """

    _: KW_ONLY
    partition: Partition


class PartitionedTable(ReadVerbs):
    """One version of a partitioned namespace. It never changes; open it again to see what others have committed.

    Args:
        root: URI of the namespace's root.
        catalog_version: the version of `__manifest` to show.
        specs: the columns and specs; None for those of the version.

    Raises:
        InvalidInputError: the namespace is not partitioned.
        CorruptFileError: `__manifest` contradicts the specification.
    """

    def __init__(
        self,
        root: str,
        storage_options: Mapping[str, str] | None,
        catalog: CatalogTable,
        catalog_version: CatalogVersion,
        specs: PartitionSpecs | None = None,
    ) -> None:
        self.root = root
        self.storage_options = None if storage_options is None else dict(storage_options)
        self.catalog = catalog
        self.catalog_version = catalog_version
        self.specs = specs_from_metadata(catalog_version.properties) if specs is None else specs
        self._opened: dict[str, PartitionVersion] = {}
        # All partitions share the columns of a plan, by which their files find what they have prepared.
        self._plans: dict[tuple[object, ...], Scan] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled is where the version is; storage options, credentials among them, travel as the user set them.
        dataset = self.catalog_version.dataset
        committed = None if dataset is None else dataset.manifest.timestamp_nanos
        return _reopened, (absolute_uri(self.root), self.storage_options, self.version, committed)

    def __repr__(self) -> str:
        return f"PartitionedTable({self.root!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The version of `__manifest`."""
        dataset = self.catalog_version.dataset
        return 0 if dataset is None else dataset.version

    @property
    def timestamp(self) -> datetime:
        """When it was committed."""
        return self.versions_manifest.timestamp

    @property
    def uri(self) -> str:
        """The root of the namespace."""
        return self.root

    @property
    def branch(self) -> None:
        """None: a partitioned table has no branches."""
        return None

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the namespace."""
        return self.catalog_version.properties

    @property
    def config(self) -> Mapping[str, str]:
        """The properties of the table, without the definitions of its columns, partitions and indexes."""
        return {name: value for name, value in self.properties.items() if not is_definition(name)}

    @property
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids."""
        return self.specs.schema

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns in the Arrow types in which they are stored, as `plan` reads them."""
        return to_arrow_schema(with_blob_descriptors(self.specs.schema, self.file_version))

    @property
    def file_version(self) -> FileVersion:
        """The version of the data files of new partitions."""
        named = self.properties.get(FILE_VERSION)
        return DEFAULT_FILE_VERSION if named is None else FileVersion.parse(named)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows of new partitions have stable ids."""
        return self.properties.get(STABLE_ROW_IDS, "").lower() == "true"

    @cached_property
    def rows(self) -> pa.Table:
        """All rows of `__manifest`."""
        return self.catalog_version.rows()

    @cached_property
    def index(self) -> PartitionIndex:
        """All partitions by their values."""
        return PartitionIndex(self.rows, self.specs)

    @cached_property
    def num_partitions(self) -> int:
        """The number of partitions."""
        if "rows" in self.__dict__:
            return len(self.index)
        mine = any_of([starts_with(OBJECT_ID, f"{spec.namespace}{DELIMITER}") for spec in self.specs.specs])
        assert mine is not None  # There is a spec.
        is_table = Comparison(ComparisonOp.EQ, Column((OBJECT_TYPE,)), literal(TABLE))
        rows = self.catalog_version.rows(And((is_table, mine)), [OBJECT_TYPE])
        return int(rows.num_rows)

    @property
    def data_digest(self) -> str:
        """Text that is equal for versions of the table with the same versions of the same partitions."""
        digest = hashlib.sha256()
        for partition in self.partitions():
            digest.update(repr((partition.object_id, partition.version)).encode())
        return digest.hexdigest()[:16]

    @property
    def num_splits(self) -> int:
        """The number of splits: each partition is one."""
        return self.num_partitions

    @property
    def has_split_keys(self) -> bool:
        """True: a split's key is the object id of the partition."""
        return True

    @property
    def split_columns(self) -> list[tuple[str, ...]]:
        """Paths of the columns whose values choose partitions, in the order of the specs."""
        columns: dict[tuple[str, ...], None] = {}
        for spec in self.specs.specs:
            for item in spec.fields:
                for path in item.source_columns(self.lance_schema) if item.transform is not None else ():
                    if path is not None:
                        columns[path] = None
        return list(columns)

    def splits(self, filter: Expr | str | None = None, *, time_zone: str = "UTC") -> list[PartitionVersion]:
        """The partitions that may hold rows which match `filter`, opened; errors as `partitions` and `open`."""
        return self.open_all(self.partitions(filter, time_zone=time_zone))

    def newest(self) -> PartitionedTable:
        """The table as it is now."""
        return PartitionedTable(self.root, self.storage_options, self.catalog, self.catalog.load())

    def partitions(self, filter: Expr | str | None = None, *, time_zone: str = "UTC") -> list[Partition]:
        """The partitions that may hold rows which match `filter`, by one scan of `__manifest`.

        Raises:
            InvalidInputError: the filter is invalid.
            NotFoundError: it names a column that the table does not have.
        """
        if filter is None:
            return self.index.partitions
        tree = to_expr(filter, time_zone=time_zone)
        self._plan_of_nothing([], tree, time_zone)
        condition = manifest_filter(self.specs, tree, time_zone=time_zone)
        if condition == manifest_filter(self.specs, TRUE, time_zone=time_zone):
            return self.index.partitions  # The filter says nothing about keys, and these rows are read once.
        return partitions_of(self.catalog_version.rows(Or((condition, self._of_no_spec()))), self.specs)

    def _of_no_spec(self) -> Expr:
        """The tables that none of the specs accounts for: a partition among them must not go unnoticed."""
        object_id, object_type = Column((OBJECT_ID,)), Column((OBJECT_TYPE,))
        others = [
            Not(StringMatch(StringMatchOp.STARTS_WITH, object_id, f"{spec.namespace}{DELIMITER}"))
            for spec in self.specs.specs
        ]
        return And((Comparison(ComparisonOp.EQ, object_type, literal(TABLE)), *others))

    def covered_partitions(self, filter: Expr | str, *, time_zone: str = "UTC") -> list[Partition]:
        """The partitions all of whose rows match `filter` for certain, by one scan of `__manifest`. Raises as above."""
        tree = to_expr(filter, time_zone=time_zone)
        self._plan_of_nothing([], tree, time_zone)
        conditions = []
        for spec in self.specs.specs:
            below = starts_with(OBJECT_ID, f"{spec.namespace}{DELIMITER}")
            conditions.append(And((below, full_partition_filter(spec, self.lance_schema, tree, time_zone=time_zone))))
        covered = any_of(conditions)
        return [] if covered is None else partitions_of(self.catalog_version.rows(covered), self.specs)

    def location(self, partition: Partition) -> TableLocation:
        """The location of a partition's table."""
        return TableLocation(location_uri(self.root, partition.location), self.storage_options, branch=partition.branch)

    @property
    def versions_location(self) -> TableLocation:
        """`__manifest`, whose versions are those of the table."""
        return self.catalog.table

    @property
    def versions_manifest(self) -> Manifest:
        """The manifest of the version of `__manifest`."""
        dataset = self.catalog_version.dataset
        assert dataset is not None  # A namespace without `__manifest` has no specs.
        return dataset.manifest

    def open(self, partition: Partition) -> PartitionVersion:
        """The version of a partition that this version of the table names.

        Raises:
            NotFoundError: the version was removed.
            UnsupportedFeatureError: another writer gave the columns other ids than the namespace has.
        """
        opened = self._kept(partition) or self._open(partition)
        # A version by its number stays as it is; what a tag or the newest one is can change.
        if partition.version is not None and partition.tag is None and len(self._opened) < _MAX_OPENED:
            self._opened[partition.object_id] = opened
        return opened

    def _kept(self, partition: Partition) -> PartitionVersion | None:
        opened = self._opened.get(partition.object_id)
        return opened if opened is not None and opened.partition == partition else None

    def _open(self, partition: Partition) -> PartitionVersion:
        table = self.location(partition)
        if partition.tag is not None:
            named = table.refs.tag(partition.tag)
            table = table.on_branch(named.branch)
            manifest = table.at(named.version).manifest
        elif partition.version is not None:
            manifest = table.at(partition.version).manifest
        else:
            manifest = table.history.load_latest().manifest
        _check_field_ids(manifest.schema, partition)
        display_name = (
            f"version {self.version} of {self.root} (version {manifest.version} of its partition {partition.object_id})"
        )
        return PartitionVersion(table, manifest, partition.object_id, display_name, partition=partition)

    def summary(self, partition: Partition) -> ManifestSummary:
        """Manifest summary of the partition version that this version of the table names.

        Raises:
            NotFoundError: the version was removed.
        """
        table, version = self.location(partition), partition.version
        if partition.tag is not None:
            tag = table.refs.tag(partition.tag)
            table, version = table.on_branch(tag.branch), tag.version
        if version is None:
            version = table.history.load_latest().manifest.version
        return table.history.summary(version)

    def open_all(self, partitions: Sequence[Partition]) -> list[PartitionVersion]:
        """`open` of each, at the same time."""
        already_open = [opened for opened in map(self._kept, partitions) if opened is not None]
        if len(already_open) == len(partitions):
            return already_open
        return overlapped(self.open, partitions, NUM_THREADS)

    def partitions_with_rows(self) -> list[PartitionVersion]:
        """The partitions with rows, or with an unknown number of rows; deletes can leave some without."""
        opened = self.open_all(self.partitions())
        return [item for item in opened if any(count != 0 for count in item.manifest.fragments.row_counts())]

    def plan(
        self,
        opened: PartitionVersion,
        columns: Sequence[str] | None = None,
        filter: Expr | str | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_rows: int | None = None,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        time_zone: str = "UTC",
    ) -> Scan:
        """A plan that reads the fragments of one partition; arguments and errors as `Dataset.plan`."""
        file_version = data_format(opened.manifest)
        flags = (with_row_id, with_row_address, batch_rows, window_bytes, time_zone)
        key = (file_version, None if columns is None else tuple(columns), *flags)
        unbound = self._plans.get(key)
        if unbound is None:
            unbound = Scan.of(
                with_blob_descriptors(self.specs.schema, file_version),
                opened.bases,
                columns=columns,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                batch_rows=batch_rows,
                window_bytes=window_bytes,
                time_zone=time_zone,
            )
            if len(self._plans) < _MAX_PLANS:
                self._plans[key] = unbound
        plan = unbound.of_version(opened.bases, stable_row_ids=opened.manifest.has_stable_row_ids)
        return plan if filter is None else plan.filtered(to_expr(filter, time_zone=time_zone))

    def searched_filter(
        self, opened: PartitionVersion, filter: Expr | str | None, shared: SharedAnalyses
    ) -> Expr | None:
        """The filter for a plan of one partition, with the rows of its text searches; they are those of this
        partition only.
        """
        schema = with_blob_descriptors(self.specs.schema, data_format(opened.manifest))
        return with_text_searches_done(filter, opened.manifest, schema, opened.bases, "UTC", shared)

    def _planned(
        self,
        columns: Sequence[str] | None,
        filter: Expr | str | None = None,
        *,
        batch_rows: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> tuple[Scan, list[tuple[Scan, Manifest]]]:
        # Once, so that now() is the same moment in all partitions.
        tree = None if filter is None else to_expr(filter)
        nothing = self._plan_of_nothing(columns, tree, with_row_id=with_row_id, with_row_address=with_row_address)
        parts, shared = [], shared_analyses(self)
        for opened in self.splits(tree):
            plan = self.plan(
                opened,
                columns,
                self.searched_filter(opened, tree, shared),
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                batch_rows=batch_rows,
            )
            parts.append((plan, opened.manifest))
        return nothing, parts

    def _plan_of_nothing(
        self,
        columns: Sequence[str] | None,
        filter: Expr | str | None,
        time_zone: str = "UTC",
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> Scan:
        """Validates the arguments of a scan where there is no partition to bind it to."""
        dataset = self.catalog_version.dataset
        assert dataset is not None  # A namespace without `__manifest` has no specs.
        schema = with_blob_descriptors(self.specs.schema, self.file_version)
        bases = self.catalog.table.bases(dataset.manifest)
        return Scan.of(
            schema,
            bases,
            columns=columns,
            filter=filter,
            time_zone=time_zone,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
        )

    def explain(self, filter: str | Expr, *, use_scalar_index: bool = True) -> str:
        """Explains a scan with this filter: the partitions that it opens, and `Dataset.explain` of each.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the filter is invalid.
        """
        opened = list(self.open_all(self.partitions(filter)))
        parts, shared = [f"partitions: {len(opened)} of {self.num_splits}"], shared_analyses(self)
        for item in opened:
            schema = with_blob_descriptors(self.specs.schema, data_format(item.manifest))
            text = explained(
                self.plan(item, [], self.searched_filter(item, filter, shared)),
                item.manifest,
                asked_text_indexes(filter, item.manifest, schema, item.bases, shared),
                use_scalar_index=use_scalar_index,
            )
            parts.append(f"partition {item.key}\n{text}")
        return "\n".join(parts)


def split_partitions(splits: Iterable[Split]) -> list[Partition]:
    """The partitions of splits of a partitioned table."""
    return [split.partition for split in splits if isinstance(split, PartitionVersion)]


class PlannedTable(PartitionedTable):
    """A version with the columns and specs that it is to get; rows are written by them before they are there."""

    def __init__(self, base: PartitionedTable, specs: PartitionSpecs) -> None:
        super().__init__(base.root, base.storage_options, base.catalog, base.catalog_version, specs)
        self.base = base

    @cached_property
    def rows(self) -> pa.Table:
        """All rows of `__manifest`, with the columns of all specs."""
        rows = self.catalog_version.rows()
        for column in self.specs.partition_columns():
            if column.name not in rows.column_names:
                rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
        return rows


def identity_columns(table: PartitionedTable) -> IdentityColumns:
    """The identity columns, whose used values `__manifest` counts. Raises as `IdentityColumns.of`."""
    dataset = table.catalog_version.dataset
    config = {} if dataset is None else dataset.manifest.config
    return IdentityColumns.of(table.lance_schema, config, lambda: bool(table.index.partitions))


def open_partitioned(
    root: UriOrPath,
    *,
    version: int | None = None,
    tag: str | None = None,
    timestamp: Moment | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> PartitionedTable:
    """The partitioned namespace at `root` as one table, as it is now unless an older version is named.

    Args:
        version, tag, timestamp: a version of `__manifest`; a tag of it; the newest one that was committed then.

    Raises:
        NotFoundError: there is none at `root`, or no such version.
        InvalidInputError: it is not partitioned, or more than one version is named.
    """
    return PartitionedTable(*version_arguments(root, version, tag, timestamp, storage_options))


def version_arguments(
    root: UriOrPath,
    version: int | None,
    tag: str | None,
    timestamp: Moment | None,
    storage_options: Mapping[str, str] | None,
) -> tuple[str, Mapping[str, str] | None, CatalogTable, CatalogVersion]:
    """The arguments of `PartitionedTable` for a version. Raises as `open_partitioned`."""
    if sum(choice is not None for choice in (version, tag, timestamp)) > 1:
        raise InvalidInputError("give one of version, tag and timestamp")
    root = absolute_uri(uri_text(root))
    catalog = CatalogTable(root, storage_options)
    table = catalog.table
    if tag is not None:
        version = table.refs.tag(tag).version
    if version is not None:
        opened = catalog.at(table.at(version).manifest)
    elif timestamp is not None:
        opened = catalog.at(table.as_of(timestamp).manifest)
    else:
        opened = catalog.load()
    if opened.dataset is None:
        raise NotFoundError(f"there is no partitioned table at {root}")
    return root, storage_options, catalog, opened


def _reopened(
    root: str, storage_options: Mapping[str, str] | None, version: int, committed: int | None
) -> PartitionedTable:
    """Unpickles a `PartitionedTable`.

    Raises:
        NotFoundError: the version was cleaned up since, or replaced by one of another table at the same place.
    """
    table = open_partitioned(root, version=version, storage_options=storage_options)
    dataset = table.catalog_version.dataset
    if dataset is None or dataset.manifest.timestamp_nanos != committed:
        raise NotFoundError(f"version {version} of {root} is another one than was pickled; open the table again")
    return table


def is_partitioned_table(root: UriOrPath, storage_options: Mapping[str, str] | None = None) -> bool:
    """Whether there is a partitioned namespace at `root`."""
    return is_partitioned(CatalogTable(uri_text(root), storage_options).load().properties)


def _check_field_ids(schema: LanceSchema, partition: Partition) -> None:
    for field in schema.walk():
        named = field.metadata.get(FIELD_ID_KEY)
        if named is not None and named != str(field.id).encode():
            raise UnsupportedFeatureError(
                f"column {field.name!r} of {partition.object_id!r} has id {field.id} in its table and "
                f"{named.decode(errors='replace')} in the namespace",
                feature="partition tables with field ids of their own",
            )
