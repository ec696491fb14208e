"""Tables of file version 0.1: those of old releases, and those that the reference library still writes."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import UnsupportedFeatureError

GOLDEN = Path(__file__).parents[2] / "golden" / "v0_1"
ROWS = 2500
GROUP_ROWS = 600


def _versions() -> Iterator[tuple[str, int]]:
    for folder in sorted(path for path in GOLDEN.iterdir() if path.is_dir()):
        for manifest in sorted((folder / "_versions").iterdir()):
            # Of this one the reference shows dropped columns: see test_reused_field_ids_read_newest_file.
            if (folder.name, manifest.stem) != ("0.10.5-corrupt_schema", "6"):
                yield folder.name, int(manifest.stem)


@pytest.mark.parametrize(("name", "version"), list(_versions()))
def test_table_of_old_release_reads_as_pylance(name: str, version: int) -> None:
    uri = str(GOLDEN / name)
    expected = lance.dataset(uri, version=version)

    dataset = lance_spark.open(uri, version=version)

    assert dataset.to_table() == expected.to_table()
    assert dataset.count_rows() == expected.count_rows()


def test_reused_field_ids_read_newest_file() -> None:
    # The script of the release added b = x * 4 and c = x * 5; the reference shows the dropped columns x * 3 and -x.
    dataset = lance_spark.open(str(GOLDEN / "0.10.5-corrupt_schema"), version=6)

    expected = {"x": [0, 1, 2, 3], "y": [0, 2, 4, 6], "b": [0, 4, 8, 12], "c": [0, 5, 10, 15]}
    assert dataset.to_table().to_pydict() == expected


def _table() -> pa.Table:
    numbers = range(ROWS)
    start = datetime(2020, 1, 1)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(ROWS * 4, dtype=np.float32)), 4)
    columns = {
        "int": pa.array(numbers, pa.int32()),
        "descending": pa.array([ROWS - i for i in numbers], pa.int64()),
        "nulls": pa.array([None if i % 3 == 0 else i for i in numbers], pa.int16()),
        "bool": pa.array([i % 3 == 0 for i in numbers]),
        "double": pa.array([i / 7 for i in numbers]),
        "text": pa.array([None if i % 7 == 0 else f"v{i}" for i in numbers]),
        "empty text": pa.array(["" if i % 5 == 0 else "x" for i in numbers]),
        "required text": pa.array(["" if i % 5 == 0 else "x" for i in numbers]),
        "large binary": pa.array([b"\0" * (i % 4) for i in numbers], pa.large_binary()),
        "list": pa.array([None if i % 6 == 0 else list(range(i % 5)) for i in numbers], pa.list_(pa.int64())),
        "texts": pa.array([[f"a{j}" for j in range(i % 4)] for i in numbers]),
        "large list": pa.array([[i] * (i % 3) for i in numbers], pa.large_list(pa.int32())),
        "lists": pa.array([[[i], [i, i + 1]][: i % 3] for i in numbers], pa.list_(pa.list_(pa.int32()))),
        "struct": pa.array([{"x": i, "y": {"z": str(i)}} for i in numbers]),
        "structs": pa.array([[{"q": i, "w": "z" * (i % 3)}] * (i % 3) for i in numbers]),
        "vector": vectors,
        "dictionary": pa.array([["red", "green", ""][i % 3] for i in numbers]).dictionary_encode(),
        "decimal": pa.array([decimal.Decimal(i) for i in numbers], pa.decimal128(10, 2)),
        "time": pa.array([start + timedelta(hours=i) for i in numbers], pa.timestamp("us", "UTC")),
        "bytes": pa.array([bytes([i % 256] * 3) for i in numbers], pa.binary(3)),
    }
    required = {"required text"}
    schema = pa.schema([pa.field(name, array.type, name not in required) for name, array in columns.items()])
    return pa.table(columns, schema=schema)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("v0_1") / "t")
    lance.write_dataset(_table(), path, data_storage_version="legacy", max_rows_per_group=GROUP_ROWS)
    return path


@pytest.mark.parametrize("column", _table().column_names)
def test_column_reads_as_pylance(uri: str, column: str) -> None:
    expected = lance.dataset(uri).to_table([f"`{column}`" if " " in column else column])

    read = lance_spark.open(uri).to_table([f"`{column}`"])

    assert read.column(0).type == expected.column(0).type
    assert read.column(0).to_pylist() == expected.column(0).to_pylist()


def test_rows_across_row_groups_are_taken(uri: str) -> None:
    rows = [0, 5, 7, GROUP_ROWS - 1, GROUP_ROWS, 2 * GROUP_ROWS + 1, ROWS - 1]

    read = lance_spark.open(uri).take(rows)

    assert read.to_pylist() == lance.dataset(uri).take(rows).to_pylist()


@pytest.mark.parametrize(
    "condition",
    [
        "int > 1000 AND int < 1300",
        "descending = 7",
        "nulls = 0",
        "nulls IS NULL",
        "NOT (int < 2000)",
        "int < 5 OR descending < 5",
        "time >= TIMESTAMP '2020-03-01 00:00:00+00:00'",
        "text IS NULL AND int > 2000",
        "double > 350.0",
        "`empty text` IS NULL AND int < 20",
    ],
)
def test_filter_keeps_the_rows_of_a_full_scan(uri: str, condition: str) -> None:
    # The reference answers from what is stored, as a filter over the rows in memory does.
    everything = lance.dataset(uri).to_table()
    expected = lance_spark.write(everything.drop_columns(["dictionary"]), f"memory://{abs(hash(condition))}").to_table(
        filter=condition
    )

    read = lance_spark.open(uri).to_table(filter=condition)

    assert read.drop_columns(["dictionary"]).to_pylist() == expected.to_pylist()


def test_statistics_leave_out_row_groups(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lance_spark.layouts.v0_1 import values

    groups: list[int] = []
    read = values._GroupValues.read

    def counted(self: values._GroupValues, field: object, start: int, stop: int) -> object:
        groups.append(self._group)
        return read(self, field, start, stop)  # type: ignore[arg-type]

    monkeypatch.setattr(values._GroupValues, "read", counted)
    lance_spark.open(uri).to_table(["text"], filter="int >= 1900")

    # Rows 1800 to 2399 are row group 3, and the rest is row group 4. Statistics are a group 0 of their own.
    assert {group for group in groups if group} == {3, 4}


def test_columns_in_files_of_their_own_are_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"a": range(5)}), uri, data_storage_version="legacy")
    dataset.add_columns({"b": "a * 2"})
    dataset.delete("a = 3")

    assert lance_spark.open(uri).to_table().to_pydict() == {"a": [0, 1, 2, 4], "b": [0, 2, 4, 8]}


def test_deletes_are_read_by_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(10)}), uri, data_storage_version="legacy")

    lance_spark.open(uri).delete("a < 4")

    assert lance.dataset(uri).to_table().to_pydict() == {"a": [4, 5, 6, 7, 8, 9]}


def test_append_is_refused_in_one_sentence(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1]}), uri, data_storage_version="legacy")

    with pytest.raises(UnsupportedFeatureError, match=r"0\.1 are not written; convert the table with upgrade_files"):
        lance_spark.write(pa.table({"a": [2]}), uri, mode="append")

    assert lance.dataset(uri).to_table().to_pydict() == {"a": [1]}


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_random_tables_read_as_pylance(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    num_rows = data.draw(st.integers(1, 60))

    def column(values: st.SearchStrategy[object], kind: pa.DataType) -> pa.Array:
        return pa.array(data.draw(st.lists(values, min_size=num_rows, max_size=num_rows)), kind)

    text = st.one_of(st.none(), st.text(max_size=5))
    numbers = st.integers(-(2**31), 2**31 - 1)
    table = pa.table(
        {
            "n": column(st.one_of(st.none(), numbers), pa.int64()),
            "b": column(st.booleans(), pa.bool_()),
            "t": column(text, pa.string()),
            "l": column(st.one_of(st.none(), st.lists(text, max_size=4)), pa.list_(pa.string())),
            "s": column(st.fixed_dictionaries({"a": st.lists(numbers, max_size=3), "b": text}), None),
        }
    )
    uri = str(tmp_path_factory.mktemp("random") / "t")
    rows = data.draw(st.integers(1, 40))
    lance.write_dataset(table, uri, data_storage_version="legacy", max_rows_per_group=rows)

    assert lance_spark.open(uri).to_table().to_pylist() == lance.dataset(uri).to_table().to_pylist()
