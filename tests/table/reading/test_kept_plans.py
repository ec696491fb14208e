"""What a version works out once for all of its reads."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.file.reader import FileReader
from lance_spark.layouts.page_runs import Leaf
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
    condition = "i = 3"
    plan, _ = dataset._planned(["id", "s"], condition)
    assert dataset._planned(["id", "s"], condition)[0] is plan
    others = [
        dataset._planned(["s", "id"], condition)[0],
        dataset._planned(["id", "s"], "i = 4")[0],
        dataset._planned(["id", "s"])[0],
        dataset._planned(["id", "s"], condition, with_row_id=True)[0],
        dataset._planned(["id", "s"], condition, batch_rows=10)[0],
    ]
    assert len({id(other) for other in [plan, *others]}) == 6
    assert lance_spark.open(uri)._planned(["id", "s"], condition)[0] is not plan


def test_kept_plans_are_few_and_rows_the_same(uri: str) -> None:
    dataset, reference = lance_spark.open(uri), lance.dataset(uri)
    for number in range(70):
        some = f"id >= {number * 70} AND id < {number * 70 + 3}"
        assert dataset.to_table(["s", "i"], some).equals(reference.to_table(["s", "i"], some))
    assert len(dataset._plans) <= 64
    assert len(dataset._planned(["s", "i"])[0]._filtered) <= 64
    assert dataset.take([4999, 3, 3, 2500]).equals(reference.take([4999, 3, 3, 2500]))


def test_a_file_prepares_columns_once(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    init = Leaf.__init__

    def counted(self: Leaf, *arguments: object) -> None:
        made.append(1)
        init(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Leaf, "__init__", counted)
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
