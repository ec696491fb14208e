"""Members of structs in maps change as those of structs do, and the reference library reads the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

VALUE = pa.struct([("f", pa.int32()), ("g", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("m", pa.map_(pa.string(), VALUE)),
        ("k", pa.map_(pa.struct([("a", pa.int32()), ("b", pa.string())]), pa.int64())),
        ("s", pa.struct([("m", pa.map_(pa.string(), VALUE))])),
    ]
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "p": "a", "m": [("x", {"f": 1, "g": "one"})], "k": [({"a": 1, "b": "b"}, 5)], "s": None},
    {"id": 2, "p": "a", "m": None, "k": None, "s": {"m": [("y", {"f": 2, "g": None})]}},
    {"id": 3, "p": "b", "m": [("x", None), ("y", {"f": None, "g": "z"})], "k": [], "s": {"m": None}},
    {"id": 4, "p": "b", "m": [], "k": [({"a": None, "b": None}, None)], "s": {"m": []}},
]


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A table of three versions; the row with the id 4 is deleted."""
    uri = str(tmp_path / "t")
    rows = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    if request.param:
        made: Any = create_partitioned_dataset(uri, SCHEMA, [PartitionBy("p", ("p",), Identity())]).append(rows)
    else:
        lance_spark.write(rows.slice(0, 2), uri, file_format_version="2.2")
        made = lance_spark.open(uri).append(rows.slice(2))
    made.delete("id = 4")
    return lance_spark.open(uri)


def _files(dataset: Any) -> Iterator[Any]:
    """The tables of the reference library that hold the rows."""
    if hasattr(dataset, "open_all"):
        for item in dataset.open_all(dataset.partitions()):
            yield lance.dataset(item.table.store.uri, version=item.manifest.version)
    else:
        yield lance.dataset(dataset.uri)


def rows_of(dataset: Any) -> list[dict[str, Any]]:
    """The rows, which the reference library reads too."""
    newest = lance_spark.open(dataset.uri)
    found = sorted(newest.to_table().to_pylist(), key=lambda row: row["id"])
    reference = [row for files in _files(newest) for row in files.to_table().to_pylist()]
    assert sorted(reference, key=lambda row: row["id"]) == found
    return found


def _changed(change: Any) -> list[dict[str, Any]]:
    """The rows with each struct of the map `m` changed."""
    values = [None if row["m"] is None else [(key, value and change(value)) for key, value in row["m"]] for row in ROWS]
    return [{**row, "m": value} for row, value in zip(ROWS[:3], values, strict=False)]


def test_new_members_are_null(dataset: Any) -> None:
    made = dataset.add_columns(pa.schema([("m", pa.map_(pa.string(), pa.struct([("h", pa.int32())])))]))
    assert made.version == dataset.version + 1
    assert rows_of(dataset) == _changed(lambda value: {**value, "h": None})
    made.add_columns(pa.field("k", pa.map_(pa.struct([("c", pa.int32())]), pa.int64())))
    made = lance_spark.open(dataset.uri).add_columns(
        pa.field("s", pa.struct([("m", pa.map_(pa.string(), pa.struct([("h", pa.int8())])))]))
    )
    assert rows_of(made)[0]["k"] == [({"a": 1, "b": "b", "c": None}, 5)]
    assert rows_of(made)[1]["s"] == {"m": [("y", {"f": 2, "g": None, "h": None})]}


@pytest.mark.parametrize("path", ["m.value.f", "m.entries.value.f"])
def test_members_are_renamed_and_dropped(dataset: Any, path: str) -> None:
    made = dataset.rename_columns({path: "renamed", "k.key.a": "aa"})
    assert [row["m"] for row in rows_of(made)] == [
        row["m"] for row in _changed(lambda value: {"renamed": value["f"], "g": value["g"]})
    ]
    assert rows_of(made)[0]["k"] == [({"aa": 1, "b": "b"}, 5)]
    made = made.drop_columns([path.replace(".f", ".renamed"), "k.key.b"])
    assert [row["m"] for row in rows_of(made)] == [row["m"] for row in _changed(lambda value: {"g": value["g"]})]
    assert rows_of(made)[0]["k"] == [({"aa": 1}, 5)]


def test_renames_and_drops_are_those_of_pylance(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance_spark.write(rows, ours, file_format_version="2.2")
    lance.write_dataset(rows, theirs, data_storage_version="2.2")
    reference = lance.dataset(theirs)
    reference.alter_columns({"path": "m.entries.value.f", "name": "ff"})
    reference.drop_columns(["m.entries.value.g", "k.entries.key.a"])
    lance_spark.open(ours).rename_columns({"m.entries.value.f": "ff"})
    lance_spark.open(ours).drop_columns(["m.entries.value.g", "k.entries.key.a"])
    assert lance_spark.open(ours).to_table() == reference.to_table()


def test_members_are_widened(dataset: Any) -> None:
    made = dataset.alter_column("m.value.f", data_type=pa.int64())
    assert made.schema.field("m").type.item_type.field("f").type == pa.int64()
    assert rows_of(made) == ROWS[:3]
    made = made.alter_column("k.key.a", data_type=pa.int64()).alter_column("s.m.value.f", data_type=pa.int64())
    assert rows_of(made) == ROWS[:3]
    with pytest.raises(InvalidInputError, match=r"'m\.value\.f'.* cannot become"):
        made.alter_column("m.value.f", data_type=pa.int8())


def test_all_members_are_replaced_one_after_the_other(dataset: Any) -> None:
    made = dataset.add_columns(pa.field("m", pa.map_(pa.string(), pa.struct([("h", pa.int32())]))))
    made = made.drop_columns(["m.value.f", "m.value.g"]).rename_columns({"m.value.h": "f"})
    assert rows_of(made) == _changed(lambda _value: {"f": None})
    made = made.alter_column("m.value.f", data_type=pa.int64())
    assert rows_of(made) == _changed(lambda _value: {"f": None})
    made.optimize.compact_files()
    assert rows_of(made) == _changed(lambda _value: {"f": None})


def test_rows_with_more_members_are_appended_in_one_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.Table.from_pylist(ROWS, schema=SCHEMA), uri, file_format_version="2.2")
    wider = pa.map_(pa.string(), pa.struct([*VALUE, ("h", pa.int32())]))
    new = pa.table({"id": [9], "m": pa.array([[("n", {"f": 1, "g": "g", "h": 2})]], wider)})
    made = lance_spark.write(new, uri, mode="append", merge_schema=True)
    assert made.version == 2
    found = rows_of(lance_spark.open(uri))
    assert [row["m"] for row in found[:3]] == [row["m"] for row in _changed(lambda value: {**value, "h": None})]
    assert found[4]["m"] == [("n", {"f": 1, "g": "g", "h": 2})]


def test_what_is_no_member_is_named_as_it_was_written(dataset: Any) -> None:
    with pytest.raises(NotFoundError, match=r"'m\.value\.nope'"):
        dataset.rename_columns({"m.value.nope": "x"})
    with pytest.raises(InvalidInputError, match=r"'m\.value' is no column or field of a struct"):
        dataset.drop_columns(["m.value"])
    with pytest.raises(InvalidInputError, match=r"column 'm\.value\.f' holds nulls"):
        dataset.alter_column("m.value.f", nullable=False)
    assert rows_of(dataset) == ROWS[:3]
