"""`to_table` cuts rows into chunks only if it is asked to."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_spark

ROWS = 100_000


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """By the reference library, with deleted rows."""
    folder = str(tmp_path_factory.mktemp("batches") / "t")
    rows = {"n": range(ROWS), "even": [number % 2 == 0 for number in range(ROWS)], "text": map(str, range(ROWS))}
    lance.write_dataset(pa.table({name: list(values) for name, values in rows.items()}), folder).delete("n % 1000 = 7")
    return folder


@pytest.mark.parametrize("filter", [None, "n % 3 = 1", "even AND n < 70000", "n < 0"])
@pytest.mark.parametrize("limit", [None, 0, 5, 20_000])
@pytest.mark.parametrize("columns", [["n", "even", "text"], ["even"], []])
def test_rows_are_the_same_with_and_without_a_batch_size(
    uri: str, filter: str | None, limit: int | None, columns: list[str]
) -> None:
    table = lance_spark.open(uri)
    uncut = table.to_table(columns, filter, limit)
    cut = table.to_table(columns, filter, limit, batch_size=1000)
    assert uncut.equals(cut)
    reference = lance.dataset(uri).to_table(columns, filter=filter, with_row_id=not columns)
    assert uncut.num_rows == min(reference.num_rows, ROWS if limit is None else limit)
    if columns:
        assert uncut.equals(reference.slice(0, uncut.num_rows))


def test_chunks_have_at_most_the_batch_size(uri: str) -> None:
    table = lance_spark.open(uri)
    assert max(map(len, table.to_table(batch_size=1000).column("n").chunks)) <= 1000
    assert max(map(len, table.to_table().column("n").chunks)) > 10_000


def test_kept_rows_are_decoded_in_larger_windows(tmp_path: Path) -> None:
    """80 MB of a fragment at once where all of it stays in memory, in windows of 64 MiB where a filter chooses rows."""
    numbers = pa.array(range(50_000))
    rows = pa.table({f"c{number}": numbers for number in range(200)})
    lance.write_dataset(rows, tmp_path, data_storage_version="2.1")
    table = lance_spark.open(tmp_path)
    assert table.to_table().column("c0").num_chunks == 1
    chosen = table.to_table(filter="c0 >= 0")
    assert chosen.column("c0").num_chunks > 1
    assert chosen.equals(rows)
    assert len(list(table.scan())) > 1


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_rows_of_a_filter_that_keeps_many_are_no_ranges(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(11)
    count = 40_000
    numbers = pa.array(rng.integers(-(2**62), 2**62, count), mask=rng.random(count) < 0.1)
    texts = pa.array([f"text {value}" for value in rng.integers(0, 10**6, count).tolist()])
    table = pa.table({"k": rng.integers(0, 100, count), "v": numbers, "s": texts})
    uri = str(tmp_path / "t")
    lance_spark.write(table, uri, max_rows_per_file=15_000, file_format_version=version)
    dataset = lance_spark.open(uri)

    def refused(*arguments: int) -> int:
        raise AssertionError("ranges were made of bits")

    for share in (30, 50, 97):
        expected = table.filter(pc.less(table["k"], share)).select(["s", "v"])
        with monkeypatch.context() as patched:
            patched.setattr("lance_spark.layouts.row_bits.ranges_of_bits", refused)
            assert dataset.to_table(["s", "v"], filter=f"k < {share}").equals(expected)
