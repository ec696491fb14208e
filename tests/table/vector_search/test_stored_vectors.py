"""Vectors of single rows are read where they are stored, and are those of a scan."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.file.reader import FileReader
from lance_spark.index.vector import vector_places
from lance_spark.layouts.base import EncodedBuffer, EncodedPage
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.vector_search import stored_vectors
from lance_spark.table.vector_search.query import VectorColumn
from lance_spark.table.vector_search.stored_vectors import StoredVectors
from tests.support.index.requests import KeptStore, counted
from tests.support.vector_search.stored_columns import column_of, opened
from tests.support.vector_search.tables import clustered, vectors

ROWS = 2500


def read_each(dataset: Dataset, name: str, dimension: int, dtype: str, rows: np.ndarray[Any, Any]) -> list[Any]:
    """The vectors of the same rows of each fragment, None for null; None for a fragment that has to be scanned."""
    stored = StoredVectors(
        dataset.plan([name]), dataset.manifest, VectorColumn(name, np.dtype(dtype), dimension, False)
    )
    found = stored.read([(fragment, rows) for fragment in dataset.manifest.fragments])
    return [
        None
        if part is None
        else [None if null else row.tolist() for row, null in zip(part.values, part.is_null, strict=True)]
        for part in found
    ]


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("nulls", ["none", "some", "late"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1"])
def test_rows_are_those_of_a_scan(tmp_path: Path, dtype: str, nulls: str, remote: bool) -> None:
    values = column_of(clustered(ROWS, 256, dtype), nulls)
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"v": values}), uri, max_rows_per_file=1300)
    dataset: Dataset = counted(tmp_path / "t", KeptStore)[0] if remote else opened(uri)
    rows = np.array([0, 1, 3, 10, 640, 1199])
    found = read_each(dataset, "v", 256, dtype, rows)
    assert found == [values.take(pa.array(rows + start)).to_pylist() for start in (0, 1300)]
    assert read_each(dataset, "v", 256, dtype, rows[2:3]) == [part[2:3] for part in found]


def test_pages_with_and_without_nulls_in_one_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = column_of(clustered(20_000, 256, "f4"), "late")
    lance_spark.write(pa.table({"v": values}), uri)
    dataset = opened(uri)
    rows = np.arange(0, 20_000, 333)
    assert read_each(dataset, "v", 256, "f4", rows) == [values.take(pa.array(rows)).to_pylist()]
    kept = counted(tmp_path / "t", KeptStore)[0]
    assert read_each(kept, "v", 256, "f4", rows) == [values.take(pa.array(rows)).to_pylist()]
    fragment = dataset.manifest.fragments[0]
    places = stored_vectors._places_of(
        fragment, dataset.plan(["v"]), dataset.plan(["v"]).schema.fields[0].id, 256, 1024
    )
    assert places is not None
    assert len(places.ends) > 1
    assert len(set(places.control.tolist())) == 2


def test_a_vector_in_a_struct_that_can_be_null(tmp_path: Path) -> None:
    inner = column_of(clustered(600, 128, "f4"), "some")
    mask = pa.array(np.arange(600) % 5 == 0)
    both = pa.StructArray.from_arrays([inner, pa.array(range(600))], names=["v", "n"], mask=mask)
    lance.write_dataset(pa.table({"s": both}), str(tmp_path / "t"))
    rows = np.arange(40)
    found = read_each(opened(str(tmp_path / "t")), "s.v", 128, "f4", rows)
    expected = [None if row is None else row["v"] for row in both.to_pylist()]
    assert found == [expected[:40]]


@pytest.mark.parametrize(
    ("version", "dimension"), [("2.0", 128), ("2.2", 8)], ids=["old version", "short vectors in chunks"]
)
def test_other_pages_are_left_to_the_scan(tmp_path: Path, version: Any, dimension: int) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"v": vectors(clustered(300, dimension, "f4"))}), uri, data_storage_version=version)
    assert read_each(opened(uri), "v", dimension, "f4", np.arange(3)) == [None]
    assert opened(uri).nearest("v", np.zeros(dimension), 3).num_rows == 3


def test_a_page_that_contradicts_itself_is_left_to_the_scan(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"v": vectors(clustered(300, 128, "f4"))}), uri)
    plan: Scan = opened(uri).plan(["v"])
    fragment = opened(uri).manifest.fragments[0]
    reader = FragmentReader(fragment, plan.bases).open_file(fragment.files[0])
    assert isinstance(reader, FileReader)
    page = reader.encoded_columns()[0].pages[0]
    assert vector_places.control_bytes(page, 128, 512) == 0
    assert vector_places.control_bytes(page, 64, 256) is None
    (buffer,) = page.buffers
    for buffers in ((), (EncodedBuffer(buffer.position, buffer.size - 1),)):
        broken = EncodedPage(buffers, page.num_rows, page.first_row, page.type_url, page.message)
        assert vector_places.control_bytes(broken, 128, 512) is None


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("condition", [None, "id % 3 = 1"])
@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_searches_scan_no_candidate(
    tmp_path: Path, kind: str, condition: str | None, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    values = clustered(ROWS, 128, "f4")
    table = pa.table({"id": range(ROWS), "v": column_of(values, "some")})
    lance.write_dataset(table, uri, max_rows_per_file=700, enable_stable_row_ids=stable)
    options: dict[str, Any] = {"num_sub_vectors": 16} if kind == "IVF_PQ" else {}
    opened(uri).create_index("v", kind, num_partitions=4, **options)
    lance.dataset(uri).delete("id % 10 = 4")
    monkeypatch.setattr("lance_spark.table.vector_search.indexed._MAX_FILTERED_ROWS", 0)
    dataset = opened(uri)
    batch = values[:9] + np.float32(0.1)

    def answers() -> list[pa.Table]:
        single = [dataset.nearest("v", query, 6, filter=condition, nprobes=4, columns=["id"]) for query in batch]
        return [*single, dataset.nearest("v", batch, 6, filter=condition, nprobes=4, columns=["id"])]

    scanned: list[str] = []
    read = Scan.read

    def noted(self: Scan, wanted: Iterable[Any]) -> Any:
        rows = list(wanted)
        if self.output[0] == "v" and rows:
            scanned.append("v")
        return read(self, rows)

    monkeypatch.setattr(Scan, "read", noted)
    found = answers()
    assert not scanned
    monkeypatch.setattr(StoredVectors, "_places", lambda self, fragment: None)
    assert found == answers()
    assert scanned


@pytest.mark.slow
def test_candidates_of_a_store_are_read_with_few_bytes(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    values = clustered(20_000, 256, "f4")
    written = lance_spark.write(pa.table({"v": vectors(values)}), str(uri))
    written.create_index("v", "IVF_PQ", num_partitions=4, num_sub_vectors=32, sample_rate=64)
    dataset, store = counted(uri, KeptStore)
    dataset.nearest("v", values[0], columns=[], with_row_id=True)
    store.reset()
    dataset.nearest("v", values[0], columns=[], with_row_id=True)
    counts = store.reset()
    assert {path.split("/")[0] for path in counts.paths} == {"data"}
    assert counts.calls["read_ranges"] == 1
    assert counts.read_requests <= 40
    assert counts.bytes_read < values.nbytes / 2


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ"])
def test_many_partitions_are_read_by_as_many_calls_as_one(tmp_path: Path, kind: str) -> None:
    values = clustered(4_000, 32, "f4")
    written = lance_spark.write(pa.table({"v": vectors(values)}), str(tmp_path / "t"))
    options = {"num_sub_vectors": 8} if kind == "IVF_PQ" else {}
    written.create_index("v", kind, num_partitions=16, sample_rate=64, **options)
    calls, answers = [], []
    for steps in ([1, 2, 5, 16], [16]):
        dataset, store = counted(tmp_path / "t", KeptStore)
        found = [dataset.nearest("v", values[0], 40, columns=[], with_row_id=True, nprobes=n) for n in steps]
        answers.append(found[-1])
        calls.append(store.reset().calls["read_ranges"])
    assert answers[0] == answers[1], "partitions that were read one after the other have the same rows"
    # The files of the index, the partitions, the candidates: no call for each of 16 partitions.
    assert calls[1] <= 8
    assert calls[1] < calls[0]
