"""Serializable statements: whether other writers have added or changed rows that a statement has read.

A statement that changes rows decides by what it reads of its table. If others commit before it does, it would decide
differently if it had run after them, unless none of the rows that they added, changed or deleted is one that it looked
at. Such rows are read, and compared with the filter of the statement's scans; that others have changed something is no
conflict by itself. Compaction changes no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lance_spark._proto import table_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lance_spark.expr.literals import TRUE
from lance_spark.expr.nodes import And, Expr, conjunction, referenced_columns
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.row_level.delete import address_scan
from lance_spark.table.row_level.row_changes import NewerVersionCheck
from lance_spark.table.rows.fragment import DataFragment


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows of the target that a statement has looked at.

    Attributes:
        version: the version that was read.
        filter: true for the rows that were looked at; None for all rows.
        time_zone: the zone of timestamps in the filter that name none.
    """

    version: int
    filter: Expr | None
    time_zone: str = "UTC"

    def within(self, schema: LanceSchema) -> ReadRows:
        """The same rows or more: without the terms that name anything but columns of `schema`.

        Row addresses and other system columns mean something else in another version.
        """
        if self.filter is None:
            return self
        known = set(schema.names())
        terms = self.filter.terms if isinstance(self.filter, And) else (self.filter,)
        kept = tuple(term for term in terms if all(path[0] in known for path in referenced_columns(term)))
        known_terms = conjunction(kept)
        return replace(self, filter=None if known_terms == TRUE else known_terms)


@dataclass(frozen=True, slots=True)
class VersionRows:
    """The rows of one version.

    Attributes:
        schema: the columns, by the names that filters use.
        scan: a scan of the rows that a filter keeps.
    """

    manifest: Manifest
    bases: Bases
    schema: LanceSchema
    scan: Callable[[ReadRows], Scan]


class ReadConflicts:
    """A `NewerVersionCheck`: passes if no rows that were read have changed since.

    Args:
        table: the branch.
        read_schema: the columns of the version that was read.
    """

    def __init__(self, table: TableLocation, reads: Sequence[ReadRows], read_schema: LanceSchema) -> None:
        self._table = table
        self._reads = [read.within(read_schema) for read in reads]
        self._schema = read_schema
        self._checked = min((read.version for read in reads), default=0)

    def __call__(self, manifest: Manifest) -> None:
        """Looks at the versions up to `manifest` that it has not seen yet.

        Raises:
            RetryableConflictError: another writer has added, changed or deleted such a row, or that is not known.
        """
        if not self._reads:
            return
        history = self._table.history
        try:
            before = history.load(self._checked).manifest
            for version in history.versions_after(self._checked, manifest.version):
                file = history.load(version)
                transaction = history.transaction(file)
                kind = OperationKind.UNKNOWN if transaction is None else transaction.operation.kind
                if kind is not OperationKind.REWRITE:
                    self._compare(before, file.manifest)
                before = file.manifest
        except NotFoundError as error:
            raise conflict(self._table.uri, manifest.version) from error
        self._checked = manifest.version

    def _compare(self, before: Manifest, after: Manifest) -> None:
        reads = [read for read in self._reads if read.version < after.version]
        if touches(self._rows(before), self._rows(after), reads, self._schema):
            raise conflict(self._table.uri, after.version)

    def _rows(self, manifest: Manifest) -> VersionRows:
        def scan(read: ReadRows) -> Scan:
            return address_scan(self._table, manifest, read.filter, time_zone=read.time_zone)

        return VersionRows(manifest, self._table.bases(manifest), manifest.schema, scan)


def conflict(uri: str, version: int) -> RetryableConflictError:
    """The error for a statement that has read what others have changed in `version` of the table at `uri`."""
    return RetryableConflictError(
        f"version {version} of {uri}, which another writer has committed, adds, changes or deletes rows that this "
        "statement has read. Run it again, or set the table property 'isolation-level' to 'snapshot'",
        own=OperationKind.UPDATE.value,
        table_version=version,
    )


