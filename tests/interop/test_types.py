"""Every type, in both directions between this package and the reference library.

The reference library writes and we read equal; we write and it reads equal, takes, appends and deletes.
"""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from tests.support import arrays
from tests.support.equality import assert_tables_equal

READ_VERSIONS = ("2.0", "2.1", "2.2")
WRITE_VERSIONS = ("2.0", "2.1", "2.2")
ROWS = (0, 1, 1024, 100_000)
NULL_SHARES = (0.0, 0.3, 1.0)


def make(kind: str, rows: int, share: float, version: str) -> pa.Table:
    """A table of all types that file version `version` can hold."""
    if kind == "leaves":
        return arrays.leaves_table(rows, share)
    # Maps came with 2.2; a 2.0 file has no place for the validity of a struct.
    return arrays.nested_table(rows, share, maps=version == "2.2", null_structs=version != "2.0")


def some_indices(rows: int) -> list[int]:
    rng = np.random.default_rng(rows)
    return [] if rows == 0 else [int(i) for i in rng.integers(0, rows, 40)] + [rows - 1, 0]


@pytest.mark.parametrize("kind", ["leaves", "nested"])
@pytest.mark.parametrize("share", NULL_SHARES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("version", READ_VERSIONS)
def test_reads_what_pylance_writes(tmp_path: Path, version: str, rows: int, share: float, kind: str) -> None:
    expected = make(kind, rows, share, version)
    lance.write_dataset(expected, str(tmp_path / "t"), data_storage_version=version)
    dataset = lance_spark.open(str(tmp_path / "t"))
    assert dataset.count_rows() == rows
    assert_tables_equal(dataset.to_table(), expected)
    indices = some_indices(rows)
    assert_tables_equal(dataset.take(indices), expected.take(pa.array(indices, pa.int64())))
    assert_tables_equal(dataset.to_table(limit=10, offset=rows // 2), expected.slice(rows // 2, 10))


@pytest.mark.parametrize("kind", ["leaves", "nested"])
@pytest.mark.parametrize("share", NULL_SHARES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("version", WRITE_VERSIONS)
def test_pylance_reads_what_we_write(tmp_path: Path, version: str, rows: int, share: float, kind: str) -> None:
    expected = make(kind, rows, share, version)
    uri = str(tmp_path / "t")
    lance_spark.write(expected, uri, file_format_version=version)
    reference = lance.dataset(uri)
    reference.validate()
    assert reference.count_rows() == rows
    assert_tables_equal(reference.to_table(), expected)
    indices = some_indices(rows)
    if indices:
        assert_tables_equal(reference.take(indices), expected.take(pa.array(indices, pa.int64())))
    assert_tables_equal(lance_spark.open(uri).to_table(), expected)


@pytest.mark.parametrize("kind", ["leaves", "nested"])
@pytest.mark.parametrize("version", WRITE_VERSIONS)
def test_pylance_appends_and_deletes_on_what_we_wrote(tmp_path: Path, version: str, kind: str) -> None:
    expected = make(kind, 1024, 0.3, version).append_column("key", pa.array(range(1024), pa.int64()))
    uri = str(tmp_path / "t")
    lance_spark.write(expected, uri, file_format_version=version)
    lance.write_dataset(expected, uri, mode="append")
    lance.dataset(uri).delete("key % 3 = 0")
    lance_spark.write(expected, uri, mode="append")
    kept = expected.filter(pa.array([key % 3 != 0 for key in range(1024)]))
    both = pa.concat_tables([kept, kept, expected])
    assert_tables_equal(lance_spark.open(uri).to_table(), both)
    assert_tables_equal(lance.dataset(uri).to_table(), both)
    assert lance_spark.open(uri).count_rows() == both.num_rows


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("inner_nullable", [False, True])
def test_required_members_of_null_structs(tmp_path: Path, version: str, inner_nullable: bool) -> None:
    inner = pa.struct([pa.field("text", pa.string(), nullable=False), pa.field("n", pa.int32(), nullable=False)])
    members = [pa.field("inner", inner, nullable=inner_nullable), pa.field("m", pa.int64(), nullable=False)]
    values = [{"inner": {"text": "x", "n": 1}, "m": 2}, None, {"inner": {"text": "y", "n": 3}, "m": 4}]
    if inner_nullable:
        values.append({"inner": None, "m": 5})
    lists = pa.list_(pa.struct(members))
    expected = pa.table({"s": pa.array(values, pa.struct(members)), "l": pa.array([values] * len(values), lists)})
    uri = str(tmp_path / "t")
    lance_spark.write(expected, uri, file_format_version=version)
    assert lance.dataset(uri).to_table().to_pylist() == expected.to_pylist()
    assert lance_spark.open(uri).to_table().to_pylist() == expected.to_pylist()
    assert lance.dataset(uri).take([1]).to_pylist() == expected.slice(1, 1).to_pylist()
