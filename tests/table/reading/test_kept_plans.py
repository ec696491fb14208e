"""What a version works out once for all of its reads."""

from __future__ import annotations

import os
import pickle
from datetime import date
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.reader import FileReader
from lance_spark.layouts.page_runs import Leaf
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.cache import shared
from lance_spark.storage.meter import READS
from lance_spark.table.reading import fragment_reader
from lance_spark.table.reading.decoding import single_rows
from lance_spark.table.reading.fragment_reader import FragmentReader


@pytest.fixture
def uri(tmp_path: Path) -> str:
    table = pa.table({"id": np.arange(5000), "i": np.arange(5000) % 7, "s": [f"text {i}" for i in range(5000)]})
    lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=2500, data_storage_version="2.1")
    # Files that were written just now are not kept open.
    for path in (tmp_path / "t" / "data").iterdir():
        os.utime(path, (0, 0))
    return str(tmp_path / "t")


def test_equal_reads_share_a_plan(uri: str) -> None:
    dataset = lance_spark.open(uri)
    plan, _ = dataset._planned(["id", "s"])
    assert dataset._planned(["id", "s"])[0] is plan
    others = [
        dataset._planned(["s", "id"])[0],
        dataset._planned(["id", "s"], "i = 4")[0],
        dataset._planned(["id", "s"], with_row_id=True)[0],
        dataset._planned(["id", "s"], batch_rows=10)[0],
    ]
    assert len({id(other) for other in [plan, *others]}) == 5
    assert lance_spark.open(uri)._planned(["id", "s"])[0] is not plan


def test_kept_plans_are_few_and_rows_the_same(uri: str) -> None:
    dataset, reference = lance_spark.open(uri), lance.dataset(uri)
    for number in range(70):
        some = f"id >= {number * 70} AND id < {number * 70 + 3}"
        assert dataset.to_table(["s", "i"], some).equals(reference.to_table(["s", "i"], some))
        assert dataset._planned(["s"], some, batch_rows=number + 1)[0].batch_rows == number + 1
    assert len(dataset._plans) <= 64
    assert dataset.take([4999, 3, 3, 2500]).equals(reference.take([4999, 3, 3, 2500]))


def test_filters_that_differ_in_constants_give_their_own_rows(uri: str) -> None:
    dataset, reference = lance_spark.open(uri), lance.dataset(uri)
    forms = (
        "i = {0}",
        "3 = i",
        "s = 'text {0}'",
        "id = {0} OR s = 'text 4{0}'",
        "id = {0} AND i = {1}",
        "id IN ({0}, {1}, 4000)",
        "s IN ('text {0}', 'text 77')",
        "s LIKE '%ext {0}{1}%'",
        "contains(s, '{0}{1}')",
        "NOT (i = {1}) AND id < {0}0",
        "id BETWEEN {0} AND {0}7",
        "ID = {0}",
    )
    for first, second in ((3, 1), (5, 5), (6, 0), (3, 1), (999, 2)):
        for form in forms:
            condition = form.format(first, second)
            for columns in (["s"], ["id", "i"]):
                wanted = reference.to_table(columns, condition)
                assert dataset.to_table(columns, condition).equals(wanted), condition
                assert sum(batch.num_rows for batch in dataset.scan(columns, condition)) == wanted.num_rows
    one, other = (dataset._planned(["id"], f"i = {number}")[0] for number in (3, 4))
    assert one is not other
    assert one.as_decoded.filter is one.filter
    assert pickle.loads(pickle.dumps(other)).filter == other.filter


def test_constants_of_each_filter_are_checked(tmp_path: Path) -> None:
    days = pa.array([date(2024, 1, 1), date(2024, 1, 2)])
    dataset = lance_spark.write(pa.table({"d": days, "n": [1, 2]}), str(tmp_path / "t"))
    for day in ("2024-01-01", "2024-01-02"):
        assert dataset.to_table(filter=f"d = '{day}'").column("d").to_pylist() == [date.fromisoformat(day)]
    for condition in ("d = 'no day'", "n = 'x'", "n LIKE 'x%'"):
        with pytest.raises(InvalidInputError):
            dataset.to_table(filter=condition)


