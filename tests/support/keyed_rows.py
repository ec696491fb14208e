"""Rows of a number `a` and a text `b`, and what both libraries read of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lance
import pyarrow as pa

import lance_spark


def rows(*values: int | None, text: str = "row") -> pa.Table:
    """Rows such as ``(7, "row 7")``."""
    return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([f"{text} {value}" for value in values])})


def read_by_both(uri: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """All rows by our reader, in the order of the table; on a local disk the reference library reads the same."""
    names = None if columns is None else list(columns)
    mine = lance_spark.open(uri).to_table(columns=names)
    if "://" not in uri:
        reference = lance.dataset(uri)
        reference.validate()
        assert reference.scanner(columns=names).to_table().to_pylist() == mine.to_pylist()
        assert reference.count_rows() == mine.num_rows == lance_spark.open(uri).count_rows()
    found: list[dict[str, Any]] = mine.to_pylist()
    return found
