"""Updates of a few columns of many rows: their fragments get new files of these columns, and the rows stay.

Moving a row writes all of its columns again. A new file has the changed columns of all rows of the fragment, and the
others are neither read nor written. So it is cheaper where many rows of a fragment change, and the other columns are
wide. Row ids, addresses and indexes over other columns stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.field import LAST_UPDATED_AT_FIELD, LanceSchema
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.fragment_columns import SelectedFields
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.row_level.update_mode import UPDATE_MODE, RewriteMode
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.filled_columns import (
    BackfilledSplit,
    BackfillPlan,
    column_file_version,
    obstacle_to_filling,
    remove_backfill,
    write_backfill,
)
from lance_spark.table.writing.row_pipeline import RowPipeline

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.table.row_level.write_target import WriteTarget

_LEAST_SAVED_BYTES = 256 << 10
"""Bytes that a new file has to save: each is one more to open for every later read of its fragment."""

_LEAST_TABLE_BYTES = 16 << 20
_LARGEST_SHARE = 0.25
"""The smallest table, and the largest share of the changed columns in its bytes, for which a statement of Spark brings
rows together by their fragments."""


@dataclass(frozen=True, slots=True)
class ColumnUpdate:
    """Columns that get other values in rows that do not move. Travels to the tasks.

    Attributes:
        written: the columns, top-level ones.
        mode: AUTO or COLUMNS.
        job: the write job of the files (`paths.new_job`).
    """

    written: LanceSchema
    mode: RewriteMode
    job: str | None

    @classmethod
    def of(cls, target: WriteTarget[Any], columns: Collection[str], mode: RewriteMode) -> ColumnUpdate | None:
        """An update of some columns of a table; None if all rows that change have to move, or are to.

        Args:
            columns: names of top-level columns.

        Raises:
            UnsupportedFeatureError: `mode` is COLUMNS, and values of these columns cannot change in place.
        """
        if mode is RewriteMode.ROWS:
            return None
        schema = target.lance_schema
        written = LanceSchema(tuple(field for field in schema.fields if field.name in columns), {})
        if not written.fields:
            return None
        obstacle = _obstacle(target, written)
        if obstacle is None:
            return cls(written, mode, target.job)
        if mode is RewriteMode.AUTO:
            return None
        raise UnsupportedFeatureError(
            f"{obstacle}, so the rows have to move; set {UPDATE_MODE} to 'auto'", feature=f"{UPDATE_MODE} = columns"
        )

    def is_worthwhile(self, splits: Sequence[Split] | None) -> bool:
        """Whether a statement that updates many rows is planned for new files of the columns.

        Args:
            splits: all splits of the table; None if they are too many to look at.
        """
        if self.mode is RewriteMode.COLUMNS or splits is None:
            return self.mode is RewriteMode.COLUMNS
        places = [(split, fragment) for split in splits for fragment in split.manifest.fragments]
        if sum(_num_bytes(fragment) for _, fragment in places) < _LEAST_TABLE_BYTES:
            return False
        split, largest = max(places, key=lambda place: _num_bytes(place[1]))
        reader = FragmentReader(largest, split.bases)
        width = sum(reader.columns(SelectedFields(self.written.fields)).encoded_widths)
        return width * reader.num_rows <= _num_bytes(largest) * _LARGEST_SHARE

    def may_save(self, split: Split, fragment: DataFragment) -> bool:
        """Whether a fragment may get a new file of the columns, depending on how many of its rows change."""
        if self.mode is RewriteMode.COLUMNS:
            return True
        if data_format(split.manifest) is FileVersion.V0_1 or LAST_UPDATED_AT_FIELD in fragment.lineage_fields:
            return False
        return _num_bytes(fragment) >= _LEAST_SAVED_BYTES

    def saves(self, split: Split, fragment: DataFragment, num_changed: int) -> bool:
        """Whether a fragment is to get a new file of the columns, if `num_changed` of its rows change."""
        if self.mode is RewriteMode.COLUMNS or not self.may_save(split, fragment):
            return self.mode is RewriteMode.COLUMNS
        reader = FragmentReader(fragment, split.bases)
        width = sum(reader.columns(SelectedFields(self.written.fields)).encoded_widths)
        moved = _num_bytes(fragment) / max(reader.num_rows, 1) * num_changed
        return moved - width * reader.num_rows >= _LEAST_SAVED_BYTES

    def of_split(self, split: Split) -> BackfillPlan:
        """The plan of the files of a split.

        Raises:
            UnsupportedFeatureError: this release cannot write such columns to it.
        """
        file_version = column_file_version(split.manifest, self.written)
        require_writable(self.written, file_version)
        return BackfillPlan(split.manifest.version, split.manifest.schema, self.written, True, file_version, self.job)


class ColumnUpdater:
    """Writes the new files of one task. A context manager: an error inside removes everything that was written.

    Attributes:
        update: the columns, and when they are written; None if no file is.
    """

    def __init__(self, update: ColumnUpdate | None) -> None:
        self.update = update
        self._pipelines: dict[pa.Schema, RowPipeline] = {}
        self._written: list[tuple[Split, BackfilledSplit]] = []

    @property
    def written(self) -> list[BackfilledSplit]:
        """The files so far."""
        return [item for _, item in self._written]

    def write(self, split: Split, fragment: DataFragment, addresses: UInt64Array, rows: pa.Table) -> None:
        """Writes the new file of a fragment.

        Args:
            addresses: uint64[n]: the rows that change, each once, in any order.
            rows: n rows: their new values, in the columns of the update.

        Raises:
            InvalidInputError: a value does not fit its column.
            StorageError: the store failed.
        """
        assert self.update is not None, "columns are written"
        plan = self.update.of_split(split)
        pipeline = self._pipelines.get(rows.schema)
        if pipeline is None:
            pipeline = self._pipelines[rows.schema] = RowPipeline(self.update.written, rows.schema)
        complete = [pipeline(batch) for batch in rows.to_batches()]
        made = pa.Table.from_batches(complete, complete[0].schema if complete else plan.arrow_schema)
        file = write_backfill(split.table.store, split.bases, plan, fragment, addresses, made)
        if file is not None:
            self._written.append((split, BackfilledSplit(split.key, file)))

    def abort(self) -> None:
        """Removes the files."""
        for split, item in self._written:
            remove_backfill(split.table.store, [item.fragment])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self.abort()


def _obstacle(target: WriteTarget[Any], written: LanceSchema) -> str | None:
    """The reason why values of columns cannot change in place; None if there is none."""
    for field in written.fields:
        ids = {node.id for node in field.walk()}
        if not ids.isdisjoint(target.placing_fields):
            return f"rows lie in their partitions by values of column {field.name!r}"
        if has_blobs(field):
            return f"column {field.name!r} has blobs"
    return obstacle_to_filling(target.lance_schema, written.fields)


def _num_bytes(fragment: DataFragment) -> int:
    """The size of the data files; 0 of those whose size is not known."""
    return sum(file.size_bytes or 0 for file in fragment.files)
