"""Tables for changes of columns, and what both libraries must say of them."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

import lance_spark
from lance_spark.table.dataset import Dataset
from tests.support.equality import assert_tables_equal

KINDS = {
    "2.0": {"data_storage_version": "2.0"},
    "2.1": {"data_storage_version": "2.1"},
    "2.2": {},
    "stable": {"enable_stable_row_ids": True},
}
"""Arguments of tables that the reference writes."""


def rows(start: int = 0, stop: int = 6, *, null_structs: bool = True) -> pa.Table:
    """Rows with nulls, nested columns and empty lists."""
    numbers = range(start, stop)
    structs = [{"x": i, "y": str(i)} if i % 3 or not null_structs else None for i in numbers]
    lists = [None if i % 4 == 3 else [{"k": j, "m": str(j)} for j in range(i % 3)] for i in numbers]
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "b": pa.array([f"row {i}" if i % 5 else None for i in numbers], pa.string()),
            "s": pa.array(structs, pa.struct([("x", pa.int64()), ("y", pa.string())])),
            "l": pa.array(lists, pa.list_(pa.struct([("k", pa.int64()), ("m", pa.string())]))),
        }
    )


def make(path: Path, kind: str = "2.2") -> str:
    """Two fragments, 0..2 and 3..5, with row 1 deleted; at version 2."""
    uri = str(path / "t")
    table = rows(null_structs=kind != "2.0")
    lance.write_dataset(table, uri, max_rows_per_file=3, **KINDS[kind]).delete("a = 1")
    return uri


def checked(uri: str) -> Dataset:
    """The newest version, after both libraries have said the same of it."""
    ours, reference = lance_spark.open(uri), lance.dataset(uri)
    reference.validate()
    expected = reference.to_table()
    assert ours.version == reference.version
    assert ours.schema == expected.schema
    assert_tables_equal(ours.to_table(), expected)
    assert ours.count_rows() == reference.count_rows() == expected.num_rows
    if expected.num_rows:
        places = [0, expected.num_rows - 1]
        assert_tables_equal(ours.take(places), reference.take(places))
    return ours


def named_files(uri: str) -> set[str]:
    """The data files that some version names."""
    versions = [lance_spark.open(uri, version=entry.version) for entry in lance_spark.open(uri).versions()]
    return {f"data/{file.path}" for item in versions for fragment in item.fragments for file in fragment.files}


def operation_of(dataset: Dataset) -> object:
    """What made the version."""
    found = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert found is not None
    return found.operation
