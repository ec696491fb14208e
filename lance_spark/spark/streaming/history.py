"""The history of a table, plain or partitioned, as a stream reads it: version by version, file by file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.expr.literals import Literal
from lance_spark.partitioned.change_feed import plan_range, versions_between
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import schema_to_bytes
from lance_spark.spark.streaming.schema_check import difference
from lance_spark.table.change_feed.change_feed import ChangeFeed, FeedColumns, plan_changes
from lance_spark.table.change_feed.version_diff import NEW_MEANING, found_in, nullable, same_field_ids
from lance_spark.table.change_feed.version_effect import Effect, VersionEffect, needs_predecessor, version_effect
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.source import Split


@dataclass(frozen=True, slots=True)
class StreamFile:
    """A fragment that a stream reads at once.

    Attributes:
        split: the split that has it.
        columns: the columns of the stream as the data files of its version have them; None if they are the same.
        constants: names and values of columns that no file has.
    """

    split: Split
    fragment: DataFragment
    columns: LanceSchema | None = None
    constants: tuple[tuple[str, Literal], ...] = ()

    @property
    def num_rows(self) -> int:
        """Rows that are not deleted; 0 if that is not known."""
        return self.fragment.num_rows or 0

    @property
    def size_bytes(self) -> int:
        """Bytes of its data files, as far as they are known."""
        return sum(file.size_bytes or 0 for file in self.fragment.files)


@dataclass(frozen=True, slots=True)
class Step:
    """One version of a table.

    Attributes:
        effect: what it does to the rows.
        operation: what made it, for messages.
        files: those with new rows, always in the same order.
        schema: the columns of the version.
        timestamp_nanos: when it was committed.
    """

    version: int
    timestamp_nanos: int
    effect: Effect
    operation: str
    files: tuple[StreamFile, ...]
    schema: LanceSchema


@dataclass(frozen=True, slots=True)
class VersionStamp:
    """A version and when it was committed, in nanoseconds since 1970 UTC."""

    version: int
    timestamp_nanos: int


class StreamHistory(ABC):
    """The versions of a table."""

    location: TableLocation
    """The location of the versions that a stream counts."""

    def newest(self) -> VersionStamp | None:
        """The newest version; None if there is no table."""
        found = self.location.latest()
        return None if found is None else VersionStamp(found.version, found.timestamp_nanos)

    def oldest(self) -> int:
        """The oldest version that is left.

        Raises:
            NotFoundError: there is none.
        """
        versions = [item.version for item in self.location.history.locations()]
        if not versions:
            raise NotFoundError(f"the table {self.location.uri} was dropped")
        return min(versions)

    def stamp(self, version: int) -> VersionStamp:
        """A version by its number.

        Raises:
            NotFoundError: it was cleaned up.
        """
        found = self.location.at(version).manifest
        return VersionStamp(found.version, found.timestamp_nanos)

    @abstractmethod
    def snapshot(self, version: int) -> tuple[StreamFile, ...]:
        """All files of a version.

        Raises:
            NotFoundError: it was cleaned up.
        """

    @abstractmethod
    def step(self, version: int) -> Step:
        """The changes of a version.

        Raises:
            NotFoundError: it, or one that it has to be compared with, was cleaned up.
        """

    @abstractmethod
    def columns(self, version: int) -> LanceSchema:
        """The columns of a version.

        Raises:
            NotFoundError: it was cleaned up.
        """

    @abstractmethod
    def split(self, version: int, known: Split) -> Split | None:
        """The split of a version that is a split of another one; None if it is not there. Raises as `columns`."""

    @abstractmethod
    def plan_changes(self, versions: VersionRange, columns: Sequence[str], fields: FeedColumns) -> ChangeFeed:
        """The changes of some versions, in the columns of a stream. Raises as `columns`."""

    def keeps_field_ids(self, version: int) -> bool:
        """Whether the ids of columns mean the same in a version and in the one before it. Raises as `columns`."""
        return True


class PlainHistory(StreamHistory):
    """The history of a plain table or a branch."""

    def __init__(self, location: TableLocation) -> None:
        self.location = location

    def snapshot(self, version: int) -> tuple[StreamFile, ...]:
        return self._files(self.location.at(version).manifest, None)

    def step(self, version: int) -> Step:
        file = self.location.at(version)
        manifest = file.manifest
        transaction = self.location.history.transaction(file)
        before = None
        if version > 1 and needs_predecessor(transaction):
            before = self.location.at(version - 1).manifest
        found = version_effect(before, manifest, transaction)
        return Step(
            version,
            manifest.timestamp_nanos,
            found.effect,
            found.operation,
            self._files(manifest, found.new),
            manifest.schema,
        )

    def columns(self, version: int) -> LanceSchema:
        return self.location.at(version).manifest.schema

    def split(self, version: int, known: Split) -> Split | None:
        return replace(known, manifest=self.location.at(version).manifest)

    def plan_changes(self, versions: VersionRange, columns: Sequence[str], fields: FeedColumns) -> ChangeFeed:
        return plan_changes(self.location, versions, columns, fields)

    def keeps_field_ids(self, version: int) -> bool:
        file = self.location.at(version)
        transaction = self.location.history.transaction(file)
        if transaction is not None and transaction.operation.kind not in NEW_MEANING:
            return True
        return same_field_ids(self.location.at(version - 1).manifest, file.manifest)

    def _files(self, manifest: Manifest, fragments: Sequence[DataFragment] | None) -> tuple[StreamFile, ...]:
        chosen = manifest.fragments if fragments is None else fragments
        split = Split(self.location, manifest)
        return tuple(StreamFile(split, item) for item in sorted(chosen, key=lambda item: item.id))


class PartitionedHistory(StreamHistory):
    """The history of a partitioned table: the versions of `__manifest`."""

    def __init__(self, table: PartitionedTable) -> None:
        self._table = table
        self.location = table.catalog.table

    def snapshot(self, version: int) -> tuple[StreamFile, ...]:
        table = self._at(version)
        opened = table.open_all(sorted(table.index.partitions, key=lambda item: item.object_id))
        return tuple(
            StreamFile(item, fragment)
            for item in opened
            for fragment in sorted(item.manifest.fragments, key=lambda fragment: fragment.id)
        )

    def step(self, version: int) -> Step:
        after = self._at(version)
        before = self._before(version)
        effects: list[VersionEffect] = []
        files: list[StreamFile] = []
        for split, effect in versions_between(before, after):
            effects.append(effect)
            files += [StreamFile(split, item) for item in sorted(effect.new, key=lambda item: item.id)]
        total = _total(effects)
        dataset = after.catalog_version.dataset
        assert dataset is not None, "a partitioned table has a manifest"
        chosen = tuple(files) if total is Effect.NEW_ROWS else ()
        names = sorted({item.operation for item in effects if item.effect is total}) or ["no change of rows"]
        nanos = dataset.manifest.timestamp_nanos
        return Step(version, nanos, total, names[0], chosen, after.lance_schema)

    def columns(self, version: int) -> LanceSchema:
        return self._at(version).lance_schema

    def split(self, version: int, known: Split) -> Split | None:
        table = self._at(version)
        found = next((item for item in table.index.partitions if item.object_id == known.key), None)
        return None if found is None else table.open(found)

    def plan_changes(self, versions: VersionRange, columns: Sequence[str], fields: FeedColumns) -> ChangeFeed:
        return plan_range(self._table, versions, columns, fields)

    def _at(self, version: int) -> PartitionedTable:
        manifest = self.location.at(version).manifest
        catalog = self._table.catalog
        return PartitionedTable(self._table.root, self._table.storage_options, catalog, catalog.at(manifest))

    def _before(self, version: int) -> PartitionedTable | None:
        """The version before; None if the table was not partitioned then, or was not there."""
        if version <= 1:
            return None
        try:
            return self._at(version - 1)
        except InvalidInputError:
            return None


_MOST_STREAMS = 16
_kept_columns: OrderedDict[object, dict[int, LanceSchema]] = OrderedDict()


@dataclass(slots=True)
class OlderColumns:
    """The columns of a stream in versions before the one of its DataFrame.

    Versions are compared step by step, as a column that was dropped is not the one that has its name or id later.

    Attributes:
        planned: the columns, as the version `planned_at` has them.
    """

    history: StreamHistory
    planned: LanceSchema
    planned_at: int
    _known: dict[int, LanceSchema] = field(default_factory=dict)

    def of(self, version: int) -> LanceSchema | None:
        """The names of the stream's columns with the ids and types that they have in data files of a version.

        Returns:
            None if they equal the stream's: only columns that may be NULL were added since.

        Raises:
            NotFoundError: a version between was cleaned up.
        """
        if version >= self.planned_at or self._has_grown_only(self.history.columns(version)):
            return None
        if version not in self._known:
            self._walk_to(version)
        return self._known[version]

    def _has_grown_only(self, there: LanceSchema) -> bool:
        if difference(there, self.planned) is not None:
            return False
        ids = {item.id for item in there.walk()}
        return all(item.nullable or item.id in ids for item in self.planned.walk())

    def _walk_to(self, version: int) -> None:
        self._known = self._kept()
        last = min(self._known, default=self.planned_at)
        here, wanted = self.history.columns(last), self._known.get(last)
        if wanted is None:
            wanted = LanceSchema(tuple(nullable(top) for top in self.planned.fields), self.planned.metadata)
        for number in range(last, version, -1):
            there = self.history.columns(number - 1)
            found = found_in(wanted, here, there, by_id=self.history.keeps_field_ids(number))
            wanted = wanted if found == wanted else found
            self._known[number - 1], here = wanted, there

    def _kept(self) -> dict[int, LanceSchema]:
        """Schemas that earlier batches of the stream have read, so that a batch need not read all versions again.

        Versions keep their columns, and the commit time distinguishes the table from another one at its location.
        """
        table = self.history.location
        made = self.history.stamp(self.planned_at).timestamp_nanos
        key = (table.uri, table.branch, self.planned_at, made, schema_to_bytes(self.planned))
        kept = _kept_columns.setdefault(key, {})
        _kept_columns.move_to_end(key)
        if len(_kept_columns) > _MOST_STREAMS:
            _kept_columns.popitem(last=False)
        return kept


def history_of(
    uri: str, storage_options: Mapping[str, str], branch: str | None, *, is_partitioned: bool
) -> StreamHistory:
    """The history of a table.

    Raises:
        NotFoundError: there is no such table or branch.
    """
    if is_partitioned:
        return PartitionedHistory(open_partitioned(uri, storage_options=storage_options))
    return PlainHistory(TableLocation(uri, storage_options, branch=branch))


_WORST_FIRST = (Effect.UNKNOWN, Effect.RESTORES, Effect.CHANGES, Effect.DELETES, Effect.NEW_ROWS)


def _total(effects: Sequence[VersionEffect]) -> Effect:
    found = {item.effect for item in effects}
    if {Effect.DELETES, Effect.NEW_ROWS} <= found:
        # Rows may have moved from one partition to another.
        found.add(Effect.CHANGES)
    return next((effect for effect in _WORST_FIRST if effect in found), Effect.NOTHING)
