"""Rows that a DELETE, UPDATE or MERGE of Spark takes out of a table and puts into it.

Spark evaluates the statement, and its tasks hand over one change a row: which row goes, and what comes instead. Tasks
write the new rows and tell where each was; the driver commits all of it as one version.

What one kind of table does with changes is a `RowChangeJob`; those of a table without partitions are in
`table_row_changes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.table.row_level.read_conflicts import ReadRows

OPERATION = "spark.operation"
"""The transaction property that names the statement; what it counted is in properties beside it."""

_PREFIX = "spark."


class ChangeKind(IntEnum):
    """What a change does; the numbers are those that the connector's jar puts into the first column."""

    DELETE = 0
    UPDATE = 1
    INSERT = 2


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Changes as a task gets them.

    Attributes:
        kinds: int8[n], of `ChangeKind`.
        ids: the columns that rows are known by, n rows; what they hold of an INSERT means nothing.
        rows: what the changes but the DELETEs bring, in order, as Spark hands it over; None if they bring none.
    """

    kinds: npt.NDArray[np.int8]
    ids: pa.RecordBatch
    rows: pa.RecordBatch | None

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> RowChanges:
        """From a batch with columns kind, id and row, where id and row are structs."""
        kinds = batch.column("kind").to_numpy()
        rows = batch.column("row")
        is_kept = kinds != ChangeKind.DELETE
        if not rows.type.num_fields or not is_kept.any():
            return cls(kinds, pa.RecordBatch.from_struct_array(batch.column("id")), None)
        if not is_kept.all():
            rows = rows.filter(pa.array(is_kept))
        return cls(kinds, pa.RecordBatch.from_struct_array(batch.column("id")), pa.RecordBatch.from_struct_array(rows))


class RowChangeJob(ABC):
    """One statement. Small, because every task gets it."""

    @abstractmethod
    def apply(self, changes: Iterable[RowChanges]) -> Any:
        """Writes the rows of one task; what the driver has to know of it, for `commit`. Takes all of `changes`.

        Raises:
            LanceError: nothing of what was written is left.
        """

    @abstractmethod
    def new_fragments(self, output: Any) -> Sequence[bytes]:
        """The fragments that a task has written, as `lance.table.DataFragment` bytes.

        Args:
            output: what `apply` has returned there.
        """

    @abstractmethod
    def commit(
        self, outputs: Sequence[Any], properties: Mapping[str, str], *, repeated: bool, reads: Sequence[ReadRows] = ()
    ) -> int:
        """Makes the changes visible, in one version; how many versions of others came between that and the one that
        was read. If there are no changes there is no version.

        Args:
            outputs: what `apply` has returned in each task that had changes.
            properties: of the transaction.
            repeated: whether a task ran more than once, and may have left files.
            reads: rows of the table that nobody else may have changed since they were read.

        Raises:
            RetryableConflictError: another writer has changed such rows. Nothing is visible, the files are gone.
            CommitConflictError: another writer was first. Nothing of ours is visible, the files are gone.
            CommitStateUnknownError: the store never said; the version may be there, and the files stay.
        """

    @abstractmethod
    def abort(self, outputs: Sequence[Any], *, all_tasks_told: bool) -> None:
        """Removes what the tasks have written.

        Args:
            outputs: of the tasks that came to their end.
            all_tasks_told: whether Spark aborts after a commit that failed, which has decided about the files itself.
        """


def properties_of(statement: str, counts: Mapping[str, int]) -> dict[str, str]:
    """What a transaction remembers of a statement: its kind, and what Spark has counted.

    >>> properties_of("UPDATE", {"numUpdatedRows": 3, "numCopiedRows": -1})
    {'spark.operation': 'UPDATE', 'spark.numUpdatedRows': '3'}
    """
    known = {f"{_PREFIX}{name}": str(count) for name, count in counts.items() if count >= 0}
    return {OPERATION: statement, **known}