def test_a_file_prepares_columns_once(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    init = Leaf.__init__

    def counted(self: Leaf, *arguments: object) -> None:
        made.append(1)
        init(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Leaf, "__init__", counted)
    # Few rows are copied one by one.
    monkeypatch.setattr(single_rows, "MOST_ROWS", 0)
    dataset = lance_spark.open(uri)
    first = dataset.take([1, 2600])
    num_made = len(made)
    assert num_made == 3  # The two fragments are small, so they are read as one.
    one = dataset.take([7])
    assert len(made) == num_made + 3
    for row in (7, 8, 9):
        assert dataset.take([row]).column("id").to_pylist() == [row]
    assert len(made) == num_made + 3
    assert one.num_rows == 1
    assert first.num_rows == 2


def test_fragments_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_file = fragment_reader.open_data_file

    def counted(store: ObjectStore, path: str, **arguments: Any) -> DataFileReader:
        opened.append(path)
        return open_file(store, path, **arguments)

    monkeypatch.setattr(fragment_reader, "open_data_file", counted)
    table = pa.table({"id": np.arange(5000), "s": [f"text {i}" for i in range(5000)]})
    dataset = lance_spark.write(table, str(tmp_path / "t"))
    opened.clear()
    for row in (7, 8, 2499):
        assert dataset.take([row]).column("id").to_pylist() == [row]
        assert dataset.to_table(["s"], f"id = {row}").column("s").to_pylist() == [f"text {row}"]
    assert len(opened) == 1


@pytest.mark.parametrize("condition", ["id = 7", "id = 7 AND s = 'text 7'", "id = 7 OR s = 'text 7'"])
def test_a_lookup_opens_each_file_once(tmp_path: Path, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    # Files that are so large that they are mapped.
    table = pa.table({"id": np.arange(50_000), "s": [f"text {i}" for i in range(50_000)]})
    lance_spark.write(table, uri).create_scalar_index("id", "BTREE").create_scalar_index("s", "BTREE")
    for file in filter(Path.is_file, (tmp_path / "t").rglob("*")):
        # Files that were written just now are not kept open.
        os.utime(file, (0, 0))
    os_open, opened = os.open, list[str]()

    def counted(path: str, *arguments: Any, **options: Any) -> int:
        if str(path).startswith(uri):
            opened.append(path)
        return os_open(path, *arguments, **options)

    shared.clear()
    monkeypatch.setattr(os, "open", counted)
    found = lance_spark.open(uri).to_table(["id", "s"], condition)
    monkeypatch.undo()
    assert found.to_pylist() == [{"id": 7, "s": "text 7"}]
    assert len([path for path in opened if "/data/" in path]) == 1
    assert len(opened) == len(set(opened))


def test_open_fragments_are_those_of_their_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    old = lance_spark.write(pa.table({"id": np.arange(100)}), uri)
    assert old.take([50]).column("id").to_pylist() == [50]
    lance_spark.open(uri).delete("id < 50")
    new = lance_spark.open(uri)
    for _ in range(2):
        assert new.take([0]).column("id").to_pylist() == [50]
        assert old.take([0]).column("id").to_pylist() == [0]
        assert new.count_rows("id >= 0") == 50


def test_tables_of_chunks_are_kept(tmp_path: Path) -> None:
    texts = [f"{number:064x}" for number in np.random.default_rng(0).integers(0, 2**60, 100_000).tolist()]
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"s": texts}), uri, data_storage_version="2.2")
    dataset = lance_spark.open(uri)
    rows = [5, 50_000, 99_999]
    requests = []
    for _ in range(2):
        before = READS.counts
        assert dataset.take(rows).column("s").to_pylist() == [texts[row] for row in rows]
        requests.append((READS.counts - before).requests)
    assert requests[1] < requests[0]
    assert requests[1] <= len(rows)


def test_widths_are_those_of_the_fields(uri: str) -> None:
    dataset = lance_spark.open(uri)
    fields = dataset.lance_schema.fields
    [file] = dataset.fragments[0].files
    reader = FragmentReader(dataset.fragments[0], dataset.plan().bases).open_file(file)
    assert isinstance(reader, FileReader)
    sizes = reader.estimated_bytes(fields, reader.columns)
    columns = reader.encoded_columns()
    assert sizes == [sum(size for page in column.pages for _, size in page.buffers) for column in columns]
    assert reader.estimated_bytes(fields[1:2], reader.columns) == sizes[1:2]
