"""Commits of changes of many partitions as one version.

The partitioning specification ("Transaction") has the rules; docs/design/025-commits-over-many-partitions.md
has the reasons.

1. Each partition gets a version of its own, made of what readers of the table see. Nobody reads it yet.
2. One commit of `__manifest` names all of them; it is made only as the very next version after the one looked at.
3. If another writer was first, partitions whose rows in `__manifest` are as they were keep their new version. The
   others are done again on what is there now, if the conflict rules allow it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    InvalidInputError,
    LanceError,
    RetryableConflictError,
)
from lance_spark.namespace.directory.catalog_rows import NAMESPACE, OBJECT_ID, OBJECT_TYPE
from lance_spark.namespace.object_id import DELIMITER
from lance_spark.partitioned.change import (
    ChangeColumns,
    ChangeTable,
    DropPartition,
    PartitionChange,
    Step,
)
from lance_spark.partitioned.maintenance.vacuum import clean_up_after
from lance_spark.partitioned.manifest_index import (
    READ_BRANCH,
    READ_TAG,
    READ_VERSION,
    Partition,
    PartitionKey,
    rows_of,
)
from lance_spark.partitioned.spec import PartitionSpecs
from lance_spark.partitioned.table import NUM_THREADS, PartitionedTable, PlannedTable
from lance_spark.schema.constraints import has_new_checks
from lance_spark.storage.deletion import delete_quietly
from lance_spark.storage.overlap import overlapped
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.indexes.auto_zonemap import extend_zone_maps
from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import OPERATION
from lance_spark.table.paths import DATA, TRANSACTIONS
from lance_spark.table.writing.conform import same_columns
from lance_spark.table.writing.save import CommitOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Done:
    """A change that has its version.

    Attributes:
        seen: the partition as it was in `__manifest` then, None if it was not there.
        result: the partition with the new version, None if it goes.
        table: where the version is.
        before: the version that it was made of, None if there was no table.
        made: the version; None if none was made.
    """

    seen: Partition | None
    result: Partition | None
    table: TableLocation
    before: Manifest | None
    made: Manifest | None
    removes_data: bool = False


def with_operation_name(options: CommitOptions | None, operation: str) -> CommitOptions:
    """`options` for a commit that is to be known as `operation`, unless they name it themselves."""
    options = options or CommitOptions()
    return replace(options, properties={OPERATION: operation, **(options.properties or {})})


Check = Callable[[PartitionedTable], None]
"""Looks at a version that came after the one that was read; raises a `CommitConflictError` if it stands against us."""


def commit_changes(
    base: PartitionedTable,
    changes: Sequence[PartitionChange],
    options: CommitOptions | None = None,
    *,
    check: Check | None = None,
    properties: Mapping[str, str | None] | None = None,
) -> PartitionedTable:
    """The version of the table with all of `changes`; `base` if there are none.

    Data files of the changes stay after an error, for the caller to remove (but not after a `CommitStateUnknownError`).

    Args:
        base: the version that the changes were made for.
        changes: at most one for each partition.
        check: asked for each newer version that the commit has to follow.
        properties: changes of the namespace's properties; they override concurrent changes.

    Raises:
        CommitConflictError: a change conflicts with what other writers have committed. Nothing is visible.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing is visible.
    """
    if not changes:
        return base
    return _run(_PartitionedCommit(base, changes, options or CommitOptions(), check, properties or {}))


def commit_first(
    new: PartitionedTable, changes: Sequence[PartitionChange], options: CommitOptions | None = None
) -> PartitionedTable:
    """The first version of a table that has none yet, with its properties and the partitions that `changes` make.

    Raises as `commit_changes`, and what `new.newest` raises if another writer is first.
    """
    return _run(_PartitionedCommit(new, changes, options or CommitOptions(), properties=new.properties))


def commit_specs(
    base: PartitionedTable,
    specs: PartitionSpecs,
    options: CommitOptions | None = None,
    *,
    step: Step | None = None,
    properties: Mapping[str, str | None] | None = None,
    changes: Sequence[PartitionChange] = (),
    check: Check | None = None,
) -> PartitionedTable:
    """The version of the table with other columns or another partition spec, and all of its partitions changed by it.

    Partitions that other writers change meanwhile are changed again, based on the version of the other writers.

    Args:
        base: the version that `specs` were made for.
        step: what becomes of the table of each partition that `changes` have nothing for; None if nothing does.
        properties: of the namespace, which change too.
        changes: at most one for each partition, made for `base` with these specs. Nobody else may change these
            partitions meanwhile, unless the change looks for itself at what others have done (`ChangeTable`).
        check: asked for each newer version that the commit has to follow.

    Raises:
        RetryableConflictError: another writer has changed columns or specs: begin again with the newest version.
        CommitConflictError: other writers were always first. Nothing is visible.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing is visible.
    """
    return _run(_SpecsCommit(base, specs, step, dict(properties or {}), options or CommitOptions(), changes, check))


def commit_rows(
    base: PartitionedTable,
    rows: pa.Table,
    specs: PartitionSpecs,
    options: CommitOptions | None = None,
    *,
    properties: Mapping[str, str | None] | None = None,
) -> PartitionedTable:
    """The version right after `base` in which `__manifest` has `rows`, which may lack columns, and no others.

    Raises:
        RetryableConflictError: `base` is not the newest version any more. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    schema = base.rows.schema
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    with _conflicts_of(base.root):
        committed = base.catalog.replace_rows(
            base.catalog_version,
            pa.Table.from_arrays(columns, schema=schema),
            (options or CommitOptions()).all_properties(),
            changed_properties={**specs.to_metadata(), **(properties or {})},
        )
    return PartitionedTable(base.root, base.storage_options, base.catalog, base.catalog.at(committed))


