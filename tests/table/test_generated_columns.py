"""Generated columns: rows have the value of the expression, whichever verb writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.schema.generated import GENERATED
from lance_spark.table.dataset import Dataset

DOUBLE = {GENERATED: "id * 2"}


def columns(expression: str = "id * 2", dtype: pa.DataType | None = None) -> pa.Schema:
    made = pa.field("double", dtype or pa.int64(), metadata={GENERATED: expression})
    return pa.schema([pa.field("id", pa.int32()), made, pa.field("label", pa.string())])


def given(*ids: int | None, **others: object) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), **others})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "double": [2, 4], "label": ["a", "b"]}, schema=columns())
    lance_spark.write(rows, str(tmp_path / "t"))
    return str(tmp_path / "t")


def rows_of(uri: str) -> list[tuple[int | None, int | None]]:
    found = lance.dataset(uri).to_table().to_pylist()
    return sorted(((row["id"], row["double"]) for row in found), key=str)


def test_values_are_computed_where_they_are_missing(uri: str) -> None:
    lance_spark.write(given(3, None), uri, mode="append")
    lance_spark.open(uri).merge(given(2, 5), "id")
    assert rows_of(uri) == [(1, 2), (2, 4), (3, 6), (5, 10), (None, None)]
    assert lance.dataset(uri).to_table().schema.names == ["id", "double", "label"]


WRONG: dict[str, Callable[[Dataset], object]] = {
    "append": lambda table: table.append(given(3, double=[7])),
    "null": lambda table: table.append(given(3, double=pa.nulls(1, pa.int64()))),
    "overwrite": lambda table: table.overwrite(
        pa.table({"id": pa.array([3], pa.int32()), "double": [7], "label": ["c"]}, schema=columns())
    ),
    "update of the value": lambda table: table.update({"double": 0}, "id = 1"),
    "update of what it is made of": lambda table: table.update({"id": 7}, "id = 1"),
    "merge": lambda table: table.merge(given(2, double=[5]), "id"),
    "merge of a new row": lambda table: table.merge(given(8, double=[5]), "id"),
}


@pytest.mark.parametrize("write", WRONG.values(), ids=WRONG)
def test_other_values_are_refused(uri: str, write: Callable[[Dataset], object]) -> None:
    with pytest.raises(InvalidInputError, match="another value in the generated column 'double'"):
        write(lance_spark.open(uri))
    assert rows_of(uri) == [(1, 2), (2, 4)]


def test_right_values_are_taken(uri: str) -> None:
    lance_spark.open(uri).append(given(3, double=[6]))
    lance_spark.open(uri).update({"id": 7, "double": 14}, "id = 1")
    lance_spark.open(uri).update({"label": "'x'"})
    lance_spark.open(uri).delete("id = 2")
    lance_spark.open(uri).compact()
    assert rows_of(uri) == [(3, 6), (7, 14)]


def test_columns_it_is_made_of_stay(uri: str) -> None:
    table = lance_spark.open(uri)
    with pytest.raises(InvalidInputError, match="generated column 'double'"):
        table.drop_columns(["id"])
    table.drop_columns(["double"]).drop_columns(["id"])
    assert lance.dataset(uri).schema.names == ["label"]


def test_values_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    lance_spark.write(columns("id * 100", pa.int8()).empty_table(), str(tmp_path))
    lance_spark.write(given(1), str(tmp_path), mode="append")
    with pytest.raises(InvalidInputError, match="does not fit into int8"):
        lance_spark.write(given(2), str(tmp_path), mode="append")
    assert rows_of(str(tmp_path)) == [(1, 100)]


@pytest.mark.parametrize("text", ["reflect('a')", "id +", '"id" * 2', "id -- 2", "(SELECT 1)"])
def test_expressions_that_cannot_be_enforced_stop_writes(tmp_path: Path, text: str) -> None:
    # Other libraries do not know the entry, and write what they like.
    lance.write_dataset(columns(text).empty_table(), str(tmp_path))
    with pytest.raises(UnsupportedFeatureError, match="generated column 'double'"):
        lance_spark.write(given(2), str(tmp_path), mode="append")
    assert lance_spark.open(str(tmp_path)).count_rows() == 0
