"""The open files of one version of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance_spark.encodings.blocks import Int64Array
from lance_spark.storage.overlap import overlapped
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.rows.fragment import DataFragment

MAX_OPEN_BYTES = 64 << 20
"""About what the open fragments of a version take; one of 2,000 columns takes 2 MB for each of its files, and a deleted
row 8 bytes."""

_MAX_OPEN = 64
"""Open fragments of a version."""


class OpenedVersion:
    """Stores and open fragments of a version, shared by all scans of it. Thread safe.

    A `Dataset` has one, which ends with it. A scan that is planned without a dataset, or unpickled in a task, has its
    own: a pickle holds the stores only. When a fragment is opened, the ones that are open the longest are closed until
    `MAX_OPEN_BYTES` are enough for all.

    Attributes:
        bases: the stores of the version's files.
    """

    def __init__(self, bases: Bases) -> None:
        self.bases = bases
        self._readers: dict[int, FragmentReader] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenedVersion, (self.bases,)

    @classmethod
    def of(cls, files: Bases | OpenedVersion) -> OpenedVersion:
        """`files` itself if it is open already."""
        return cls(files) if isinstance(files, Bases) else files

    @property
    def held_bytes(self) -> int:
        """About how much memory the open fragments take."""
        return sum([reader.held_bytes for reader in list(self._readers.values())])

    def reader(self, fragment: DataFragment) -> FragmentReader:
        """A fragment, open for reading."""
        reader = self._readers.get(fragment.id)
        # Old releases wrote versions in which two fragments have one id.
        if reader is not None and (reader.fragment is fragment or reader.fragment == fragment):
            return reader
        reader = FragmentReader(fragment, self.bases)
        # No lock: a process that is forked while another thread holds it would wait for ever.
        self._readers.pop(fragment.id, None)
        for number in list(self._readers):
            if len(self._readers) < _MAX_OPEN and self.held_bytes <= MAX_OPEN_BYTES:
                break
            self._readers.pop(number, None)
        self._readers[fragment.id] = reader
        return reader

    def close(self) -> None:
        """Closes all fragments; they are opened again when they are read."""
        self._readers.clear()

    def live_rows(self, positions: Sequence[tuple[DataFragment, Int64Array]]) -> list[FragmentRows]:
        """The rows at `positions` (int64[n], ascending, distinct) among the rows of fragments that are not deleted.

        Raises:
            NotFoundError: a deletion file is missing.
            CorruptFileError: a deletion file contradicts the format.
        """

        def rows(item: tuple[DataFragment, Int64Array]) -> FragmentRows:
            fragment, live = item
            if fragment.deletion_file is not None:
                live = self.reader(fragment).deletions.offsets_of_live(live)
            return FragmentRows(fragment, live)

        with self.bases.reading():
            return overlapped(rows, positions, self.bases.reads_at_once)
