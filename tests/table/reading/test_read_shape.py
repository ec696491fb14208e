# ruff: noqa: E501
"""Reads with computed columns and in the order of columns: the same rows as the reference library's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import ColumnOrdering

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from tests.partitioned.verbs import save_rows


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """2,000 rows in fragments of 300, some of them deleted, with nulls, NaN and many equal values."""
    random = np.random.default_rng(3)
    count = 2_000

    def column(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if random.random() < 0.1 else value for value in values], type_)

    rows = pa.table(
        {
            "id": pa.array(random.permutation(count), pa.int64()),
            "i": column(random.integers(0, 20, count).tolist(), pa.int32()),
            "x": column(random.choice([0.0, 1.5, -2.5, math.nan, math.inf], count).tolist(), pa.float64()),
            "s": column([f"s{value}" for value in random.integers(0, 50, count)], pa.string()),
            "st": column([{"a": int(value), "b": "b"} for value in random.integers(0, 9, count)], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "l": column([list(range(int(value))) for value in random.integers(0, 4, count)], pa.list_(pa.int32())),
        }
    )  # fmt: skip
    path = str(tmp_path_factory.mktemp("shape") / "rows.lance")
    dataset = lance.write_dataset(rows, path, max_rows_per_file=300)
    dataset.delete("id % 7 = 3")
    dataset.create_scalar_index("i", "BTREE")
    return path


ORDERS = [
    ["id"],
    [ColumnOrdering("id", ascending=False)],
    [ColumnOrdering("i"), ColumnOrdering("id")],
    [ColumnOrdering("i", nulls_first=True), ColumnOrdering("id", ascending=False)],
    [ColumnOrdering("x", ascending=False), ColumnOrdering("id")],
    [ColumnOrdering("x", nulls_first=True), ColumnOrdering("s", ascending=False), ColumnOrdering("id")],
    [ColumnOrdering("s"), ColumnOrdering("i", ascending=False, nulls_first=True), ColumnOrdering("id")],
]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"limit": 7}, {"limit": 50, "offset": 30}, {"offset": 1_700}, {"filter": "i > 10", "limit": 20}, {"filter": "s < 's2'"}, {"filter": "id < 0"}],
    ids=str,
)  # fmt: skip
def test_rows_in_order(uri: str, order: list[Any], options: dict[str, Any]) -> None:
    wanted = lance.dataset(uri).scanner(order_by=order, **options).to_table()
    table = lance_spark.open(uri)
    found = table.to_table(order_by=order, **options)
    assert found.schema.equals(wanted.schema)
    # Not `equals`, for which NaN differs from NaN.
    assert str(found.to_pylist()) == str(wanted.to_pylist())
    ids = wanted["id"].to_pylist()
    assert table.to_table(["s"], order_by=order, **options)["s"].to_pylist() == wanted["s"].to_pylist()
    assert table.to_table(["s"], order_by=order, **options).column_names == ["s"]
    batches = list(table.scanner(["id"], order_by=order, batch_size=64, **options).to_batches())
    assert [id_ for batch in batches for id_ in batch["id"].to_pylist()] == ids
    assert all(0 < batch.num_rows <= 64 for batch in batches)
    assert table.to_pandas(["id"], order_by=order, **options)["id"].tolist() == ids


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2.0, 1.0, None, 3.0], pa.float16()),
        pa.array(["b", "a", None, "c"], pa.dictionary(pa.int8(), pa.string())),
        pa.array([b"b", b"a", None, b"c"], pa.binary(1)),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("limit", [None, 3])
def test_columns_of_types_that_arrow_does_not_sort(tmp_path: Path, values: pa.Array, limit: int | None) -> None:
    table = lance_spark.write(pa.table({"id": [0, 1, 2, 3], "v": values}), tmp_path / "t", max_rows_per_file=2)
    for order in (["v"], ["v", "id"]):
        assert table.to_table(["id"], order_by=order, limit=limit)["id"].to_pylist() == [1, 0, 3, 2][:limit]


def test_other_ways_to_write_an_order(uri: str) -> None:
    table = lance_spark.open(uri)
    wanted = table.to_table(order_by=[ColumnOrdering("i", ascending=False), ColumnOrdering("id")])
    assert table.to_table(order_by=[("i", "descending"), ("ID", "ascending")])["id"].equals(wanted["id"])
    nested = table.to_table(["st.a", "id"], order_by=["st.a", "id"])
    assert nested["st.a"].to_pylist() == table.to_table(["st.a"], order_by=["st.a", "id"])["st.a"].to_pylist()
    values = nested["st.a"].to_pylist()
    assert values == sorted(values, key=lambda value: (value is None, value or 0))


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        (["nope"], NotFoundError, "no column nope"),
        (["l"], InvalidInputError, "whose values have no order"),
        (["i + 1"], InvalidInputError, "is no column"),
        (["_rowid"], InvalidInputError, "cannot be ordered by _rowid"),
        ([3], InvalidInputError, "is no column to order by"),
        ("i", InvalidInputError, "order_by is a list"),
    ],
)
def test_orders_that_are_refused(uri: str, order: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lance_spark.open(uri).to_table(order_by=order)


def test_an_order_by_a_field_of_which_the_result_has_others(uri: str) -> None:
    table = lance_spark.open(uri)
    found = table.to_table(["st.b"], order_by=["st.a", "id"])
    assert found.column_names == ["st.b"]
    assert found["st.b"].to_pylist() == [
        value and value["b"] for value in table.to_table(["st"], order_by=["st.a", "id"])["st"].to_pylist()
    ]


COMPUTED: list[dict[str, str]] = [
    {"y": "i", "z": "i"},
    {"up": "upper(s)", "n": "array_length(l)", "id": "id"},
    {"a": "st.a", "st": "st"},
    {"big": "i > 10", "null": "i IS NULL", "r": "_rowid"},
    {"f": "x * 2"},
]


@pytest.mark.parametrize("columns", COMPUTED, ids=str)
@pytest.mark.parametrize("options", [{}, {"with_row_id": True, "with_row_address": True}, {"filter": "i > 3 AND x > 0", "limit": 9}, {"limit": 5, "offset": 320}], ids=str)  # fmt: skip
def test_computed_columns(uri: str, columns: dict[str, str], options: dict[str, Any]) -> None:
    wanted = lance.dataset(uri).to_table(columns=columns, **options)
    table = lance_spark.open(uri)
    found = table.to_table(columns=columns, **options)
    assert found.column_names == wanted.column_names
    assert str(found.to_pylist()) == str(wanted.to_pylist())
    reader = table.scanner(columns=columns, **options).to_reader()
    assert reader.schema == found.schema
    assert str(reader.read_all().to_pylist()) == str(wanted.to_pylist())


def test_computed_columns_of_positions_fragments_and_ordered_rows(uri: str) -> None:
    table, columns = lance_spark.open(uri), {"t": "id * 2", "s": "s"}
    all_rows = table.to_table(["id", "s"])
    doubled = [value * 2 for value in all_rows["id"].to_pylist()]
    assert table.head(10, columns)["t"].to_pylist() == doubled[:10]
    assert table.take([900, 3, 3], columns)["t"].to_pylist() == [doubled[900], doubled[3], doubled[3]]
    assert table.take([900, 3, 3], columns)["s"].to_pylist() == all_rows["s"].take(pa.array([900, 3, 3])).to_pylist()
    assert [value for part in table.get_fragments() for value in part.to_table(columns)["t"].to_pylist()] == doubled
    assert table.to_table(columns, order_by=[("i", "descending"), "id"]).column_names == ["t", "s"]
    assert table.to_table({}).num_rows == len(doubled)
    assert table.to_table({"one": "1"}, "i IS NULL")["one"].to_pylist() == [1] * table.count_rows("i IS NULL")


def test_computed_columns_that_are_refused(uri: str) -> None:
    table = lance_spark.open(uri)
    with pytest.raises(NotFoundError, match="no column nope"):
        table.to_table({"a": "nope + 1"})
    with pytest.raises(InvalidInputError, match="division by zero"):
        table.to_table({"a": "10 / i"})
    with pytest.raises(InvalidInputError, match="a search returns columns of the table"):
        table.to_table({"a": "i"}, full_text_query="words")
    with pytest.raises(InvalidInputError, match="a search returns columns of the table"):
        table.to_table(order_by=["i"], nearest={"column": "l", "q": [1.0]})


OTHER_LAYOUTS = {
    "words": (pa.array(["b", None, "a", "c", "b", "a"]).dictionary_encode(), [2, 5, 0, 4, 3, 1], [3, 0, 4, 2, 5, 1]),
    "null in the dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1, 0, None], pa.int8()), pa.array(["x", None, "a"])),
        [2, 0, 4, 1, 3, 5],
        [0, 4, 2, 1, 3, 5],
    ),
    "half floats": (
        pa.array([3, None, float("nan"), 1, 2, -1], pa.float32()).cast(pa.float16()),
        [5, 3, 4, 0, 2, 1],
        [2, 0, 4, 3, 5, 1],
    ),
    "dictionary of half floats": (
        pa.DictionaryArray.from_arrays(
            pa.array([0, None, 2, 1, 1, 0], pa.int8()), pa.array([3, 2, -1], pa.float32()).cast(pa.float16())
        ),
        [2, 3, 4, 0, 5, 1],
        [0, 5, 3, 4, 2, 1],
    ),
    "bytes": (pa.array([b"b", b"a", None, b"c", b"d", b"e"], pa.binary(1)), [1, 0, 3, 4, 5, 2], [5, 4, 3, 0, 1, 2]),
}


@pytest.mark.parametrize(("values", "ascending", "descending"), OTHER_LAYOUTS.values(), ids=OTHER_LAYOUTS)
def test_values_of_any_layout_are_ordered(
    tmp_path: Path, values: pa.Array, ascending: list[int], descending: list[int]
) -> None:
    table = lance_spark.write(pa.table({"id": range(6), "c": values}), str(tmp_path / "t"))
    for order, expected in (("ascending", ascending), ("descending", descending)):
        for limit in (None, 3):
            found = table.to_table(columns=["id"], order_by=[("c", order)], limit=limit)
            assert found["id"].to_pylist() == expected[:limit]
    assert table.count_rows("c is null") == table.to_table()["c"].to_pylist().count(None)
    assert table.take([]).schema == table.schema


def test_no_rows_in_order(uri: str) -> None:
    # The reference library panics.
    found = lance_spark.open(uri).to_table(["id"], order_by=["i"], limit=0)
    assert found.schema.names == ["id"]
    assert found.num_rows == 0


def test_partitions_are_ordered_together(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.int32()), ("n", pa.int64()), ("s", pa.string())])
    numbers = [(n * 37) % 90 for n in range(90)]
    rows = pa.table([[n % 3 for n in range(90)], numbers, [str(n) for n in numbers]], schema=schema)
    made = save_rows(create_partitioned(str(tmp_path), schema, [PartitionBy("p", ("p",), Identity())]), rows)
    table = PartitionedDataset.of(made)
    for order, wanted in ((["n"], list(range(90))), ([("n", "descending")], list(range(89, -1, -1)))):
        assert table.to_table(["s"], order_by=order)["s"].to_pylist() == [str(n) for n in wanted]
        assert table.to_table({"m": "n + 1"}, order_by=order, limit=7, offset=2)["m"].to_pylist() == [
            n + 1 for n in wanted[2:9]
        ]
        assert (
            table.to_table(["n"], "n % 2 = 0", order_by=order, limit=3)["n"].to_pylist()
            == [n for n in wanted if n % 2 == 0][:3]
        )


def test_documents_are_computed_in_their_stored_form(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "n": pa.array([(n * 37) % 90 for n in range(90)], pa.int64()),
            "doc": pa.array([f'{{"v": {n}}}' for n in range(90)], pa.json_()),
        }
    )
    table = lance_spark.write(rows, tmp_path / "plain")
    shown = table.to_table({"v": "json_get_int(doc, 'v') + 1", "doc": "doc"}, order_by=[("n", "descending")], limit=3)
    order = sorted(range(90), key=lambda n: -((n * 37) % 90))[:3]
    assert shown["v"].to_pylist() == [n + 1 for n in order]
    assert shown.schema.field("doc").type == rows.schema.field("doc").type


@pytest.mark.parametrize("option", ["batch_readahead", "late_materialization", "include_deleted_rows", "fragments"])
def test_other_options_of_pylance_are_refused(uri: str, option: str) -> None:
    table = lance_spark.open(uri)
    for read in (table.to_table, table.scanner, table.to_batches, table.to_pandas):
        with pytest.raises(UnsupportedFeatureError, match=option):
            read(**{option: 4})
        read(["id"], limit=1, **{option: None})
    with pytest.raises(TypeError, match="no keyword argument 'nonsense'"):
        table.scanner(nonsense=1)
    assert table.scanner(["id"], limit=1, scan_in_order=True).to_table().num_rows == 1
    with pytest.raises(UnsupportedFeatureError, match="scan_in_order"):
        table.to_table(scan_in_order=False)


def test_rows_in_order_with_a_limit_are_read_alone(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns that the order does not need are decoded for the first rows only."""
    from lance_spark.table.reading import read_shape

    seen: list[int] = []
    kept = read_shape.first_rows

    def counted(rows: pa.Table, *arguments: Any) -> pa.Table:
        seen.append(rows.num_rows)
        return kept(rows, *arguments)

    monkeypatch.setattr(read_shape, "first_rows", counted)
    assert lance_spark.open(uri).to_table(order_by=["id"], limit=5).num_rows == 5
    assert seen == [5]
