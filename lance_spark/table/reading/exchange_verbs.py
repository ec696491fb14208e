"""Hands the rows of a version to other libraries, for tables of both kinds: pandas, Arrow, DuckDB, notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.reading.blobs.binary_scan import BINARY
from lance_spark.table.reading.read_verbs import ReadVerbs
from lance_spark.table.reading.reference_options import REFUSED_OPTIONS, SEARCH_OPTIONS, known_options

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from lance_spark.expr.nodes import Expr
    from lance_spark.table.reading.arrow_dataset import ArrowDataset
    from lance_spark.table.reading.read_shape import ReadColumns

_READ_OPTIONS = (
    *("batch_size", "with_row_id", "with_row_address", "use_scalar_index", "blob_handling", "allow_external_blobs"),
    *("order_by", *SEARCH_OPTIONS, *REFUSED_OPTIONS),
)


class ExchangeVerbs(ReadVerbs):
    """Reads as the scientific libraries of Python expect it."""

    def scanner(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        use_scalar_index: bool = True,
        blob_handling: str | None = None,
        allow_external_blobs: bool = False,
        order_by: Sequence[Any] | None = None,
        **search: Any,
    ) -> Scanner:
        """A read that has not begun; arguments as `scan`, whose errors come with its schema or its rows.

        Args:
            search: `nearest`, `full_text_query`, `prefilter` and `fast_search`, as `to_table` has them.

        Raises:
            UnsupportedFeatureError: another option of the reference library's reads.
            TypeError: an unknown option.
        """
        chosen = {"columns": columns, "filter": filter, "limit": limit, "offset": offset, "batch_size": batch_size}
        flags = {"with_row_id": with_row_id, "with_row_address": with_row_address, "use_scalar_index": use_scalar_index}
        blobs = {"blob_handling": blob_handling, "allow_external_blobs": allow_external_blobs}
        search = known_options(search, SEARCH_OPTIONS)
        return Scanner(self, {**chosen, **flags, **blobs, "order_by": order_by, **search}, is_search=bool(search))

    def to_batches(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches; arguments and errors as `scanner`."""
        shape = (columns, filter, limit, offset, batch_size, with_row_id, with_row_address)
        return self.scanner(*shape, **options).to_batches()

    def to_pandas(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        limit: int | None = None,
        offset: int | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """The rows as a `pandas.DataFrame`; arguments and errors as `to_table`.

        Args:
            options: of `to_table`, and of `pyarrow.Table.to_pandas`, such as ``types_mapper``.

        Raises:
            UnsupportedFeatureError: pandas is not installed.
        """
        _require("pandas", "to_pandas")
        read = {name: options.pop(name) for name in _READ_OPTIONS if name in options}
        frame: pd.DataFrame = self.to_table(columns, filter, limit, offset, **read).to_pandas(**options)
        return frame

    def to_arrow_dataset(self) -> ArrowDataset:
        """This version as a `pyarrow.dataset.Dataset`, which DuckDB and others give columns and filters to."""
        # Imported here: pyarrow.dataset takes 0.1 s, and most tables are read without it.
        from lance_spark.table.reading.arrow_dataset import ArrowDataset

        return ArrowDataset(self)

    def to_polars(self) -> pl.LazyFrame:
        """This version as a lazy frame of polars, which reads only the columns and rows that a query needs.

        Raises:
            UnsupportedFeatureError: polars is not installed.
        """
        frame: pl.LazyFrame = _require("polars", "to_polars").scan_pyarrow_dataset(self.to_arrow_dataset())
        return frame

    def head(self, num_rows: int = 5, columns: ReadColumns | None = None) -> pa.Table:
        """The first rows in the order of the table; all if it has fewer. Errors as `to_table`.

        Args:
            num_rows: the number of rows.
            columns: as in `scan`.
        """
        return self.to_table(columns, limit=num_rows)

    def sample(
        self, num_rows: int, columns: Sequence[str] | None = None, *, seed: int | None = None, in_order: bool = False
    ) -> pa.Table:
        """Rows drawn at random, none of them twice; all if the table has fewer.

        Args:
            num_rows: the number of rows.
            columns: as in `take`.
            seed: the same rows for the same version; None for others each time.
            in_order: in the order of the table instead of a random one.

        Raises:
            InvalidInputError: a negative number of rows, or a negative seed.
            NotFoundError: no such column.
        """
        if num_rows < 0:
            raise InvalidInputError(f"a sample of {num_rows} rows; ask for 0 or more")
        if seed is not None and seed < 0:
            raise InvalidInputError(f"a seed of {seed}; give 0 or more")
        total = self.count_rows()
        drawn = np.random.default_rng(seed).choice(total, min(num_rows, total), replace=False)
        return self.take((np.sort(drawn) if in_order else drawn).tolist(), columns)

    def __len__(self) -> int:
        return self.count_rows()

    def __bool__(self) -> bool:
        # A table without rows is still a table: `if table:` would count its rows, and take an empty one for none.
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows as an Arrow stream (the Arrow PyCapsule interface), read while the consumer reads."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The columns as a table, for notebooks. Reads no data file."""
        from html import escape

        rows = "".join(
            f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>" for field in self.schema
        )
        return f"<p><code>{escape(repr(self))}</code></p><table><tr><th>column</th><th>type</th></tr>{rows}</table>"


def _require(package: str, verb: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # It is there, and something that it needs is not.
        raise UnsupportedFeatureError(
            f"{verb} needs {package}, which is not installed; pip install {package}", feature=verb
        ) from error


@dataclass(frozen=True)
class Scanner:
    """A read of one version with its arguments.

    Attributes:
        table: what is read.
        arguments: those of `ReadVerbs.scan`, or, of a search, of the table's `to_table`.
        is_search: whether the rows come from a search, all at once.
    """

    table: ReadVerbs
    arguments: Mapping[str, Any]
    is_search: bool = False

    @property
    def with_values(self) -> Scanner:
        """The same read with the bytes of blobs, unless it says what is read of them: for those who write the rows."""
        if self.arguments["blob_handling"] is not None:
            return self
        return replace(self, arguments={**self.arguments, "blob_handling": BINARY})

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that are returned."""
        if self.is_search:
            return self.to_table().schema
        return self.table.to_table(**{**self.arguments, "limit": 0}).schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches."""
        if self.is_search:
            return iter(self.to_table().to_batches(self.arguments["batch_size"]))
        return self.table.scan(**self.arguments)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        if self.is_search:
            return self.to_table().to_reader(self.arguments["batch_size"])
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """The rows in memory."""
        return self.table.to_table(**self.arguments)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a `pandas.DataFrame`; raises as the table's `to_pandas`."""
        _require("pandas", "to_pandas")
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    def count_rows(self) -> int:
        """Number of rows of the result."""
        if not self.is_search and self.arguments["limit"] is None and self.arguments["offset"] is None:
            return self.table.count_rows(self.arguments["filter"])
        return sum(batch.num_rows for batch in self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)
