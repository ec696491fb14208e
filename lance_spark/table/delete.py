"""Deleting the rows for which a filter is true.

The rows are found once, in the version that is read. If other writers come first, the deletion files are written again
with what those have deleted, as long as they have touched other rows; else the whole operation is run again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import (
    CommitStateUnknownError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
)
from lance_spark.expr.nodes import Expr
from lance_spark.table.bases import Bases
from lance_spark.table.blob_columns import shown
from lance_spark.table.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.deletion_vector import DeletionFileType, DeletionVector
from lance_spark.table.features import check_writable
from lance_spark.table.fragment import DataFragment, DeletionFile, FragmentId
from lance_spark.table.fragment_reader import FragmentReader
from lance_spark.table.location import TableLocation
from lance_spark.table.manifest import Manifest
from lance_spark.table.operations import Delete, OperationKind
from lance_spark.table.operations.successor import data_format
from lance_spark.table.paths import is_detached
from lance_spark.table.row_address import split_addresses
from lance_spark.table.save import DEFAULT_FILE_VERSION, CommitOptions
from lance_spark.table.scan import Scan
from lance_spark.table.system_columns import ROW_ADDRESS
from lance_spark.table.tidy import delete_quietly
from lance_spark.table.transaction import Transaction

MAX_ARROW_ROWS = 5000
"""Up to so many deleted rows a deletion file is in the Arrow form, as the reference library writes it."""

_MAX_RUNS = 10


def delete_rows(
    table: TableLocation, base: Manifest, filter: Expr | str, options: CommitOptions | None = None
) -> Manifest:
    """The version without the rows of `base` for which `filter` is true; `base` itself if there are none.

    Raises:
        InvalidInputError: the filter makes no sense, or fails on a value.
        NotFoundError: the filter names a column that the table does not have.
        CommitConflictError: what other writers have committed does not go together with it. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: this release cannot write to the table.
    """
    if not isinstance(filter, (str, Expr)):
        raise InvalidInputError(f"a {type(filter).__name__} is no filter; to delete every row, give 'true'")
    options = options or CommitOptions()
    policy = options.policy or RetryPolicy()
    for run in range(_MAX_RUNS):
        try:
            return _delete_once(table, base, filter, options)
        except RetryableConflictError:
            if run + 1 == _MAX_RUNS:
                raise
        policy.wait(run)
        newest = table.latest()
        if newest is None:
            raise NotFoundError(f"the table {table.uri} is gone")
        base = newest
    raise AssertionError("the last run returns or raises")


def _delete_once(table: TableLocation, base: Manifest, filter: Expr | str, options: CommitOptions) -> Manifest:
    if is_detached(base.version):
        raise InvalidInputError("a detached version is no part of the table's history; nothing can follow it")
    check_writable(base.writer_flags, table.uri)
    rows = _matching_rows(table, base, filter)
    if not rows:
        return base
    deletion = _Deletion(table, base, str(filter), rows)
    try:
        transaction = Transaction.new(base.version, deletion.from_version(base), options.all_properties())
        new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
        made = Commit(table.history, base, transaction, new_table, options.policy, deletion.from_version).run()
    except CommitStateUnknownError:
        raise
    except LanceError:
        deletion.remove_files()
        raise
    deletion.remove_files(but_those_of=made)
    return made


def _matching_rows(table: TableLocation, base: Manifest, filter: Expr | str) -> dict[FragmentId, Int64Array]:
    """Ascending offsets of the rows that the filter keeps, for each fragment that has any."""
    schema = shown(base.schema, data_format(base))
    if ROW_ADDRESS in schema.names():
        raise InvalidInputError(f"rows of a table with a column {ROW_ADDRESS!r} cannot be told; rename the column")
    scan = Scan.of(
        schema,
        table.bases(base),
        columns=[],
        filter=filter,
        with_row_address=True,
        stable_row_ids=base.has_stable_row_ids,
    )
    found: dict[FragmentId, Int64Array] = {}
    for fragment in base.fragments:
        parts = [batch.column(0).to_numpy() for batch in scan.read_fragment(fragment)]
        if parts:
            found[fragment.id] = split_addresses(np.concatenate(parts))[1]
    return found


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What becomes of a fragment.

    Attributes:
        before: its deletion file until then.
        after: its new deletion file; None if no row is left.
    """

    before: DeletionFile | None
    after: DeletionFile | None


class _Deletion:
    """The rows to delete, and the deletion files that were written for them.

    Args:
        rows: offsets in each fragment, int64[n], ascending, live in `base`.
    """

    def __init__(
        self, table: TableLocation, base: Manifest, predicate: str, rows: Mapping[FragmentId, Int64Array]
    ) -> None:
        self._table = table
        self._base = base
        self._predicate = predicate
        self._rows = rows
        self._outcomes: dict[FragmentId, _Outcome] = {}
        self._written: set[str] = set()

    def from_version(self, manifest: Manifest) -> Delete:
        """The operation that deletes the rows from `manifest`, the version that was read or a newer one.

        Raises:
            RetryableConflictError: another writer deleted or moved one of the rows.
        """
        bases = self._table.bases(manifest)
        updated: list[DataFragment] = []
        gone: list[FragmentId] = []
        for place, message in enumerate(manifest.fragments.messages):
            if FragmentId(message.id) not in self._rows:
                continue
            fragment = manifest.fragments[place]
            outcome = self._outcomes.get(fragment.id)
            if outcome is None or outcome.before != fragment.deletion_file:
                outcome = self._outcomes[fragment.id] = self._delete_from(fragment, bases, manifest.version)
            if outcome.after is None:
                gone.append(fragment.id)
            else:
                updated.append(replace(fragment, deletion_file=outcome.after))
        if len(updated) + len(gone) < len(self._rows):
            raise self._conflict("removed a fragment that has some of the rows", manifest.version)
        return Delete(tuple(updated), tuple(gone), self._predicate)

    def _delete_from(self, fragment: DataFragment, bases: Bases, version: int) -> _Outcome:
        reader = FragmentReader(fragment, bases)
        rows = self._rows[fragment.id]
        offsets = np.union1d(reader.deletions.offsets, rows)
        if len(offsets) < len(reader.deletions) + len(rows):
            raise self._conflict("deleted or moved some of the rows", version)
        if len(offsets) == reader.num_rows:
            return _Outcome(fragment.deletion_file, None)
        file_type = DeletionFileType.ARROW_ARRAY if len(offsets) <= MAX_ARROW_ROWS else DeletionFileType.BITMAP
        file = DeletionFile(file_type, self._base.version, secrets.randbits(64), len(offsets))
        path = file.path(fragment.id)
        self._written.add(path)
        self._table.store.put(path, DeletionVector(offsets).encode(file_type))
        return _Outcome(fragment.deletion_file, file)

    def _conflict(self, what: str, version: int) -> RetryableConflictError:
        return RetryableConflictError(
            f"another writer {what} that are to be deleted from {self._table.uri}. "
            "Read the new version and run the operation again",
            ours=OperationKind.DELETE.value,
            table_version=version,
        )

    def remove_files(self, but_those_of: Manifest | None = None) -> None:
        """Removes the deletion files that were written, but those that a version names."""
        fragments = () if but_those_of is None else but_those_of.fragments
        kept = {
            fragment.deletion_file.path(fragment.id) for fragment in fragments if fragment.deletion_file is not None
        }
        for path in self._written - kept:
            delete_quietly(self._table.store, path)
