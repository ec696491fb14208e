"""What write tasks tell the driver."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True)
class LanceCommitMessage(WriterCommitMessage):
    """The fragments that a task wrote, as `lance.table.DataFragment` bytes in row order; none for a task without rows.

    `attempt` is 0 unless an earlier attempt of the task failed.
    """

    fragments: tuple[bytes, ...]
    attempt: int = 0
