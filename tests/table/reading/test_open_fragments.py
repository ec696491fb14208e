"""The fragments that stay open have a bound of bytes, which those of wide tables reach before that of their number."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.schema.remembered import Remembered
from lance_spark.table.reading import scan
from lance_spark.table.reading.fragment_reader import FragmentReader

NUM_FRAGMENTS = 6
BOUND = 1 << 20


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> dict[object, tuple[tuple[object, ...], FragmentReader]]:
    """What is kept while the test runs, of at most a MiB."""
    kept: Remembered[FragmentReader] = Remembered(most_bytes=BOUND, size_of=lambda reader: reader.held_bytes)
    monkeypatch.setattr(scan, "_readers", kept)
    return kept._kept  # type: ignore[return-value]


def held(readers: dict[object, tuple[tuple[object, ...], FragmentReader]]) -> int:
    return sum(reader.held_bytes for _, reader in readers.values())


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_fragments_of_a_wide_table(
    version: str, tmp_path: Path, readers: dict[object, tuple[tuple[object, ...], FragmentReader]]
) -> None:
    # Files of more than a MiB, which are not read together.
    wide = pa.table({f"c{number}": np.random.default_rng(number).random(500) for number in range(300)})
    for _ in range(NUM_FRAGMENTS):
        lance.write_dataset(wide, tmp_path / "t", mode="append", data_storage_version=version)
    dataset = lance_spark.open(str(tmp_path / "t"))
    largest = 0
    for number in range(NUM_FRAGMENTS):
        before = held(readers)
        assert dataset.take([500 * number + 7]).equals(wide.slice(7, 1))
        largest = max(largest, held(readers) - before)
        assert held(readers) <= BOUND + largest
    assert 0 < len(readers) < NUM_FRAGMENTS


@pytest.mark.slow
def test_the_bytes_of_an_open_fragment_are_about_what_it_takes(
    tmp_path: Path, readers: dict[object, tuple[tuple[object, ...], FragmentReader]]
) -> None:
    table = pa.table({f"c{number}": np.random.default_rng(number).random(20_000) for number in range(200)})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    dataset = lance_spark.open(str(tmp_path / "t"))
    rows = list(range(0, 20_000, 40))
    dataset.take(rows, columns=["c0"])
    before = held(readers)
    tracemalloc.start()
    try:
        dataset.take(rows)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / 3 < held(readers) - before < taken * 3
