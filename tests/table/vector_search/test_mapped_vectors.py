"""Vectors of IVF_FLAT are compared where they lie in a mapped file: results are those of vectors that are read."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

import lance_spark
from lance_spark.file.writer import FileWriter
from lance_spark.index.vector import storage
from lance_spark.index.vector.stored import flat
from lance_spark.index.vector.vector_places import VectorPlaces
from lance_spark.storage.base import ByteRange
from lance_spark.storage.cache import shared
from lance_spark.storage.meter import READS
from lance_spark.storage.registry import open_store
from tests.support.vector_search.old_indexes import make_old, results
from tests.support.vector_search.tables import clustered, vectors, write

ROWS, DIMENSION = 1200, 128

pytestmark = pytest.mark.usefixtures("empty_cache")


def indexed(path: Path, kind: str, metric: str, dtype: str = "f4") -> tuple[str, np.ndarray[Any, Any]]:
    uri = str(path / "t")
    values = clustered(ROWS, DIMENSION, dtype)
    write(uri, vectors(values), max_rows_per_file=500)
    lance.dataset(uri).create_index("v", kind, metric=metric, num_partitions=4)
    make_old(uri)
    return uri, values


@pytest.mark.parametrize(
    ("kind", "metric", "dtype"),
    [
        ("IVF_FLAT", "l2", "f4"),
        ("IVF_FLAT", "cosine", "f4"),
        ("IVF_FLAT", "dot", "f8"),
        ("IVF_FLAT", "l2", "f2"),
        ("IVF_HNSW_FLAT", "l2", "f4"),
    ],
)
def test_results_are_those_of_vectors_that_are_read(
    tmp_path: Path, kind: str, metric: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, values = indexed(tmp_path, kind, metric, dtype)
    queries = values[:200:50] + np.asarray(0.01, values.dtype)
    monkeypatch.setattr(flat, "_MIN_VALUES", 0)
    found = [results(uri, queries, metric) for _ in range(3)]
    shared.clear()
    monkeypatch.setattr(storage, "has_free_etags", lambda store: False)
    expected = [results(uri, queries, metric) for _ in range(3)]
    assert found == expected


def test_vectors_take_no_memory(tmp_path: Path) -> None:
    uri, values = indexed(tmp_path, "IVF_FLAT", "l2")
    dataset = lance_spark.open(uri)
    dataset.nearest("v", values[0], nprobes=1)
    before = shared.num_bytes
    dataset.nearest("v", values[0], nprobes=4)
    assert 0 < shared.num_bytes - before <= ROWS * 8
    dataset.nearest("v", values[0], nprobes=4)
    assert shared.num_bytes - before < values.nbytes // 2


def test_there_are_copies_where_the_vectors_alone_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, values = indexed(tmp_path, "IVF_FLAT", "l2")
    monkeypatch.setattr(flat, "_MIN_VALUES", 0)
    before, made = shared.max_bytes, len(values) * DIMENSION
    shared.resize(values.nbytes)
    try:
        dataset = lance_spark.open(uri)
        first = [dataset.nearest("v", values[0], nprobes=4) for _ in range(3)]
        kept = shared.num_bytes
    finally:
        shared.resize(before)
    assert kept > made
    assert first[0] == first[1] == first[2]


def places_of(folder: Path, pages: list[np.ndarray[Any, Any]], gap: int, shift: int = 0) -> VectorPlaces:
    """A file with pages of vectors `gap` bytes apart, from byte `shift` on, and where they are."""
    content, starts = b"\0" * shift, []
    for page in pages:
        starts.append(len(content))
        content += page.tobytes() + b"\0" * gap
    store = open_store(str(folder))
    store.put("file", content)
    mapped = store.read_ranges("file", [ByteRange(starts[0], len(content) - starts[0])])[0]
    ends = np.cumsum([len(page) for page in pages])
    zeros = np.zeros(len(pages), np.int64)
    return VectorPlaces(store, "file", ends, np.array(starts), zeros, pages[0][0].nbytes, mapped)


def test_an_array_of_rows_of_one_page_is_a_view_and_of_several_a_copy(tmp_path: Path) -> None:
    values = clustered(100, 8, "f4")
    places = places_of(tmp_path, [values[:40], values[40:41], values[41:]], gap=64)
    assert places.is_array(values.dtype)
    for start in (0, 1, 39, 40, 41, 42, 99, 100):
        for stop in (start, 40, 41, 42, 100):
            if start <= stop:
                found, is_view = places.array(start, stop, values.dtype)
                assert np.array_equal(found, values[start:stop])
                assert found.shape == (stop - start, 8)
                page = np.searchsorted([40, 41, 100], [start, max(stop - 1, start)], side="right")
                if start < stop:
                    assert is_view == (page[0] == page[1])


def test_control_words_and_values_at_odd_places_are_no_arrays(tmp_path: Path) -> None:
    values = clustered(20, 8, "f4")
    places = places_of(tmp_path, [values[:10], values[10:]], gap=63)
    assert not places.is_array(values.dtype)
    assert not places_of(tmp_path / "a", [values], gap=0, shift=2).is_array(values.dtype)
    even = places_of(tmp_path / "b", [values], gap=0)
    assert even.is_array(values.dtype)
    words = VectorPlaces(even.store, even.path, even.ends, even.starts, np.ones(1, np.int64), even.width, even.mapped)
    assert not words.is_array(values.dtype)
    unmapped = VectorPlaces(even.store, even.path, even.ends, even.starts, even.control, even.width, None)
    assert not unmapped.is_array(values.dtype)


def test_an_index_with_a_column_of_another_type_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri, values = indexed(tmp_path, "IVF_FLAT", "l2")
    (path,) = Path(uri).glob("_indices/*/auxiliary.idx")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"fixed_size_list:float:128", b"fixed_size_list:int32:128"))
    make_old(uri)
    found = lance_spark.open(uri).nearest("v", values[3], 3, columns=["id"])
    assert found["id"].to_pylist()[0] == 3
    assert "is not used, its rows are scanned" in caplog.text


@pytest.mark.parametrize(("kind", "value_bytes"), [("IVF_FLAT", 4), ("IVF_SQ", 1)])
def test_what_is_read_of_the_mapped_file_is_counted(tmp_path: Path, kind: str, value_bytes: int) -> None:
    uri, values = indexed(tmp_path, kind, "l2")
    counts: list[int] = []
    for nprobes in (1, 1, 4):
        shared.clear()
        before = READS.counts.num_bytes
        lance_spark.open(uri).nearest("v", values[0], columns=["id"], nprobes=nprobes)
        counts.append(READS.counts.num_bytes - before)
    of_vectors = ROWS * DIMENSION * value_bytes
    assert counts[2] >= of_vectors
    # Of the three other partitions.
    assert of_vectors // 10 < counts[2] - counts[1] <= of_vectors + ROWS * 8


def test_copies_stay_while_they_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread can empty the cache meanwhile."""
    uri, values = indexed(tmp_path, "IVF_FLAT", "l2")
    monkeypatch.setattr(flat, "_MIN_VALUES", 0)
    made: list[weakref.ref[Any]] = []
    make, compare = flat.ByteCopy.of, flat.near_by_bytes

    def kept(*arguments: Any) -> flat.ByteCopy:
        copy = make(*arguments)
        made.append(weakref.ref(copy.arrays[0]))
        return copy

    def emptied(*arguments: Any) -> Any:
        shared.clear()
        gc.collect()
        assert all(reference() is not None for reference in made)
        return compare(*arguments)

    monkeypatch.setattr(flat.ByteCopy, "of", kept)
    dataset = lance_spark.open(uri)
    for _ in range(2):
        dataset.nearest("v", values[7], 5, nprobes=4)
    monkeypatch.setattr(flat, "near_by_bytes", emptied)
    assert dataset.nearest("v", values[7], 5, nprobes=4)["id"][0].as_py() == 7
    assert made


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_HNSW_FLAT"])
def test_pages_that_follow_each_other_are_one_array(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the last page, which is written when the others have been for long."""
    monkeypatch.setattr(
        FileWriter.__init__, "__kwdefaults__", {**FileWriter.__init__.__kwdefaults__, "page_bytes": 90 * DIMENSION * 4}
    )
    uri, values = str(tmp_path / "t"), clustered(ROWS, DIMENSION, "f4")
    write(uri, vectors(values))
    lance_spark.open(uri).create_index("v", kind, num_partitions=1 if "HNSW" in kind else 4)
    mapped: list[bool] = []
    array = VectorPlaces.array

    def counted(places: Any, start: int, stop: int, dtype: Any) -> Any:
        found = array(places, start, stop, dtype)
        mapped.append(len(places.ends) > ROWS // 100 and found[1])
        return found

    monkeypatch.setattr(VectorPlaces, "array", counted)
    dataset, query = lance_spark.open(uri), values[5] + np.float32(0.01)
    found = dataset.nearest("v", query, columns=["id"], nprobes=4)
    assert mapped
    assert all(mapped)
    assert found.equals(dataset.nearest("v", query, columns=["id"], use_index=False))
