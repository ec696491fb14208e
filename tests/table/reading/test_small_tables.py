"""Tables of one fragment and of a few: the rows that the reference library reads."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import LanceError
from lance_spark.table.reading.selection import FragmentRows


def table(num_rows: int) -> pa.Table:
    rng = np.random.default_rng(num_rows)
    return pa.table(
        {
            "flag": rng.random(num_rows) < 0.5,
            "small": rng.integers(0, 1000, num_rows),
            "nullable": pa.array(rng.random(num_rows), mask=rng.random(num_rows) < 0.1),
            "inner": pa.StructArray.from_arrays([pa.array(rng.integers(0, 9, num_rows))], ["i"]),
        }
    )


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("num_rows", [0, 1, 999, 70_001])
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_one_fragment(num_rows: int, version: str, stable_row_ids: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "x.lance")
    theirs = lance.write_dataset(
        table(num_rows), path, data_storage_version=version, enable_stable_row_ids=stable_row_ids
    )
    ours = lance_spark.open(path)
    for _ in range(2):
        assert ours.to_table().equals(theirs.to_table())
        assert ours.to_table(["small", "flag"]).equals(theirs.to_table(["small", "flag"]))
        assert ours.to_table(with_row_id=True, with_row_address=True).equals(
            theirs.to_table(with_row_id=True, with_row_address=True)
        )


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_few_fragments(version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "x.lance")
    for num_rows in (700, 1, 2000, 33, 90_000, 5, 64, 1000):
        mode = "append" if Path(path).exists() else "create"
        theirs = lance.write_dataset(table(num_rows), path, mode=mode, data_storage_version=version)
        ours = lance_spark.open(path)
        for options in ({}, {"columns": ["small"]}, {"with_row_id": True}):
            assert ours.to_table(**options).equals(theirs.to_table(**options))
    theirs = lance.write_dataset(table(10), path, mode="append", data_storage_version=version)
    assert lance_spark.open(path).to_table().equals(theirs.to_table())


def test_other_tables(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lance")
    lance.write_dataset(table(500), path)
    theirs = lance.dataset(path)
    theirs.delete("small < 300")
    assert lance_spark.open(path).to_table().equals(theirs.to_table())
    theirs = lance.write_dataset(table(700), path, mode="append")
    ours = lance_spark.open(path)
    assert ours.to_table().equals(theirs.to_table())
    assert ours.to_table(filter="small > 800").equals(theirs.to_table(filter="small > 800"))
    texts = str(tmp_path / "texts.lance")
    theirs = lance.write_dataset(pa.table({"t": ["a", "bc"]}), texts)
    assert lance_spark.open(texts).to_table().equals(theirs.to_table())


def test_batches_limits_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.lance"
    theirs = lance.write_dataset(table(5000), str(path))
    ours = lance_spark.open(str(path))
    assert ours.to_table(limit=7, offset=3).equals(theirs.to_table(limit=7, offset=3))
    assert max(map(len, ours.to_table(batch_size=64)["flag"].chunks)) == 64
    [file] = (path / "data").iterdir()
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(LanceError, match=file.name):
        lance_spark.open(str(path)).to_table()


@pytest.mark.parametrize("version", ["2.0", "2.2"])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_fragments_without_selected_rows(version: str, compression: str | None, tmp_path: Path) -> None:
    """Candidates of an index may all have been deleted."""
    path = str(tmp_path / "x.lance")
    metadata = None if compression is None else {"lance-encoding:compression": compression}
    schema = pa.schema([pa.field("a", pa.int64(), metadata=metadata), pa.field("l", pa.list_(pa.int64()))])
    rows = pa.table({"a": range(20), "l": [[number] for number in range(20)]}, schema=schema)
    lance.write_dataset(rows, path, data_storage_version=version, max_rows_per_file=10)
    dataset = lance_spark.open(path).add_columns(pa.field("b", pa.string()))
    nothing, some = np.empty(0, np.int64), np.array([3])
    first, second = dataset.fragments
    selected = [FragmentRows(first, nothing), FragmentRows(second, some), FragmentRows(second, nothing)]
    expected = dataset.take([13])
    assert dataset.plan().read_table(iter(selected)).equals(expected)
    assert dataset.plan().read_table(selected).equals(expected)
    assert dataset.plan().read_table(selected[:1]).num_rows == 0


@pytest.mark.slow
def test_a_list_of_more_items_than_are_picked(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lance")
    num_items = (1 << 24) + 70_000
    lengths = np.array([num_items, *[3] * 99])
    values = pa.array(np.random.default_rng(1).random(int(lengths.sum())) < 0.5)
    lists = pa.LargeListArray.from_arrays(np.append(0, lengths.cumsum()), values).cast(pa.list_(pa.bool_()))
    lance.write_dataset(pa.table({"l": lists}), path, data_storage_version="2.2")
    dataset = lance_spark.open(path)
    assert dataset.take([0])["l"].combine_chunks().equals(lists.slice(0, 1))
    assert dataset.take([1, 99])["l"].combine_chunks().equals(pa.concat_arrays([lists.slice(1, 1), lists.slice(99, 1)]))
    assert dataset.to_table(limit=1)["l"].combine_chunks().equals(lists.slice(0, 1))