def check_of(table: TableLocation, reads: Sequence[ReadRows], read_schema: LanceSchema) -> NewerVersionCheck | None:
    """The check of a statement with these reads; None if it has read nothing."""
    return ReadConflicts(table, reads, read_schema) if reads else None


def touches(
    before: VersionRows | None, after: VersionRows | None, reads: Sequence[ReadRows], read_schema: LanceSchema
) -> bool:
    """Whether one of `reads` looks at a row that is in only one of two versions, or has other values in the second.

    Args:
        before, after: the versions; None if there are no rows.
        read_schema: the columns as the statement knew them.
    """
    changes = list(_changes(before, after))
    if not changes:
        return False
    return any(_is_touched(read, changes, (before, after), read_schema) for read in reads)


def _is_touched(
    read: ReadRows,
    changes: Sequence[_Change],
    versions: Sequence[VersionRows | None],
    read_schema: LanceSchema,
) -> bool:
    if read.filter is None:
        return any(change.may_have_rows() for change in changes)
    if not all(_same_columns(read.filter, read_schema, version) for version in versions):
        return True
    return any(change.matches(read) for change in changes)


@dataclass(frozen=True, slots=True)
class _Change:
    """Rows of a fragment that are in one version and not, or not with these values, in the other.

    Attributes:
        offsets: of the rows, ascending; None for all that are not deleted.
    """

    rows: VersionRows
    fragment: DataFragment
    offsets: Int64Array | None = None

    def may_have_rows(self) -> bool:
        return self.fragment.num_rows != 0 if self.offsets is None else len(self.offsets) > 0

    def matches(self, read: ReadRows) -> bool:
        try:
            scan = self.rows.scan(read)
            if self.offsets is not None:
                return bool(scan.matches(self.fragment, self.offsets).any())
            return any(batch.num_rows for batch in scan.read([self.fragment]))
        except InvalidInputError:
            return True  # The filter fails on a row: the statement has to see that row.


def _changes(before: VersionRows | None, after: VersionRows | None) -> Iterator[_Change]:
    old = {} if before is None else {message.id: place for place, message in enumerate(_messages(before))}
    new = {} if after is None else {message.id: place for place, message in enumerate(_messages(after))}
    if after is not None:
        for number, place in new.items():
            if number not in old:
                yield _Change(after, after.manifest.fragments[place])
    if before is None:
        return
    for number, place in old.items():
        if after is None or number not in new:
            yield _Change(before, before.manifest.fragments[place])
        elif _messages(before)[place] != _messages(after)[new[number]]:
            yield from _changes_of(
                before, after, before.manifest.fragments[place], after.manifest.fragments[new[number]]
            )


def _changes_of(before: VersionRows, after: VersionRows, old: DataFragment, new: DataFragment) -> Iterator[_Change]:
    if old.files != new.files:
        yield _Change(before, old)
        yield _Change(after, new)
    elif old.deletion_file != new.deletion_file:
        deleted = _deleted(after, new)
        known = _deleted(before, old)
        yield _Change(before, old, np.setdiff1d(deleted, known, assume_unique=True))
        # A restored version brings rows back.
        yield _Change(after, new, np.setdiff1d(known, deleted, assume_unique=True))


def _messages(rows: VersionRows) -> Sequence[table_pb2.DataFragment]:
    return rows.manifest.fragments.messages


def _deleted(rows: VersionRows, fragment: DataFragment) -> Int64Array:
    return FragmentReader(fragment, rows.bases).deletions.offsets


def _same_columns(filter: Expr, schema: LanceSchema, rows: VersionRows | None) -> bool:
    """Whether the columns of a filter are the same ones in another version."""
    if rows is None:
        return True
    names = {path[0] for path in referenced_columns(filter)}
    known = {field.name: field for field in schema.fields}
    found = {field.name: field for field in rows.schema.fields}
    return all(name in found and found[name] == known[name] for name in names)
