"""Open fragments of a version: their bound, their owner, and who else has them."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.table.bases import Bases
from lance_spark.table.reading import opened_version
from lance_spark.table.reading.opened_version import OpenedVersion

NUM_FRAGMENTS = 6
BOUND = 1 << 20


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_fragments_of_a_wide_table(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_version, "MAX_OPEN_BYTES", BOUND)
    # Files of more than a MiB, which are not read together.
    wide = pa.table({f"c{number}": np.random.default_rng(number).random(500) for number in range(300)})
    for _ in range(NUM_FRAGMENTS):
        lance.write_dataset(wide, tmp_path / "t", mode="append", data_storage_version=version)
    dataset = lance_spark.open(str(tmp_path / "t"))
    opened = dataset.plan().version
    largest = 0
    for number in range(NUM_FRAGMENTS):
        before = opened.held_bytes
        assert dataset.take([500 * number + 7]).equals(wide.slice(7, 1))
        largest = max(largest, opened.held_bytes - before)
        assert opened.held_bytes <= BOUND + largest
    assert 0 < len(opened._readers) < NUM_FRAGMENTS
    # Fragments that are closed are opened again.
    assert dataset.take([7]).equals(wide.slice(7, 1))


@pytest.mark.slow
def test_the_bytes_of_an_open_fragment_are_about_what_it_takes(tmp_path: Path) -> None:
    table = pa.table({f"c{number}": np.random.default_rng(number).random(20_000) for number in range(200)})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    dataset = lance_spark.open(str(tmp_path / "t"))
    opened = dataset.plan().version
    rows = list(range(0, 20_000, 40))
    dataset.take(rows, columns=["c0"])
    before = opened.held_bytes
    tracemalloc.start()
    try:
        dataset.take(rows)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / 3 < opened.held_bytes - before < taken * 3


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "small")
    lance.write_dataset(pa.table({"id": range(3000)}), uri, max_rows_per_file=1000).delete("id % 10 = 3")
    return uri


def test_all_scans_of_a_dataset_share_its_open_fragments_which_end_with_it(uri: str) -> None:
    dataset = lance_spark.open(uri)
    plan = dataset.plan(["id"], "id > 7")
    assert plan.version is dataset.plan().version is plan.as_decoded.without_filter.version
    reader = plan.version.reader(dataset.fragments[1])
    assert plan.version.reader(dataset.fragments[1]) is reader
    assert plan.version is not lance_spark.open(uri).plan().version
    ended = weakref.ref(reader)
    del dataset, plan, reader
    gc.collect()
    assert ended() is None


def test_a_pickle_holds_no_open_fragment(uri: str) -> None:
    dataset = lance_spark.open(uri)
    plan = dataset.plan(["id"])
    rows = [batch.num_rows for fragment in dataset.fragments for batch in plan.read([fragment])]
    assert plan.version.held_bytes > 0
    copies = pickle.loads(pickle.dumps((plan, plan.as_decoded)))
    assert copies[0].version is copies[1].version
    assert copies[0].version.held_bytes == 0
    assert [batch.num_rows for batch in copies[0].read(dataset.fragments)] == [sum(rows)] == [2700]


def test_two_fragments_with_one_id_are_two(uri: str) -> None:
    dataset = lance_spark.open(uri)
    first, second = dataset.fragments[0], replace(dataset.fragments[1], id=dataset.fragments[0].id)
    version = OpenedVersion(dataset.plan().bases)
    for _ in range(2):
        assert version.reader(first).fragment is first
        assert version.reader(second).fragment is second


def test_live_rows_leave_out_deleted_ones(uri: str) -> None:
    dataset = lance_spark.open(uri)
    version = dataset.plan().version
    rows = version.live_rows([(fragment, np.array([2, 3, 899])) for fragment in dataset.fragments])
    assert [list(item.offsets) for item in rows if item.offsets is not None] == [[2, 4, 999]] * 3
    [file] = [file for file in Path(uri, "_deletions").iterdir() if file.name.startswith("1-")]
    file.write_bytes(b"")
    with pytest.raises(CorruptFileError):
        OpenedVersion(Bases(dataset.location.store)).live_rows([(dataset.fragments[1], np.array([2]))])


def test_threads_share_open_fragments(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_version, "_MAX_OPEN", 2)
    dataset = lance_spark.open(uri)
    plan = dataset.plan(["id"])
    expected = [plan.read_table([fragment]) for fragment in dataset.fragments]

    def read(number: int) -> bool:
        return plan.read_table([dataset.fragments[number % 3]]).equals(expected[number % 3])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))
    assert len(plan.version._readers) <= 2