def _run(commit: _PartitionedCommit) -> PartitionedTable:
    with cleanup_on_failure(commit.withdraw), _conflicts_of(commit.root):
        committed = commit.run()
    clean_up_after(committed)
    return committed


@contextmanager
def _conflicts_of(root: str) -> Iterator[None]:
    """Names the table in conflicts, which the tables of its partitions and `__manifest` have found."""
    try:
        yield
    except CommitConflictError as error:
        error.table = root
        raise


class _PartitionedCommit:
    def __init__(
        self,
        base: PartitionedTable,
        changes: Sequence[PartitionChange],
        options: CommitOptions,
        check: Check | None = None,
        properties: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self._base = base
        self._check = check
        self._own_properties = properties
        self._changes: dict[PartitionKey, PartitionChange] = {change.partition.key: change for change in changes}
        if len(self._changes) < len(changes):
            raise InvalidInputError("a commit can change each partition once")
        self._marks = options.marks()
        of_mark = {} if options.mark is None else options.mark.properties()
        # The mark is the table's; the tables of its partitions have none.
        self._options = replace(options, mark=None, identity=None, properties={**(options.properties or {}), **of_mark})
        self._done: dict[PartitionKey, _Done] = {}
        self._policy = options.policy or RetryPolicy()

    @property
    def root(self) -> str:
        return self._base.root

    def run(self) -> PartitionedTable:
        current = self._base
        for attempt in range(self._policy.max_attempts):
            if attempt:
                self._check_conflicts(current)
            self._check_marks(current)
            self._select(current)
            open_keys = [key for key in self._changes if not self._is_current(key, current)]
            overlapped(lambda key, current=current: self._commit_partition(key, current), open_keys, NUM_THREADS)  # type: ignore[misc]
            try:
                committed = current.catalog.replace_rows(
                    current.catalog_version,
                    self._rows(current),
                    self._options.all_properties(),
                    changed_properties=self._properties(current),
                    marks=self._marks,
                )
            except CommitStateUnknownError:
                raise
            except CommitConflictError:
                current = current.newest()
                continue
            return PartitionedTable(
                current.root, current.storage_options, current.catalog, current.catalog.at(committed)
            )
        raise RetryableConflictError(
            f"other writers were first {self._policy.max_attempts} times in a row on {self._base.root}; try later",
            table_version=current.version,
        )

    def _check_marks(self, current: PartitionedTable) -> None:
        newest = current.catalog_version.dataset
        if newest is not None:
            for mark in self._marks:
                mark.check(newest.manifest.config, current.root)

    def withdraw(self) -> None:
        """Removes the versions that nobody will read."""
        for done in self._done.values():
            _withdraw(done)

    def _select(self, current: PartitionedTable) -> None:
        """Decides which partitions of `current` change."""

    def _properties(self, current: PartitionedTable) -> Mapping[str, str | None] | None:
        """Changes of the namespace's properties; None if there are none."""
        return self._own_properties or None

    def _check_conflicts(self, current: PartitionedTable) -> None:
        """Passes if ours may follow what others have committed."""
        if not same_columns(current.lance_schema, self._base.lance_schema):
            raise RetryableConflictError(
                f"another writer has changed the columns of {current.root}. Read the table and run the operation again",
                table_version=current.version,
            )
        if has_new_checks(self._base.lance_schema, current.lance_schema):
            raise RetryableConflictError(
                f"another writer has added a CHECK constraint to {current.root}. Read the table and run the operation "
                "again",
                table_version=current.version,
            )
        if self._check is not None:
            self._check(current)

    def _is_current(self, key: PartitionKey, current: PartitionedTable) -> bool:
        done = self._done.get(key)
        return done is not None and _named_version(done.seen) == _named_version(current.index.find(key))

    def _commit_partition(self, key: PartitionKey, current: PartitionedTable) -> None:
        """Makes the new version of one partition, on what `current` has of it."""
        change = self._changes[key]
        if key in self._done:
            _withdraw(self._done.pop(key))
        seen = current.index.find(key)
        if seen is None:
            if change.base is not None:
                # Deleted rows may be in another partition now; added rows are in a directory that nobody names.
                raise RetryableConflictError(
                    f"another writer has removed the partition {change.partition.object_id} of {current.root}. "
                    "Read the table and run the operation again",
                    table_version=current.version,
                )
            target = current.index.below_known_levels(change.partition)
            location, before = current.location(target).pinned_at(0), None
        else:
            opened = current.open(seen)
            before = opened.manifest
            if change.base is None or change.partition.location != seen.location:
                # Versions of two tables cannot be compared, though their numbers may be equal.
                change = self._changes[key] = change.rebase_onto(current, seen, opened.manifest)
            target, location = seen, opened.table.pinned_at(opened.manifest.version)
        manifest = change.commit(current, location, self._options)
        drops = isinstance(change, DropPartition)
        if not drops:
            manifest = _with_zone_maps(current, location, manifest, self._options.zone_maps)
        result = None if drops else _at(target, manifest, location.branch)
        self._done[key] = _Done(
            seen, result, location, before, None if drops else manifest, isinstance(change, ChangeColumns)
        )

    def _rows(self, current: PartitionedTable) -> pa.Table:
        """All rows of `__manifest` as they are to be."""
        rows = current.rows
        all_done = [self._done[key] for key in self._changes]
        removed = {done.seen.object_id for done in all_done if done.seen and done.result is None}
        changed = {done.result.object_id: done.result for done in all_done if done.seen and done.result}
        new = [done.result for done in all_done if done.seen is None and done.result]
        if removed:
            rows = rows.filter(pc.invert(pc.is_in(rows[OBJECT_ID], value_set=pa.array(sorted(removed)))))
            rows = _without_empty_levels(rows)
        if changed:
            rows = _with_versions(rows, changed)
        return _with_partitions(rows, new)


class _SpecsCommit(_PartitionedCommit):
    """A change of columns or specs: all partitions change, those too that other writers bring in meanwhile."""

    def __init__(
        self,
        base: PartitionedTable,
        specs: PartitionSpecs,
        step: Step | None,
        properties: dict[str, str | None],
        options: CommitOptions,
        changes: Sequence[PartitionChange],
        check: Check | None,
    ) -> None:
        super().__init__(base, changes, options, check, properties)
        self._prepared = frozenset(self._changes)
        self._planned = PlannedTable(base, specs)
        self._specs = specs
        self._step = step

    def _check_conflicts(self, current: PartitionedTable) -> None:
        if current.specs.to_metadata() != self._base.specs.to_metadata():
            raise RetryableConflictError(
                f"another writer has changed the columns or the partitioning of {current.root}. Read the table and run "
                "the operation again",
                table_version=current.version,
            )
        if any(current.properties.get(key) != self._base.properties.get(key) for key in self._own_properties):
            raise RetryableConflictError(
                f"another writer has changed properties of {current.root}, or the ids of fields. Read the table and "
                "run the operation again",
                table_version=current.version,
            )
        strict = [key for key in self._prepared if not isinstance(self._changes[key], ChangeTable)]
        if any(_named_version(current.index.find(key)) != _named_version(self._base.index.find(key)) for key in strict):
            raise RetryableConflictError(
                f"another writer has changed a partition of {current.root} to which rows with new columns are added. "
                "Read the table and run the operation again",
                table_version=current.version,
            )
        if self._check is not None:
            self._check(current)

    def _commit_partition(self, key: PartitionKey, current: PartitionedTable) -> None:
        # Prepared changes were written by the new columns and specs; followers convert the old ones.
        super()._commit_partition(key, self._planned if key in self._prepared else current)

    def _select(self, current: PartitionedTable) -> None:
        if self._prepared:
            self._planned = PlannedTable(current, self._specs)
        if self._step is None:
            return
        there = {partition.key: partition for partition in current.index.partitions}
        for key in self._changes.keys() - there.keys() - self._prepared:
            del self._changes[key]
            if key in self._done:
                _withdraw(self._done.pop(key))
        for key, partition in there.items():
            if key not in self._changes:
                self._changes[key] = ChangeColumns(partition, None, self._step)

    def _properties(self, current: PartitionedTable) -> Mapping[str, str | None]:
        known = current.properties
        wanted = {**self._specs.to_metadata(), **self._own_properties}
        return {key: value for key, value in wanted.items() if known.get(key) != value}

    def _rows(self, current: PartitionedTable) -> pa.Table:
        rows = super()._rows(PlannedTable(current, self._specs))
        namespace = self._specs.current.namespace
        if self._specs.current.id != self._base.specs.current.id and namespace not in rows[OBJECT_ID].to_pylist():
            rows = _with_rows(rows, [{OBJECT_ID: namespace, OBJECT_TYPE: NAMESPACE}])
        return rows


def _with_zone_maps(table: PartitionedTable, location: TableLocation, made: Manifest, wanted: str | None) -> Manifest:
    """The version of a partition with zone maps of the columns that are wanted, for the same commit; None for those
    that the table's properties name.

    Failures are logged: rows without zones are scanned.
    """
    try:
        return extend_zone_maps(location, made, table.properties.get(AUTO_ZONEMAP, "") if wanted is None else wanted)
    except LanceError as error:
        _log.warning("zone maps of %s are not extended: %s", location.uri, error)
        return location.newest()


def _named_version(partition: Partition | None) -> tuple[object, ...] | None:
    """The partition and its version as a row of `__manifest` names them, for comparison; None without a partition."""
    if partition is None:
        return None
    return partition.object_id, partition.location, partition.version, partition.branch, partition.tag


def _at(partition: Partition, manifest: Manifest, branch: str | None) -> Partition:
    return Partition(
        partition.spec, partition.values, partition.object_id, partition.location, manifest.version, branch
    )


def _withdraw(done: _Done) -> None:
    """Removes a version and what only it names, but its data files, which are the caller's."""
    if done.made is None or (done.before is not None and done.made.version == done.before.version):
        return
    history, manifests = done.table.history, done.table.history.manifests
    files: set[str] = set()
    try:
        versions = [done.made.version]
        if done.before is not None:
            versions = list(history.versions_after(done.before.version, done.made.version))
        for version in reversed(versions):
            manifest = history.load(version).manifest
            manifests.withdraw(manifests.locate(version))
            files |= _own_files(manifest, done.removes_data)
            if manifest.transaction_file:
                files.add(f"{TRANSACTIONS}/{manifest.transaction_file}")
    except LanceError:
        # Nobody reads it; the clean-up of the namespace finds it again.
        return
    for path in files - (set() if done.before is None else _own_files(done.before, True)):
        delete_quietly(done.table.store, path)


def _own_files(manifest: Manifest, with_data: bool) -> set[str]:
    """Paths of deletion files and data files in the table's own root."""
    found = _deletion_files(manifest)
    if with_data:
        for message in manifest.fragments.messages:
            found.update(f"{DATA}/{file.path}" for file in message.files if not file.HasField("base_id"))
    return found


def _deletion_files(manifest: Manifest) -> set[str]:
    return {
        fragment.deletion_file.path(fragment.id)
        for fragment in manifest.fragments
        if fragment.deletion_file is not None and fragment.deletion_file.base_id is None
    }


def _with_versions(rows: pa.Table, changed: Mapping[str, Partition]) -> pa.Table:
    """`rows` with what is to be read of some partitions."""
    ids = pa.array(list(changed), rows.schema.field(OBJECT_ID).type)
    places = pc.index_in(rows[OBJECT_ID], value_set=ids)
    at = np.flatnonzero(places.is_valid().to_numpy())
    chosen = np.zeros(rows.num_rows, np.bool_)
    chosen[at] = True
    partitions = [changed[rows[OBJECT_ID][int(number)].as_py()] for number in at]
    values = {
        READ_VERSION: [partition.version for partition in partitions],
        READ_BRANCH: [partition.branch for partition in partitions],
        READ_TAG: [None] * len(partitions),
    }
    for name, new in values.items():
        field = rows.schema.field(name)
        column = rows[name].combine_chunks()
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        column = pc.replace_with_mask(column, pa.array(chosen), pa.array(new, field.type))
        rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    return rows


def _with_partitions(rows: pa.Table, new: Sequence[Partition]) -> pa.Table:
    """`rows` and those of new partitions and of the levels above them."""
    ids: dict[str, object] = dict.fromkeys(rows[OBJECT_ID].to_pylist()) if new else {}
    added: list[dict[str, object]] = []
    for partition in new:
        for row in rows_of(partition, ids, rows.schema):
            ids[str(row[OBJECT_ID])] = None
            added.append(row)
    return _with_rows(rows, added) if added else rows


def _with_rows(rows: pa.Table, added: Sequence[Mapping[str, object]]) -> pa.Table:
    columns = [pa.array([row.get(field.name) for row in added], field.type) for field in rows.schema]
    return pa.concat_tables([rows, pa.Table.from_arrays(columns, schema=rows.schema)])


def _without_empty_levels(rows: pa.Table) -> pa.Table:
    """`rows` without the namespaces between spec and partition in which nothing is left."""
    ids = rows[OBJECT_ID].to_pylist()
    kinds = rows[OBJECT_TYPE].to_pylist()
    used: set[str] = set()
    for object_id, kind in zip(ids, kinds, strict=True):
        if kind != NAMESPACE:
            levels = object_id.split(DELIMITER)
            used.update(DELIMITER.join(levels[:depth]) for depth in range(1, len(levels)))
    remaining = [
        kind != NAMESPACE or DELIMITER not in object_id or object_id in used
        for object_id, kind in zip(ids, kinds, strict=True)
    ]
    return rows.filter(pa.array(remaining))
