"""The version in which each row of a fragment was created or last updated (`lance.table.RowDatasetVersionSequence`).

Run-length encoded: a number of consecutive rows with one version. Only the length of a run's span is meaningful; its
values are not (after a compaction they are positions in fragments that no longer exist).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from lance_spark._proto import rowids_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.rows.row_ids import Range, check_num_rows, parse_segment


@dataclass(frozen=True, slots=True)
class RowDatasetVersionSequence:
    """The versions of the rows of a fragment.

    Attributes:
        runs: (number of rows, version), in row order.
    """

    runs: tuple[tuple[int, int], ...]

    @classmethod
    def uniform(cls, num_rows: int, version: int) -> RowDatasetVersionSequence:
        """One version for all rows, for new rows."""
        return cls(((num_rows, version),))

    @classmethod
    def of_versions(cls, versions: UInt64Array) -> RowDatasetVersionSequence:
        """The sequence of `versions` (uint64[n]), for the creation versions of rewritten rows."""
        if len(versions) == 0:
            return cls(())
        starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(versions[1:] != versions[:-1]) + 1])
        lengths = np.diff(np.append(starts, len(versions)))
        return cls(tuple(zip(lengths.tolist(), versions[starts].tolist(), strict=True)))

    @classmethod
    def from_bytes(cls, data: bytes, num_rows: int | None = None) -> RowDatasetVersionSequence:
        """The sequence of a fragment of `num_rows` rows (None: unknown).

        Raises:
            CorruptFileError: not a sequence, or its length does not match.
        """
        try:
            message = rowids_pb2.RowDatasetVersionSequence.FromString(data)
        except DecodeError as error:
            raise CorruptFileError(f"not a sequence of row versions: {error}") from error
        sequence = cls(tuple((parse_segment(run.span).num_values, run.version) for run in message.runs))
        check_num_rows(sequence.num_rows, num_rows, "row versions")
        return sequence

    def to_bytes(self) -> bytes:
        message = rowids_pb2.RowDatasetVersionSequence()
        start = 0
        for num_rows, version in self.runs:
            message.runs.add(span=Range(start, start + num_rows).to_proto(), version=version)
            start += num_rows
        return message.SerializeToString(deterministic=True)

    @property
    def num_rows(self) -> int:
        return sum(num_rows for num_rows, _ in self.runs)

    def followed_by(self, num_rows: int, version: int) -> RowDatasetVersionSequence:
        """These rows followed by `num_rows` rows of one version."""
        return RowDatasetVersionSequence((*self.runs, (num_rows, version))) if num_rows else self

    def at(self, rows: Int64Array) -> UInt64Array:
        """uint64[n]: the versions of `rows` (int64[n], each below `num_rows`)."""
        ends = np.cumsum(np.array([num_rows for num_rows, _ in self.runs], np.int64))
        versions = np.array([version for _, version in self.runs], np.uint64)
        return versions[np.searchsorted(ends, rows, side="right")]
