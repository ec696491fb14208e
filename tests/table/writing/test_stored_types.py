"""Columns in layouts and types that Lance does not have: their values are written, at every level of nesting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import lance
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.table.writing import row_source

TEXTS = pa.array(["a", "b", None, "a", "longer than twelve bytes"])
NUMBERS = pa.array([1, 1, None, 2, 2])
PLACES = pa.array([0, 1, None, 0, 1], pa.int8())


class Named(pa.ExtensionType):
    def __init__(self, storage: pa.DataType = pa.string_view()) -> None:  # noqa: B008
        super().__init__(storage, "tests.named")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"parameters"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Named:
        return cls(storage_type)


def dictionary(values: Any, ordered: bool = False) -> pa.Array:
    return pa.DictionaryArray.from_arrays(PLACES, values, ordered=ordered)


def views(values: pa.Array, large: bool = False) -> pa.Array:
    """Lists that overlap, in no order; the null has items too."""
    flavour = pa.LargeListViewArray if large else pa.ListViewArray
    bits = pa.int64() if large else pa.int32()
    starts, sizes = pa.array([3, 0, 1, 0, 1], bits), pa.array([2, 1, 3, 0, 4], bits)
    return flavour.from_arrays(starts, sizes, values, mask=pa.array([False, False, True, False, False]))


def runs(values: Any) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 5], pa.int32()), values)


ARRAYS: dict[str, tuple[Callable[[], pa.Array], pa.DataType]] = {
    "texts": (lambda: TEXTS.cast(pa.string_view()), pa.string()),
    "bytes": (lambda: TEXTS.cast(pa.binary()).cast(pa.binary_view()), pa.binary()),
    "list views": (lambda: views(NUMBERS), pa.list_(pa.int64())),
    "large list views": (lambda: views(NUMBERS, True), pa.large_list(pa.int64())),
    "list views of views": (lambda: views(TEXTS.cast(pa.string_view())), pa.list_(pa.string())),
    "list views of dictionaries": (
        lambda: views(dictionary(["x", "y"])),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
    ),
    "list views of list views": (lambda: views(views(NUMBERS)), pa.list_(pa.list_(pa.int64()))),
    "runs": (lambda: pc.run_end_encode(NUMBERS), pa.int64()),
    "runs of texts": (lambda: runs(pa.array(["x", None, "y"], pa.string_view())), pa.string()),
    "runs of dictionaries": (
        lambda: runs(pa.array(["x", None, "x"]).dictionary_encode()),
        pa.dictionary(pa.int32(), pa.string()),
    ),
    "runs of structs": (lambda: runs(pa.array([{"x": 1}, None, {"x": 2}])), pa.struct([("x", pa.int64())])),
    "ordered": (lambda: dictionary(["x", "y"], True), pa.dictionary(pa.int8(), pa.string())),
    "dictionary of views": (
        lambda: dictionary(pa.array(["x", None], pa.string_view())),
        pa.dictionary(pa.int8(), pa.string()),
    ),
    "dictionary of times": (lambda: dictionary(pa.array([5, None], pa.timestamp("us"))), pa.timestamp("us")),
    "dictionary of dates": (lambda: dictionary(pa.array([5, 6], pa.date32())), pa.date32()),
    "dictionary of decimals": (lambda: dictionary(pa.array([5, 6], pa.decimal64(9, 2))), pa.decimal128(9, 2)),
    "dictionary of lists": (lambda: dictionary(pa.array([[1], [2, 3]])), pa.list_(pa.int64())),
    "dictionary of runs": (
        lambda: dictionary(pc.run_end_encode(pa.array(["x", "y"]))),
        pa.dictionary(pa.int8(), pa.string()),
    ),
    "narrow decimals": (lambda: NUMBERS.cast(pa.decimal128(19, 0)).cast(pa.decimal32(9, 0)), pa.decimal128(9, 0)),
    "fixed lists of texts": (
        lambda: pa.array([["a", "b"], None, ["c", None], ["", "e"], ["f", "g"]], pa.list_(pa.string_view(), 2)),
        pa.list_(pa.string()),
    ),
    "lists of size 0": (lambda: pa.array([[], None, [], [], []], pa.list_(pa.int8(), 0)), pa.list_(pa.int8())),
}  # fmt: skip

NESTED: dict[str, Callable[[pa.Array], pa.Array]] = {
    "column": lambda array: array,
    "slice": lambda array: array.slice(1, 3),
    "struct": lambda array: pa.StructArray.from_arrays([array], ["x"], mask=pa.array([False] * 4 + [True])),
    "list": lambda array: pa.ListArray.from_arrays(pa.array([0, 2, 2, 5], pa.int32()), array),
    "slice of lists": lambda array: pa.ListArray.from_arrays(pa.array([0, 2, 2, 5], pa.int32()), array).slice(1),
    "map": lambda array: pa.MapArray.from_arrays(pa.array([0, 2, 2, 5], pa.int32()), list("abcde"), array),
}


@pytest.mark.parametrize("position", NESTED)
@pytest.mark.parametrize("name", ARRAYS)
def test_values_are_written(tmp_path: Path, name: str, position: str) -> None:
    make, expected = ARRAYS[name]
    rows = pa.table({"id": range(len(NESTED[position](make()))), "c": NESTED[position](make())})
    made = lance_spark.write(rows, tmp_path / "t")
    if position in ("column", "slice"):
        assert made.schema.field("c").type == expected
    assert made.to_table().to_pylist() == rows.to_pylist()
    assert lance.dataset(tmp_path / "t").to_table().to_pylist() == rows.to_pylist()
    assert made.append(rows).to_table().to_pylist() == 2 * rows.to_pylist()


@pytest.mark.parametrize("position", NESTED)
def test_extension_keeps_its_name(tmp_path: Path, position: str) -> None:
    array = NESTED[position](pa.ExtensionArray.from_storage(Named(), TEXTS.cast(pa.string_view())))
    made = lance_spark.write(pa.table({"c": array}), tmp_path / "t")
    assert made.to_table()["c"].to_pylist() == array.to_pylist()
    assert any(field.extension_name == "tests.named" for field in made.lance_schema.walk())
    assert lance.dataset(tmp_path / "t").to_table()["c"].to_pylist() == array.to_pylist()


PLAIN = {
    "text": (pa.string(), TEXTS.to_pylist()),
    "large text": (pa.large_string(), TEXTS.to_pylist()),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXTS.to_pylist()),
    "large dictionary": (pa.dictionary(pa.uint16(), pa.large_string()), TEXTS.to_pylist()),
}
GIVEN: dict[str, Callable[[], pa.Array]] = {
    "text": lambda: TEXTS,
    "view": lambda: TEXTS.cast(pa.string_view()),
    "dictionary": TEXTS.dictionary_encode,
    "ordered dictionary": lambda: pa.DictionaryArray.from_arrays(
        TEXTS.dictionary_encode().indices, TEXTS.dictionary_encode().dictionary.cast(pa.string_view()), ordered=True
    ),
    "runs": lambda: pc.run_end_encode(TEXTS),
    "polars": lambda: pa.table(pl.DataFrame({"c": pl.Series(TEXTS.to_pylist(), dtype=pl.Categorical)}))["c"],
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("column", PLAIN)
def test_rows_take_the_layout_of_the_column(tmp_path: Path, column: str, given: str) -> None:
    dtype, values = PLAIN[column]
    new = GIVEN[given]()
    table = lance_spark.write(pa.table({"id": [0], "c": pa.array(["z"], dtype)}), tmp_path / "t")
    rows = pa.table({"id": [1, 2, 3, 4, 5], "c": new})
    for made in (table.append(rows), table.merge(rows, "id"), table.overwrite(rows)):
        assert made.schema == table.schema
        assert made.to_table(filter="id > 0", order_by=["id"])["c"].to_pylist() == values


def test_lists_of_one_size_go_into_columns_of_lists(tmp_path: Path) -> None:
    table = lance_spark.write(pa.table({"c": pa.array([[0.5]], pa.list_(pa.float32()))}), tmp_path / "t")
    given = pa.array([[1, 2], None, [3, None]], pa.list_(pa.float32(), 2))
    assert table.append(pa.table({"c": given})).to_table()["c"].to_pylist()[1:] == given.to_pylist()
    assert table.append(pa.table({"c": given.slice(2)})).to_table()["c"].to_pylist()[-1:] == [[3, None]]
    with pytest.raises(InvalidInputError, match=r"column 'c\.item' has type double, the table has float"):
        table.append(pa.table({"c": given.cast(pa.list_(pa.float64(), 2))}))


def test_dictionary_with_too_many_values_is_refused(tmp_path: Path) -> None:
    narrow = pa.dictionary(pa.int8(), pa.string())
    table = lance_spark.write(pa.table({"c": pa.array(["z"], narrow)}), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="does not fit into the table's types"):
        table.append(pa.table({"c": list(map(str, range(300)))}))
    assert lance_spark.open(tmp_path / "t").to_table()["c"].to_pylist() == ["z"]


def test_large_batches_are_converted_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_source, "_PIECE_ROWS", 3)
    monkeypatch.setattr(row_source, "_PIECE_BYTES", 100)
    rows = pa.table({"id": range(20), "c": pa.array([f"{number:020}" for number in range(20)], pa.string_view())})
    assert lance_spark.write(rows, tmp_path / "t").to_table() == rows.cast(
        pa.schema([("id", pa.int64()), ("c", pa.string())])
    )
    empty = lance_spark.write(rows.slice(0, 0), tmp_path / "empty")
    assert (empty.count_rows(), empty.schema.names) == (0, ["id", "c"])


def test_types_of_the_newest_arrow_format_of_duckdb(tmp_path: Path) -> None:
    connection = duckdb.connect(config={"arrow_output_version": "1.5", "arrow_lossless_conversion": "true"})
    connection.execute("SET produce_arrow_string_view = true; SET arrow_output_list_view = true")
    rows = connection.sql(
        "SELECT range::INT AS id, 'a'::ENUM('a', 'b') AS e, range::DECIMAL(9, 2) AS d, [range, NULL] AS l, "
        "[{'t': 'a text of many bytes', 'b': 'x'::BLOB}] AS s, MAP {'k': [range]} AS m, ['x', 'y']::VARCHAR[2] AS f, "
        "'101'::BIT AS o, NULL::VARCHAR AS n FROM range(5)"
    )
    made = lance_spark.write(rows, tmp_path / "t")
    assert made.to_table().drop_columns(["o"]).to_pylist() == rows.to_arrow_table().drop_columns(["o"]).to_pylist()
    assert made.schema.field("o").type == pa.opaque(pa.binary(), "bit", "DuckDB")
    assert lance.dataset(tmp_path / "t").count_rows() == 5
