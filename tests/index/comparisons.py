"""Compares answers with an index, without it, and those of the reference library without it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import lance
import pyarrow as pa

import lance_spark

ID = "id"


def ids(table: pa.Table) -> list[int]:
    found: list[int] = sorted(table[ID].to_pylist())
    return found


def check(uri: str, condition: str, *, reference: str | None = None, index: str | None = None) -> list[int]:
    """The ids of the rows that a filter keeps, the same with and without indexes and in the reference library.

    Args:
        reference: the condition as the reference library writes it; "" asks it nothing.
        index: the name of an index that must have answered.
    """
    dataset = lance_spark.open(uri)
    scanned = ids(dataset.to_table(filter=condition, columns=[ID], use_scalar_index=False))
    assert ids(dataset.to_table(filter=condition, columns=[ID])) == scanned, condition
    assert dataset.count_rows(condition) == len(scanned), condition
    if reference != "":
        expected = lance.dataset(uri).to_table(
            filter=reference or condition, columns=[ID], use_scalar_index=False, scan_in_order=True
        )
        assert ids(expected) == scanned, condition
    if index is not None:
        assert f"index: {index} " in dataset.explain(condition), dataset.explain(condition)
    return scanned


def check_all(uri: str, conditions: Iterable[str | tuple[str, str]], index: str | None = None) -> None:
    """`check` of each condition, or pair of it and the reference library's spelling."""
    for condition in conditions:
        ours, reference = condition if isinstance(condition, tuple) else (condition, None)
        check(uri, ours, reference=reference, index=index)


def with_decimals(conditions: Iterable[str]) -> list[tuple[str, str]]:
    """Conditions beside the reference library's spelling, whose plain constants are doubles."""
    return [
        (condition, re.sub(r"-?\d+\.\d\d\b", lambda found: f"CAST({found[0]} AS DECIMAL(12, 2))", condition))
        for condition in conditions
    ]


def write(
    uri: str, columns: dict[str, pa.Array], *, rows_per_file: int = 100, stable_row_ids: bool = False
) -> lance.LanceDataset:
    """A table with a column `id` of the row numbers."""
    num_rows = len(next(iter(columns.values())))
    table = pa.table({ID: pa.array(range(num_rows), pa.int64()), **columns})
    return lance.write_dataset(
        table, uri, mode="overwrite", max_rows_per_file=rows_per_file, enable_stable_row_ids=stable_row_ids
    )


def append(uri: str, columns: dict[str, pa.Array], *, first_id: int) -> None:
    """Adds rows as one more fragment."""
    num_rows = len(next(iter(columns.values())))
    table = pa.table({ID: pa.array(range(first_id, first_id + num_rows), pa.int64()), **columns})
    lance.write_dataset(table, uri, mode="append")


def repeated(values: Sequence[object], num_rows: int, dtype: pa.DataType) -> pa.Array:
    """`num_rows` values that repeat `values`."""
    return pa.array([values[number % len(values)] for number in range(num_rows)], dtype)
