"""Updates and merges of columns of every type, and on branches and clones, re-read by the reference library."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.dataset import Dataset

DAY, NEXT_DAY = datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)
MONEY = [decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [1, None, 3]),
    "u64": (pa.uint64(), [1, 2, None]),
    "f16": (pa.float16(), [np.float16(1.5), None, np.float16(2)]),
    "f32": (pa.float32(), [1.5, None, float("inf")]),
    "dec": (pa.decimal128(10, 2), MONEY),
    "dec256": (pa.decimal256(50, 2), MONEY),
    "text": (pa.string(), ["a", None, ""]),
    "large": (pa.large_string(), ["a", None, ""]),
    "bin": (pa.binary(), [b"a", None, b""]),
    "fixed": (pa.binary(3), [b"abc", None, b"xyz"]),
    "d32": (pa.date32(), [DAY, None, NEXT_DAY]),
    "d64": (pa.date64(), [DAY, None, NEXT_DAY]),
    "ntz": (pa.timestamp("us"), [1, None, 3]),
    "tz": (pa.timestamp("ns", "Europe/Berlin"), [1, None, 3]),
    "clock": (pa.time64("ns"), [1, None, 3]),
    "span": (pa.duration("ms"), [1, None, 3]),
    "flag": (pa.bool_(), [True, None, False]),
    "texts": (pa.list_(pa.string()), [["a", None], None, []]),
    "longs": (pa.large_list(pa.int64()), [[1], None, []]),
    "vector": (pa.list_(pa.float32(), 2), [[1, 2], None, [3, None]]),
    "struct": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int8()))]), [{"x": 1, "y": [1]}, None, {}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], None, []]),
    "dict": (pa.dictionary(pa.int32(), pa.string()), ["a", None, "b"]),
    "lists": (pa.list_(pa.list_(pa.int32())), [[[1], None], None, []]),
    "matrix": (pa.list_(pa.list_(pa.float32(), 2), 2), [[[1, 2], [3, 4]], None, [[1, 2], [3, 4]]]),
}
NULLS = dict.fromkeys(COLUMNS)


def array(type_: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_dictionary(type_):
        return pa.array(values, type_.value_type).dictionary_encode()
    return pa.array(values, type_)


def every_type() -> pa.Table:
    columns = {name: array(type_, values) for name, (type_, values) in COLUMNS.items()}
    return pa.table({"k": [1, 2, 3], **columns})


def check(uri: str, expected: list[dict[str, Any]]) -> None:
    mine = lance_spark.open(uri).to_table().sort_by("k").to_pylist()
    assert repr(mine) == repr(lance.dataset(uri).to_table().sort_by("k").to_pylist())
    assert repr(mine) == repr(expected)


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(every_type(), uri, enable_stable_row_ids=request.param)
    return uri


def test_rows_of_every_type_move(uri: str) -> None:
    one, two, three = every_type().to_pylist()
    lance_spark.open(uri).update({"k": "k + 10"}, "k <> 2")
    check(uri, [two, {**one, "k": 11}, {**three, "k": 13}])
    lance_spark.open(uri).merge(pa.table({"k": [2, 11, 20]}), "k")
    check(uri, [two, {**one, "k": 11}, {**three, "k": 13}, {"k": 20, **NULLS}])
    lance_spark.open(uri).merge(every_type().set_column(0, "k", pa.array([20, 13, 50])), "k")
    check(uri, [two, {**one, "k": 11}, {**two, "k": 13}, {**one, "k": 20}, {**three, "k": 50}])


@pytest.mark.slow
def test_values_of_every_type_are_assigned(uri: str) -> None:
    one, two, _ = every_type().to_pylist()
    for name in COLUMNS:
        lance_spark.open(uri).update({name: None}, "k = 3")
        lance_spark.open(uri).update({name: name}, "k = 3")
    check(uri, [one, two, {"k": 3, **NULLS}])
    for name, (type_, (value, *_)) in COLUMNS.items():
        text = f"'{value}'" if isinstance(value, str) else value
        constant = pa.scalar(value, type_) if pa.types.is_temporal(type_) else text
        lance_spark.open(uri).update({name: constant}, "k = 3")
    check(uri, [one, two, {**one, "k": 3}])


@pytest.mark.parametrize("name", [name for name, (type_, _) in COLUMNS.items() if not pa.types.is_nested(type_)])
def test_keys_of_every_type(tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(every_type(), uri)
    rows = every_type().select([name, "k"]).set_column(1, "k", pa.array([7, 8, 9]))
    lance_spark.open(uri).merge(rows, name)
    # Of three rows one has a null for a key: it stays, and that of the source is inserted.
    null = COLUMNS[name][1].index(None)
    found = lance.dataset(uri).to_table(columns=["k"])["k"].to_pylist()
    assert sorted(found) == [null + 1, 7, 8, 9]


def test_branches_and_clones(tmp_path: Path) -> None:
    uri, clone = str(tmp_path / "t"), str(tmp_path / "c")
    table = pa.table({"a": range(6), "b": ["x"] * 6})
    lance.write_dataset(table, uri, max_rows_per_file=3, enable_stable_row_ids=True)
    lance.dataset(uri).create_branch("side")
    lance.dataset(uri).shallow_clone(clone, 1)
    columns = ["a", "b", "_rowid"]

    def check_both(mine: Callable[[], Dataset], committed: Callable[[], lance.LanceDataset]) -> None:
        mine().update({"b": "'y'"}, "a % 2 = 1")
        mine().merge(pa.table({"a": [0, 1, 9], "b": ["z"] * 3}), "a")
        mine().delete("a = 4")
        found = mine().to_table(columns=columns).sort_by("a").to_pylist()
        assert found == committed().scanner(columns=columns).to_table().sort_by("a").to_pylist()
        assert "".join(f"{row['a']}{row['b']}" for row in found) == "0z1z2x3y5y9z"
        assert [row["_rowid"] for row in found] == [0, 1, 2, 3, 5, 6]

    check_both(
        lambda: lance_spark.open(uri, branch="side"), lambda: lance.dataset(uri).checkout_version(("side", None))
    )
    check_both(lambda: lance_spark.open(clone), lambda: lance.dataset(clone))
    assert lance.dataset(uri).to_table()["b"].to_pylist() == ["x"] * 6
