"""Table handles for the JVM: enough to find the same version again, in any planner worker."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.replace import planned_with
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import schema_from_bytes, schema_to_bytes
from lance_spark.spark.connector.channel.table_names import remember
from lance_spark.spark.constraints import TableConstraint
from lance_spark.spark.options.names import storage_options_of
from lance_spark.spark.predicates import SparkExpression
from lance_spark.storage import open_store
from lance_spark.storage.paths import place_of
from lance_spark.table.base_places import options_of
from lance_spark.table.bases import Bases, removed_meanwhile
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.after_commit import maintain_after
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.system_columns import filterable
from lance_spark.table.source import TableSource

if TYPE_CHECKING:
    from lance_spark.partitioned.dataset import PartitionedDataset

_CACHED = 32


def display_location(uri: str, branch: str | None) -> str:
    """A table at a path as plans and messages call it."""
    return uri if branch is None else f"{uri} (branch {branch})"


Version = TypeVar("Version")


def check_storage_options(options: Mapping[str, str], used: Mapping[str, str], table: str) -> None:
    """Passes if all storage options among `options` are in `used`, the ones by which `table` is reached.

    Raises:
        InvalidInputError: one is not, so it has no effect.
    """
    known = {name.lower(): value for name, value in used.items()}
    for name, value in storage_options_of(options).items():
        if known.get(name.lower()) != value:
            raise InvalidInputError(
                f"option storage.{name} has no effect on {table}, which Spark looks up by its name without it; set "
                f"spark.sql.catalog.<name>.storage.{name} of the catalog, or use load(path) or save(path)"
            )


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of a catalog in the session.

    Attributes:
        settings: those with the prefix ``spark.sql.catalog.<name>.``, without it
        case_sensitive: whether names are case sensitive.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    case_sensitive: bool = True


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged table: one that a statement creates or replaces.

    Attributes:
        columns: of the statement; rows may have other columns.
        properties: the statement's TBLPROPERTIES.
        identifier: its name in the catalog, None for a path.
        declared: whether the name was reserved for it, and for nobody else.
        location: of a table that gets its name at commit, relative to the catalog's root.
        replaces: URI of the table that has the name until then, if a plain table replaces a partitioned one or the
            reverse.
        partitioning: the PARTITIONED BY clause.
        constraints: of the new table.
    """

    columns: StructType
    properties: Mapping[str, str] = field(default_factory=dict)
    catalog: CatalogSettings | None = None
    identifier: tuple[str, ...] | None = None
    declared: bool = False
    location: str | None = None
    replaces: str | None = None
    partitioning: tuple[SparkExpression, ...] = ()
    constraints: tuple[TableConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A version of a table.

    Attributes:
        uri: root of the main branch.
        branch: None is the main one.
        version: None if there is no table yet.
        timestamp_nanos: of the version, which distinguishes it from one of a table that was dropped and created again.
        storage_options: how to reach the store.
        staged: for a table that a statement is about to make.
        replaces_schema: whether an overwrite gives the table the columns of the new rows.
        partitioned: whether it is a partitioned one, whose versions are those of `__manifest`.
        by_path: whether `save(path)` loaded it to overwrite it.
        of_session_catalog: whether its name is in Spark's own catalog.
        name: its name in statements; empty for a path.
        place: equal for all handles of a table, whatever its URI in them.
        evolved: the new schema if the rows of the statement add columns, as `lance.file.Schema` in base64; None if it
            does not change.
    """

    uri: str
    branch: str | None = None
    version: int | None = None
    timestamp_nanos: int | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    staged: Staged | None = None
    replaces_schema: bool = False
    partitioned: bool = False
    by_path: bool = False
    of_session_catalog: bool = False
    evolved: str | None = None
    name: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        if not self.place:
            object.__setattr__(self, "place", place_of(self.uri))
        if self.name:
            remember(self.uri, self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        # By its constructor, so that the commit of a statement knows the name too.
        return TableHandle, tuple(getattr(self, field.name) for field in fields(self))

    @property
    def display_name(self) -> str:
        """The table as plans and messages call it."""
        return self.name or display_location(self.uri, self.branch)

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of this version."""
        options = tuple(sorted(self.storage_options.items()))
        return (self.uri, self.partitioned, self.branch, self.version, self.timestamp_nanos, options)

    def source(self) -> Dataset | PartitionedTable:
        """The version, of a table of either kind, with the columns that it is about to get.

        Raises:
            NotFoundError: it has been cleaned up, or the table was replaced by another one.
        """
        return self.open_partitioned() if self.partitioned else Dataset(*self.open())

    def dataset(self) -> Dataset | PartitionedDataset:
        """The version, of a table of either kind, with its verbs. Raises as `source`."""
        from lance_spark.partitioned.dataset import with_verbs

        return with_verbs(self.source())

    def filterable(self) -> pa.Schema:
        """Columns that a filter may name: stored ones, and system columns that they do not hide. Raises as `source`."""
        return filterable(self.source().stored_schema)

    def open_partitioned(self) -> PartitionedTable:
        """Opens the version of a partitioned table, with the columns that the statement adds.

        Raises:
            NotFoundError: it was cleaned up.
        """
        from lance_spark.partitioned.dataset import open_partitioned_dataset

        table = cast("PartitionedDataset | None", _versions.get(self.key))
        if table is None:
            try:
                table = open_partitioned_dataset(self.uri, version=self.version, storage_options=self.storage_options)
            except NotFoundError as error:
                raise removed_meanwhile(f"version {self.version} of {self.display_name}") from error
            if self.timestamp_nanos not in (None, table.versions_manifest.timestamp_nanos):
                raise NotFoundError(
                    f"{self.display_name} was dropped and created again while the query was planned; run it again"
                )
            self.keep(table)
        evolved = self.evolved_schema()
        return table if evolved is None else planned_with(table, evolved)

    def unbound_bases(self) -> Bases:
        """Store of the table's root, for a scan that is not bound to a split yet."""
        return Bases(open_store(self.uri, options_of(self.storage_options)), (), self.storage_options)

    def location(self) -> TableLocation:
        """The branch of the table."""
        return TableLocation(self.uri, self.storage_options, branch=self.branch, after_commit=maintain_after)

    def open(self) -> tuple[TableLocation, Manifest]:
        """Opens the version, with the columns that the statement adds.

        Raises:
            NotFoundError: it was cleaned up, or the table was replaced by another one.
        """
        location = self.location()
        if self.version is None:
            raise NotFoundError(f"there is no Lance table {self.display_name}")
        opened = _versions.get(self.key)
        manifest = None if opened is None else opened.versions_manifest
        if manifest is None:
            try:
                manifest = location.at(self.version).manifest
            except NotFoundError as error:
                raise removed_meanwhile(f"version {self.version} of {self.display_name}") from error
            if self.timestamp_nanos is not None and manifest.timestamp_nanos != self.timestamp_nanos:
                raise NotFoundError(
                    f"{self.display_name} was dropped and created again while the query was planned; run it again"
                )
            self.keep(Dataset(location, manifest))
        evolved = self.evolved_schema()
        return location, manifest if evolved is None else replace(manifest, schema=evolved)

    def keep(self, table: Dataset | PartitionedDataset) -> None:
        """Keeps the version, which `source` would read from the store once more."""
        _versions.put(self.key, table)

    def evolved_schema(self) -> LanceSchema | None:
        """The new schema if the rows add columns; None if it does not change."""
        if self.evolved is None:
            return None
        return schema_from_bytes(b64decode(self.evolved))

    def check_place(self, options: Mapping[str, str]) -> None:
        """Passes if the table is where the `options` of a read or write say, and is reached as they say.

        Raises:
            InvalidInputError: Spark looked up the table without one of them.
        """
        check_storage_options(options, self.storage_options, self.display_name)
        path = next((value for name, value in options.items() if name.lower() == "path"), None)
        # Spark makes a table with this option at the path, which is relative to the root of the catalog.
        if path is not None and self.name and self.staged is None and _local_path(path) != _local_path(self.uri):
            raise InvalidInputError(
                f"option path has no effect on {self.display_name}, which Spark looks up by its name; leave it "
                "out, or use load(path) or save(path)"
            )

    def at(self, table: TableSource) -> TableHandle:
        """The handle of `table`, a version of the table or branch of this handle."""
        version, nanos = table.version, table.versions_manifest.timestamp_nanos
        return replace(self, version=version, timestamp_nanos=nanos, partitioned=table.has_split_keys)

    def with_evolved(self, schema: LanceSchema) -> TableHandle:
        """A handle of this version for a statement whose rows add columns."""
        return replace(self, evolved=b64encode(schema_to_bytes(schema)).decode())


def _local_path(uri: str) -> str:
    """`uri` without the scheme of local paths, which Spark adds or leaves out."""
    return re.sub(r"^file:(//)?", "", uri).rstrip("/")


class LruCache(Generic[Version]):
    """LRU cache of values of table versions. Versions never change, so entries are evicted and never invalidated."""

    def __init__(self) -> None:
        self._entries: OrderedDict[object, Version] = OrderedDict()
        self._lock = Lock()

    def get(self, key: object) -> Version | None:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: object, version: Version) -> None:
        with self._lock:
            self._entries[key] = version
            while len(self._entries) > _CACHED:
                self._entries.popitem(last=False)


_versions: LruCache[Dataset | PartitionedDataset] = LruCache()
