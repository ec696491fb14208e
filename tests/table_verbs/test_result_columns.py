"""The columns of results: which there are, how they are named, and in which order, beside the reference library."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

COUNT = 20
STRUCT = pa.struct(
    [
        pa.field("x", pa.int64(), metadata={"unit": "m"}),
        ("y", pa.struct([("z", pa.string()), ("w", pa.int32())])),
        ("odd.name", pa.int8()),
    ]
)
STRUCTS = [{"x": i, "y": {"z": str(i), "w": i} if i % 3 else None, "odd.name": i} if i % 5 else None for i in range(20)]
ROWS = pa.table(
    {
        "id": pa.array(range(COUNT), pa.int64()),
        "p": pa.array([i % 2 for i in range(COUNT)], pa.int64()),
        # Scores differ by the length of the text.
        "words": [f"fox {'bird ' * i}" for i in range(COUNT)],
        "st": pa.array(STRUCTS, STRUCT),
        "list": pa.array([[{"a": i, "b": str(i)}] * (i % 3) for i in range(COUNT)]),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * COUNT), pa.float32()), 2),
    }
)
FLAGS: list[dict[str, bool]] = [
    {},
    {"with_row_id": True},
    {"with_row_address": True},
    {"with_row_id": True, "with_row_address": True},
]
PLAIN = [None, [], ["id"], ["_rowid", "id"], ["id", "_rowid", "p"], ["_rowid"], ["_rowaddr", "id", "_rowid"]]
FIELDS = [
    ["st.x"],
    ["st.x", "st"],
    ["st", "st.x"],
    ["st.x", "st.y"],
    ["st.y.z"],
    ["st.y", "st.y.z"],
    ["st.`odd.name`"],
    ["`st`.`x`", "`id`"],
    ["id", "st.x", "_rowid", "p", "st.y.w"],
]
TWICE = [["id", "id"], ["id", "_rowid", "id"], ["_rowid", "_rowid"], ["st.x", "st.x"]]
NEAREST = {"column": "v", "q": [0.0, 0.0], "k": 4}
SEARCHES: dict[str, dict[str, Any]] = {
    "_distance": {"nearest": NEAREST},
    "_score": {"full_text_query": "fox", "limit": 4},
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("columns") / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=8).create_scalar_index("words", "INVERTED")
    return uri


@pytest.fixture(scope="module")
def reference(uri: str) -> Any:
    return lance.dataset(uri)


@pytest.fixture(scope="module")
def table(uri: str) -> Any:
    return lance_spark.open(uri)


@pytest.fixture(scope="module")
def both() -> tuple[Any, Any]:
    """The same rows in a table without partitions and in one with them, which takes no names with dots."""
    fields = [field for field in STRUCT if field.name != "odd.name"]
    structs = pa.array([value and {key: value[key] for key in "xy"} for value in STRUCTS], pa.struct(fields))
    rows = ROWS.set_column(ROWS.column_names.index("st"), "st", structs)
    root = f"memory://columns-{uuid.uuid4().hex}"
    partitioned = create_partitioned_dataset(root, rows.schema, [PartitionBy("p", ("p",), Identity())]).append(rows)
    return lance_spark.write(rows, f"memory://columns-{uuid.uuid4().hex}"), partitioned


def same(own: pa.Table, expected: pa.Table) -> None:
    assert own.schema.equals(expected.schema, check_metadata=True), (own.schema, expected.schema)
    assert own.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "+".join(flags) or "none")
@pytest.mark.parametrize("columns", [*PLAIN, *FIELDS], ids=str)
def test_scans(table: Any, reference: Any, columns: Any, flags: dict[str, bool]) -> None:
    for more in ({}, {"filter": "st.x > 3"}, {"limit": 3, "offset": 1}):
        arguments = {"columns": columns, **flags, **more}
        expected = reference.to_table(**arguments)
        same(table.to_table(**arguments), expected)
        same(table.scanner(**arguments).to_reader().read_all(), expected)
        assert table.scanner(**arguments).projected_schema == expected.schema
        if columns != []:
            same(pa.Table.from_batches(table.to_batches(**arguments)), expected)
            assert list(table.to_pandas(**arguments).columns) == expected.column_names
    fragment = table.get_fragments()[1]
    same(fragment.to_table(columns, **flags), reference.get_fragments()[1].to_table(columns, **flags))
    assert table.head(2, columns).column_names == reference.head(2, columns=columns).column_names


@pytest.mark.parametrize("columns", [*PLAIN, *FIELDS, ["list.item.a", "id"]], ids=str)
def test_takes_give_structs(table: Any, reference: Any, columns: Any) -> None:
    expected = reference.take([3, 1, 1, 19], columns=columns)
    same(table.take([3, 1, 1, 19], columns), expected)
    assert table.sample(2, columns).schema.equals(expected.schema)


@pytest.mark.parametrize("columns", TWICE, ids=str)
def test_a_column_that_is_named_twice_is_refused_by_scans_and_searches(
    table: Any, reference: Any, columns: list[str]
) -> None:
    for search in ({}, *SEARCHES.values()):
        with pytest.raises(ValueError, match="Duplicate column name"):
            reference.to_table(columns, **search)
        with pytest.raises(InvalidInputError, match="is named twice"):
            table.to_table(columns, **search)
    for read in (table.scan, table.head, table.search, table.nearest):
        arguments = {table.head: (2, columns), table.search: ("fox", columns)}.get(read, ())
        named = {} if arguments else {"columns": columns}
        first = ("v", [0.0, 0.0]) if read == table.nearest else arguments
        with pytest.raises(InvalidInputError, match="is named twice"):
            read(*first, **named)
    with pytest.raises(InvalidInputError, match="is named twice"):
        table.to_table(columns, order_by=["id"])
    with pytest.raises(InvalidInputError, match="is named twice"):
        table.hybrid_search("v", [0.0, 0.0], "fox", columns=columns)


def test_a_column_that_is_named_twice_is_taken_once(table: Any, reference: Any) -> None:
    for columns in (["id", "id"], ["st.x", "st.x"], ["id", "_rowid", "id"]):
        same(table.take([2], columns), reference.take([2], columns=columns))


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "+".join(flags) or "none")
@pytest.mark.parametrize("added", SEARCHES)
def test_searches(table: Any, reference: Any, added: str, flags: dict[str, bool]) -> None:
    named = [[added], [added, "id"], ["id", added, "p"], ["id", "_rowid", added], [added, "_rowid", "id"]]
    fields = [["st.x", added], ["st.x", "st"], ["st", added, "st.x", "st.y.w"], ["`id`", "st.`odd.name`"]]
    for columns in [*PLAIN, *named, *fields]:
        expected = reference.to_table(columns, **SEARCHES[added], **flags)
        same(table.to_table(columns, **SEARCHES[added], **flags), expected)
        scanner = table.scanner(columns, **SEARCHES[added], **flags)
        assert scanner.projected_schema.names == expected.column_names
    several = {"nearest": {**NEAREST, "q": [[0.0, 0.0], [9.0, 9.0]]}}
    if added == "_distance":
        for columns in (None, ["id"], ["_distance", "st.x"], ["_rowid", "id"]):
            same(table.to_table(columns, **several, **flags), reference.to_table(columns, **several, **flags))


@pytest.mark.parametrize("columns", [*FIELDS, None, ["_rowid", "id"]], ids=str)
def test_partitioned_tables_give_the_same_columns(both: tuple[Any, Any], columns: Any) -> None:
    if columns == ["st.`odd.name`"]:
        pytest.skip("partitioned tables have no names with dots")
    table, partitioned = both
    for search in ({}, *SEARCHES.values()):
        arguments = {"columns": columns, "with_row_id": True, **search}
        own, expected = partitioned.to_table(**arguments), table.to_table(**arguments)
        assert own.schema == expected.schema
        # Row ids are those within a partition.
        hidden = [name for name in own.column_names if name != "_rowid"]
        pair = (own.select(hidden).to_pylist(), expected.select(hidden).to_pylist())
        assert pair[0] == pair[1] if search else sorted(map(str, pair[0])) == sorted(map(str, pair[1]))
    assert partitioned.take([0, 11], columns).schema == table.take([0, 2], columns).schema


def test_hybrid_searches_have_the_columns_where_they_are_named(both: tuple[Any, Any]) -> None:
    for each in both:
        arguments = ("v", [0.0, 0.0], "fox", 3)
        found = each.hybrid_search(*arguments, columns=["st.x", "_score", "_rowid", "id"], with_row_id=True)
        assert found.column_names == ["st.x", "_score", "id", "_distance", "_relevance_score", "_rowid"]
        everything = each.hybrid_search(*arguments, with_row_id=True)
        assert everything.column_names[-4:] == ["_distance", "_score", "_relevance_score", "_rowid"]
        assert found["id"].to_pylist() == everything["id"].to_pylist()
        assert found["st.x"].to_pylist() == [value and value["x"] for value in everything["st"].to_pylist()]


def test_paths_into_lists_narrow_the_column(table: Any) -> None:
    found = table.to_table(["st.x", "list.item.a", "id"], limit=3)
    assert found.to_pylist() == [
        {"st.x": None, "list": [], "id": 0},
        {"st.x": 1, "list": [{"a": 1}], "id": 1},
        {"st.x": 2, "list": [{"a": 2}, {"a": 2}], "id": 2},
    ]


@pytest.mark.parametrize("column", ["st.nope", "st.odd.name", "`st.x`", "list.a"])
def test_fields_that_are_not_there(table: Any, column: str) -> None:
    for search in ({}, *SEARCHES.values()):
        with pytest.raises(NotFoundError, match="there is no column"):
            table.to_table([column], **search)


def test_an_order_and_a_filter_by_fields_beside_fields(table: Any) -> None:
    found = table.to_table(["st.y.w", "_rowid"], "st.x > 3", 3, order_by=[("st.x", "descending")], with_row_id=True)
    assert found.column_names == ["st.y.w", "_rowid"]
    assert found["st.y.w"].to_pylist() == [19, None, 17]


def test_json_and_blobs_in_structs_are_columns_of_their_types(tmp_path: Path) -> None:
    json = pa.field("j", pa.json_())
    storage = pa.StructArray.from_arrays([pa.array(['{"a": 1}', None], pa.json_())], fields=[json])
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    blobs = pa.StructArray.from_arrays([pa.array([b"bytes", b""], pa.large_binary())], fields=[blob])
    table = lance_spark.write(pa.table({"s": storage, "t": blobs}), tmp_path / "t")
    found = table.to_table(["s.j", "t.b"], blob_handling="all_binary")
    assert found.schema.field("s.j").type == pa.json_()
    assert found["s.j"].to_pylist() == ['{"a":1}', None]
    assert found["t.b"].to_pylist() == [b"bytes", b""]


def test_no_columns_in_the_order_of_one(table: Any) -> None:
    assert table.to_table([], order_by=["id"]).num_rows == COUNT
    assert table.scanner([], order_by=["id"]).projected_schema == pa.schema([])
