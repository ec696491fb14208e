"""A version of a table as a `pyarrow.dataset.Dataset`, for engines that hand columns and filters down to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pads

from lance_spark.errors import UnsupportedFeatureError


class Scannable(Protocol):
    """A table that makes scanners."""

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
    ) -> Any:
        """A read that has not begun."""


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedFeatureError(
            f"{name} of pyarrow data sets does not work on a table; use the methods of lance_spark's own dataset",
            feature=f"{name} of pyarrow data sets",
        )

    return refuse


class ArrowDataset(pads.Dataset):  # type: ignore[misc]
    """Reads with columns and filters, which are expressions of pyarrow or SQL text; arguments of pyarrow's own readers
    without a meaning here, such as ``use_threads``, have no effect.
    """

    def __init__(self, table: Scannable) -> None:
        # Not the constructor of pyarrow's class, which only its own C++ classes may use.
        self._table = table

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowDataset, (self._table,)

    def __repr__(self) -> str:
        return f"ArrowDataset({self._table!r})"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        schema: pa.Schema = self._table.scanner().projected_schema
        return schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        batch_size: int | None = None,
        **_: Any,
    ) -> Any:
        """A read that has not begun; arguments and errors as `Dataset.scan` of this library."""
        return self._table.scanner(columns, filter, batch_size=batch_size)

    def to_batches(
        self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(columns, filter).to_batches()
        return batches

    def to_table(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> pa.Table:
        """The rows in memory."""
        return self.scanner(columns, filter).to_table()

    def head(self, num_rows: int, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> pa.Table:
        """The first rows."""
        return self._table.scanner(columns, filter, num_rows).to_table()

    def count_rows(self, filter: Any = None, **_: Any) -> int:
        """The number of rows."""
        return int(self._table.scanner(filter=filter).count_rows())

    # Those of pyarrow's class use a C++ object that is not there.
    filter = _refusing("filter")
    get_fragments = _refusing("get_fragments")
    join = _refusing("join")
    join_asof = _refusing("join_asof")
    replace_schema = _refusing("replace_schema")
    sort_by = _refusing("sort_by")
    take = _refusing("take")
    partition_expression = property(_refusing("partition_expression"))
