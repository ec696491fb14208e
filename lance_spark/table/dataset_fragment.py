"""One fragment of a version, read by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.file_version import FileVersion
from lance_spark.table.reading.blobs.binary_scan import BINARY
from lance_spark.table.reading.exchange_verbs import ExchangeVerbs, Scanner
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.read_shape import ReadColumns
from lance_spark.table.rows.fragment import DataFile, DataFragment, DeletionFile

if TYPE_CHECKING:
    import pandas as pd


class DatasetFragment:
    """The rows of one fragment, under the names that the reference library has for its parts and reads.

    Args:
        metadata: the fragment as the manifest describes it.
        reader: reads it.
        rows: the version without its other fragments.
    """

    def __init__(self, metadata: DataFragment, reader: FragmentReader, rows: ExchangeVerbs) -> None:
        self.metadata = metadata
        self._reader = reader
        self._rows = rows

    def __repr__(self) -> str:
        return f"DatasetFragment({self.fragment_id} of {self._rows!r})"

    @property
    def fragment_id(self) -> int:
        """The id, which is unique in the history of the table."""
        return int(self.metadata.id)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._rows.schema

    @property
    def num_deletions(self) -> int:
        """Rows of the data files that are deleted."""
        return len(self._reader.deletions)

    @property
    def physical_rows(self) -> int:
        """Rows of the data files, deleted ones included."""
        return self._reader.num_rows

    def data_files(self) -> list[DataFile]:
        """The data files, each of which holds some of the columns."""
        return list(self.metadata.files)

    def deletion_file(self) -> DeletionFile | None:
        """The file with the deleted rows; None if there are none."""
        return self.metadata.deletion_file

    def count_rows(self, filter: str | Expr | None = None) -> int:
        """Rows that are not deleted, for which the filter is true. Errors as `Dataset.count_rows`."""
        return self._rows.count_rows(filter)

    def scanner(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        **options: Any,
    ) -> Scanner:
        """A read that has not begun. Arguments and errors as `Dataset.scanner`."""
        return self._rows.scanner(columns, filter, **options)

    def to_table(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        **options: Any,
    ) -> pa.Table:
        """The rows in memory. Arguments and errors as `Dataset.to_table`."""
        return self._rows.to_table(columns, filter, **options)

    def to_batches(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches. Arguments and errors as `Dataset.to_batches`."""
        return self._rows.to_batches(columns, filter, **options)

    def to_pandas(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """The rows as a `pandas.DataFrame`. Arguments and errors as `Dataset.to_pandas`."""
        return self._rows.to_pandas(columns, filter, **options)

    def head(self, num_rows: int, columns: ReadColumns | None = None) -> pa.Table:
        """The first rows. Errors as `Dataset.head`."""
        return self._rows.head(num_rows, columns)

    def take(self, indices: Sequence[int], columns: ReadColumns | None = None) -> pa.Table:
        """Rows by their place among those that are not deleted. Errors as `Dataset.take`.

        Blobs of files of 2.0 and 2.1 come as bytes, as the reference library's fragments return them.
        """
        is_old = self._rows.file_version in (FileVersion.V2_0, FileVersion.V2_1)
        return self._rows.take(indices, columns, BINARY if is_old else None)
