"""Small pages of file version 2.0 are read together: the same values, and errors that name their file."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.v2_0.column import Column, PagePart
from lance_spark.table.reading.decoding import single_rows
from tests.file.reference_files import open_file

FRAGMENTS, ROWS = 12, 120


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of pages that were read together."""
    seen: list[int] = []
    read = Column._read_together

    def counted(self: Column, run: list[PagePart], *others: object) -> object:
        seen.append(len(run))
        return read(self, run, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(Column, "_read_together", counted)
    return seen


def _fragment(number: int, rng: np.random.Generator) -> pa.Table:
    """Words of another dictionary in each fragment, texts, and values with nulls; in every third all are null."""
    words = [f"{number} {'x' * size}" for size in range(number + 2)]
    no_nulls = np.zeros(ROWS, np.bool_)
    few = rng.random(ROWS) < 0.2
    return pa.table(
        {
            "word": pa.array(rng.choice(words, ROWS).tolist(), mask=few),
            "text": pa.array([f"{value:x}" for value in rng.integers(0, 2**60, ROWS).tolist()], mask=few),
            "bytes": pa.array([b"\xff" * size for size in rng.integers(0, 9, ROWS).tolist()], pa.large_binary()),
            "bool": pa.array(rng.random(ROWS) < 0.5, mask=few),
            "number": pa.array(rng.integers(-99, 99, ROWS), mask=~no_nulls if number % 3 == 0 else no_nulls),
            "list": pa.array([[word] * (place % 3) for place, word in enumerate(rng.choice(words, ROWS).tolist())]),
            "struct": pa.StructArray.from_arrays([pa.array(rng.random(ROWS)), pa.array(few)], ["a", "b"]),
            "vector": pa.FixedSizeListArray.from_arrays(rng.random(ROWS * 2), 2),
        }
    )


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(0)
    path = str(tmp_path_factory.mktemp("together") / "t.lance")
    table = pa.concat_tables([_fragment(number, rng) for number in range(FRAGMENTS)])
    lance.write_dataset(table, path, max_rows_per_file=ROWS, max_rows_per_group=ROWS, data_storage_version="2.0")
    return path


def test_values_equal_pylance(uri: str, runs: list[int]) -> None:
    dataset, reference = lance_spark.open(uri), lance.dataset(uri)
    assert dataset.to_table().equals(reference.to_table())
    assert runs.count(FRAGMENTS) >= 4
    rng = np.random.default_rng(1)
    for size in (2, 30, 900):
        chosen = np.sort(rng.choice(FRAGMENTS * ROWS, size, replace=False)).tolist()
        assert dataset.take(chosen).equals(reference.take(chosen))
    some = "word LIKE '%xxx' OR number > 50"
    assert dataset.to_table(filter=some).equals(reference.to_table(filter=some))


def test_large_pages_are_views(tmp_path: Path, runs: list[int]) -> None:
    table = pa.table({"x": np.arange(40_000)})
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path, max_rows_per_file=10_000, data_storage_version="2.0")
    dataset = lance_spark.open(path)
    assert dataset.to_table().equals(table)
    assert runs == []


def test_single_values_of_large_pages(tmp_path: Path, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    # Few rows are copied one by one.
    monkeypatch.setattr(single_rows, "MOST_ROWS", 0)
    texts = [f"text number {number}" for number in range(40_000)]
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"x": texts}), path, max_rows_per_file=10_000, data_storage_version="2.0")
    wanted = [5, 10_005, 39_999]
    assert lance_spark.open(path).take(wanted)["x"].to_pylist() == [texts[row] for row in wanted]
    assert runs == [3]


def test_code_outside_of_the_dictionary_of_its_page(uri: str, tmp_path: Path, runs: list[int]) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance_spark.open(uri)
    lance.write_dataset(dataset.to_table(["word"]), path, max_rows_per_file=ROWS, data_storage_version="2.0")
    # Of the third fragment: the larger dictionaries of those after it have an item for this code.
    name = lance_spark.open(path).fragments[2].files[0].path
    damaged = Path(path, "data", name)
    [page] = open_file(damaged).encoded_columns()[0].pages
    data = bytearray(damaged.read_bytes())
    data[page.buffers[0].position + 7] = 9
    damaged.write_bytes(data)
    with pytest.raises(CorruptFileError, match="code is larger") as caught:
        lance_spark.open(path).to_table()
    assert name in str(caught.value.path)
    assert FRAGMENTS in runs
