"""Files with values of columns for rows identified by split and address: what tasks write, for both kinds of table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lance_spark.errors import NotFoundError
from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.backfill import commit_backfill
from lance_spark.table.location import TableLocation
from lance_spark.table.rows.row_address import UInt64Array, split_addresses
from lance_spark.table.source import Split
from lance_spark.table.writing.filled_columns import BackfilledSplit, BackfillPlan, write_backfill
from lance_spark.table.writing.write import remove_job_files


class Backfill(Protocol):
    """The plan of a backfill of a table; it can be pickled."""

    @property
    def written(self) -> LanceSchema:
        """The columns of the files."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows for `BackfillWriter.write`."""

    def opener(self) -> Callable[[str | None], Split]:
        """A function that opens the split with a key, at the version of the row addresses.

        It raises `NotFoundError` if there is none.
        """

    def of_split(self, split: Split) -> BackfillPlan:
        """The plan for one split.

        Raises:
            UnsupportedFeatureError: this release cannot write to it, or not such columns.
        """

    def commit(self, written: Sequence[BackfilledSplit]) -> int:
        """The number of the version with the columns of all files. After an error the files are removed.

        Raises: as `commit_backfill`.
        """

    def remove_files(self) -> None:
        """Removes the files of all tasks, those of killed ones too; no version may name them."""


@dataclass(frozen=True, slots=True)
class PlainBackfill:
    """A backfill of a plain table."""

    location: TableLocation
    plan: BackfillPlan

    @property
    def written(self) -> LanceSchema:
        return self.plan.written

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.plan.arrow_schema

    def opener(self) -> Callable[[str | None], Split]:
        split = Split(self.location, self.location.at(self.plan.base_version).manifest)
        return lambda _key: split

    def of_split(self, split: Split) -> BackfillPlan:
        return self.plan

    def commit(self, written: Sequence[BackfilledSplit]) -> int:
        base = self.location.at(self.plan.base_version).manifest
        return commit_backfill(self.location, base, self.plan, [item.fragment for item in written]).version

    def remove_files(self) -> None:
        if self.plan.job is not None:
            remove_job_files(self.location.store, self.plan.job)


class BackfillWriter:
    """Writes the files of one task. On an error those that it has written stay, for `Backfill.remove_files`."""

    def __init__(self, backfill: Backfill) -> None:
        self._backfill = backfill
        self._open = backfill.opener()
        self._current: tuple[Split, BackfillPlan] | None = None

    def write(self, key: str | None, addresses: UInt64Array, rows: pa.Table | pa.RecordBatch) -> BackfilledSplit | None:
        """The file of a fragment with the values of some rows; None if there are none.

        Args:
            key: of the split.
            addresses: uint64[n]: where the rows are in it, all in one fragment, in any order.
            rows: n rows with the columns of `Backfill.arrow_schema`, by name.

        Raises:
            NotFoundError: there is no such split or fragment.
            InvalidInputError: an address outside of the fragment, one that stands twice, or a value that does
                not fit.
            StorageError: the store failed.
        """
        if not len(addresses):
            return None
        split, plan = self._opened(key)
        number = int(split_addresses(addresses[:1])[0][0])
        fragments = split.manifest.fragments
        place = next((place for place, message in enumerate(fragments.messages) if message.id == number), None)
        if place is None:
            version = split.display_name or f"version {split.manifest.version} of {split.table.uri}"
            raise NotFoundError(f"{version} has no fragment {number}")
        made = write_backfill(split.table.store, split.bases, plan, fragments[place], addresses, rows)
        return None if made is None else BackfilledSplit(key, made)

    def _opened(self, key: str | None) -> tuple[Split, BackfillPlan]:
        # Rows come sorted by their splits, so one is open at a time.
        if self._current is None or self._current[0].key != key:
            split = self._open(key)
            self._current = (split, self._backfill.of_split(split))
        return self._current
