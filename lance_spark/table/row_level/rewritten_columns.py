"""New values of columns in rows that do not move: one new data file for each fragment with such rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyroaring

from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.update import Update, UpdateMode
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment, FragmentId

if TYPE_CHECKING:
    from lance_spark.table.writing.filled_columns import BackfilledFragment


class RewrittenColumns:
    """Files with new values of some columns, before they are part of a version.

    Args:
        base: the version that the rows were read from.
        files: the files, one a fragment at most.

    Raises:
        InvalidInputError: two files are for one fragment, or one is for a fragment that is not there.
    """

    def __init__(self, table: TableLocation, base: Manifest, files: Sequence[BackfilledFragment]) -> None:
        self._table = table
        self._base = base
        self._files = {item.fragment_id: item for item in files}
        self._before = {fragment.id: fragment for fragment in base.fragments.with_ids(self._files)} if files else {}
        if len(self._files) < len(files) or len(self._before) < len(self._files):
            raise InvalidInputError("two files have new values for one fragment, or one is for a removed fragment")
        self._fields = frozenset(field_id for item in files for field_id in item.file.fields)

    def __bool__(self) -> bool:
        return bool(self._files)

    def update(
        self,
        manifest: Manifest,
        losing: Sequence[DataFragment],
        removed: tuple[FragmentId, ...],
        new: tuple[DataFragment, ...],
    ) -> Update:
        """The operation with these files for `manifest`, the version that was read or a newer one.

        Args:
            losing: fragments that lose rows, with their new deletion files.
            removed: fragments without a row left.
            new: new fragments.

        Raises:
            RetryableConflictError: another writer has deleted or moved a row that has a new value.
        """
        after = {fragment.id: fragment for fragment in losing}
        current = {fragment.id: fragment for fragment in manifest.fragments.with_ids(self._files)}
        for fragment_id in self._files:
            if fragment_id not in current or self._has_lost_rows(current[fragment_id], manifest):
                raise RetryableConflictError(
                    f"another writer deleted or moved rows of {self._table.uri} that are to be updated. Read the new "
                    "version and run the operation again",
                    own=OperationKind.UPDATE.value,
                    table_version=manifest.version,
                )
            fragment = after.get(fragment_id, current[fragment_id])
            after[fragment_id] = fragment.with_columns_of(self._files[fragment_id].file)
        return Update(
            removed,
            tuple(after.values()),
            new,
            fields_modified=tuple(sorted(self._fields)),
            mode=UpdateMode.REWRITE_COLUMNS,
            updated_offsets={fragment_id: item.rows for fragment_id, item in self._files.items()},
        )

    def _has_lost_rows(self, fragment: DataFragment, manifest: Manifest) -> bool:
        before = self._before[fragment.id]
        if fragment.deletion_file == before.deletion_file:
            return False
        deleted = FragmentReader(fragment, self._table.bases(manifest)).deletions.offsets
        rows = pyroaring.BitMap.deserialize(self._files[fragment.id].rows)
        return bool(rows & pyroaring.BitMap(deleted.tolist()))
