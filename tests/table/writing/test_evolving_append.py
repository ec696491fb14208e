"""Appends that bring columns with them."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.merge import Merge
from lance_spark.table.writing.row_source import RowSource
from tests.support.column_tables import checked, make, named_files, operation_of, rows
from tests.support.harmed_tables import PUT, QUIET, files, with_faults
from tests.support.row_verbs import save

WIDER = pa.table(
    {
        "z": ["p", None],
        "a": [100, 101],
        "s": pa.array([{"w": 2.5, "x": 1}, None], pa.struct([("w", pa.float64()), ("x", pa.int64())])),
        "l": pa.array([[{"n": 4}], None], pa.list_(pa.struct([("n", pa.int8())]))),
    }
)


@pytest.mark.parametrize("kind", ["2.1", "2.2", "stable"])
def test_new_columns_and_members(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path, kind)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    before = lance_spark.open(uri).to_table()
    dataset = lance_spark.write(WIDER, uri, mode="append", merge_schema=True)
    assert dataset.version == 4
    assert isinstance(operation_of(dataset), Merge)
    found = checked(uri).to_table()
    assert found.column_names == ["a", "b", "s", "l", "z"]
    assert found["z"].to_pylist() == [None] * 5 + ["p", None]
    assert found["s"].to_pylist()[5:] == [{"x": 1, "y": None, "w": 2.5}, None]
    assert found["l"].to_pylist()[5:] == [[{"k": None, "m": None, "n": 4}], None]
    assert found["a"].to_pylist() == [*before["a"].to_pylist(), 100, 101]
    columns = ["a", "_rowid", "_rowaddr"]
    reference = lance.dataset(uri)
    assert reference.to_table(columns=columns).equals(dataset.to_table(columns=columns))
    assert reference.to_table(filter="a > 4")["a"].to_pylist() == [5, 100, 101]
    assert dataset.manifest.max_fragment_id == 2
    lance.write_dataset(reference.to_table(), uri, mode="append")
    lance.dataset(uri).delete("z = 'p'")
    lance.dataset(uri).optimize.compact_files()
    assert checked(uri).count_rows() == 12


def test_without_new_columns_it_is_an_append(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.write(rows(7, 9), uri, mode="append", merge_schema=True)
    assert isinstance(operation_of(dataset), Append)
    dataset = lance_spark.write(WIDER, str(tmp_path / "new"), mode="append", merge_schema=True)
    assert dataset.version == 1


def test_it_must_be_asked_for(tmp_path: Path) -> None:
    uri = make(tmp_path)
    with pytest.raises(InvalidInputError, match="'z'"):
        lance_spark.write(WIDER, uri, mode="append")
    with pytest.raises(InvalidInputError):
        lance_spark.write(pa.table({"a": ["text"], "z": [1]}), uri, mode="append", merge_schema=True)
    assert checked(uri).version == 2
    assert len(files(uri)) == 2


@pytest.fixture
def memory() -> str:
    uri = f"memory://evolving-append-{uuid.uuid4().hex}"
    lance_spark.write(rows(), uri, enable_stable_row_ids=True)
    return uri


def test_rows_of_others_in_between(memory: str) -> None:
    def others() -> None:
        lance_spark.write(rows(10, 12), memory, mode="append").delete("a = 3")

    location = with_faults(memory, Fault(PUT, Harm.NONE, run=others))
    save(location, RowSource.of(WIDER), mode="append", options=QUIET, merge_schema=True)
    found = lance_spark.open(memory).to_table(columns=["a", "z", "_rowid"])
    assert found["a"].to_pylist() == [0, 1, 2, 4, 5, 10, 11, 100, 101]
    assert found["_rowid"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert found["z"].to_pylist() == [None] * 7 + ["p", None]
    assert lance_spark.open(memory).manifest.next_row_id == 10


def test_columns_of_others_in_between(memory: str) -> None:
    def others() -> None:
        lance_spark.open(memory).add_columns(pa.field("other", pa.int8()))

    location = with_faults(memory, Fault(PUT, Harm.NONE, run=others))
    with pytest.raises(RetryableConflictError):
        save(location, RowSource.of(WIDER), mode="append", options=QUIET, merge_schema=True)
    assert lance_spark.open(memory).count_rows() == 6
    assert set(files(memory)) == named_files(memory)
