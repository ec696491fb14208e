"""Segments of text indexes are merged and remapped from their own files, as if the index was built afresh."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.analysis.analyzer import AnalyzedTexts, Analyzer
from lance_spark.index.text import build
from lance_spark.table.search.text_columns import TextColumns
from tests.search.comparisons import TEXT, Queries, check_many, scores, table


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def analyzed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each call has analyzed."""
    counts: list[int] = []
    original = Analyzer.analyze

    def analyze(self: Analyzer, values: pa.Array) -> AnalyzedTexts:
        counts.append(len(values))
        return original(self, values)

    monkeypatch.setattr(Analyzer, "analyze", analyze)
    return counts


Posting = tuple[int, int, tuple[int, ...]]


def postings(uri: str, *, positions: bool = True) -> dict[str, list[Posting]]:
    """For each term (row address, frequency, positions) of its live documents, by the index alone."""
    dataset = lance_spark.open(uri)
    column = TextColumns(dataset.manifest, dataset.lance_schema, dataset.location.bases(dataset.manifest))
    found: dict[str, list[Posting]] = {}
    for source in column(TEXT, positions).indexed:
        part = source.part
        addresses, exists = source.locate(part.row_ids)
        for number, term in enumerate(part.terms().to_pylist()):
            one = part.postings(number)
            places = part.positions(number).tolist() if positions else [0] * int(one.freqs.sum())
            ends = np.cumsum(one.freqs).tolist()
            for doc, freq, end in zip(one.docs.tolist(), one.freqs.tolist(), ends, strict=True):
                if exists[doc]:
                    item = (int(addresses[doc]), freq, tuple(places[end - freq : end]))
                    found.setdefault(term, []).append(item)
    return {term: sorted(items) for term, items in found.items()}


def check_as_afresh(uri: str, *, positions: bool = True) -> None:
    """The index has the documents, and its scores are those, of one that is built afresh."""
    fresh = f"{uri}-fresh"
    shutil.copytree(uri, fresh)
    dataset = lance_spark.open(fresh).create_scalar_index(TEXT, "INVERTED", "words", with_position=positions)
    assert postings(uri, positions=positions) == postings(fresh, positions=positions)
    # Fuzzy words add up the scores of terms in the order of their numbers, which is another one.
    for _, query in Queries(3).all(2, phrases=positions, fuzzy=False):
        assert scores(lance_spark.open(uri).search(query)) == scores(dataset.search(query)), query
    shutil.rmtree(fresh)


def covered(uri: str) -> tuple[int, int]:
    """(segments, rows without index)."""
    found = lance_spark.open(uri).index_statistics("words")
    return found["num_segments"], found["num_unindexed_rows"]


def create(uri: str, built_by: str, **options: Any) -> None:
    if built_by == "ours":
        lance_spark.open(uri).create_scalar_index(TEXT, "INVERTED", "words", **options)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", name="words", **options)


@pytest.mark.parametrize("built_by", ["ours", "reference"])
@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("stable", [True, False])
def test_merge(uri: str, built_by: str, positions: bool, stable: bool, analyzed: list[int]) -> None:
    """With deleted, updated and new rows: only the texts of rows without an index are read."""
    lance.write_dataset(table(900), uri, max_rows_per_file=300, enable_stable_row_ids=stable)
    create(uri, built_by, with_position=positions)
    lance.write_dataset(table(200, 5, 5000), uri, mode="append")
    lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    lance_spark.open(uri).delete("id % 13 = 1")
    dataset = lance_spark.open(uri).update({TEXT: f"concat({TEXT}, ' w1 new')"}, "id % 17 = 2")
    fresh = sum(fragment.num_rows for fragment in dataset.manifest.fragments[4:])
    analyzed.clear()
    dataset.optimize_indices(num_indices_to_merge=10)
    assert 0 < sum(analyzed) == fresh
    assert covered(uri) == (1, 0)
    check_as_afresh(uri, positions=positions)
    check_many(uri, 2, phrases=positions, fuzzy=False)


@pytest.mark.parametrize(("built_by", "size"), [("ours", 128), ("reference", 128), ("reference", 256)])
def test_compaction_remaps(uri: str, built_by: str, size: int, analyzed: list[int]) -> None:
    lance.write_dataset(table(900), uri, max_rows_per_file=150)
    create(uri, built_by, with_position=True, **({"block_size": size} if built_by == "reference" else {}))
    lance_spark.open(uri).delete("id % 7 = 1 OR id BETWEEN 200 AND 320")
    analyzed.clear()
    lance_spark.open(uri).compact(target_rows_per_fragment=400)
    assert sum(analyzed) == 0
    assert covered(uri) == (1, 0)
    check_as_afresh(uri)
    check_many(uri, 2)


@pytest.mark.parametrize("built_by", ["ours", "reference"])
def test_deferred_moves_are_followed(uri: str, built_by: str, analyzed: list[int]) -> None:
    lance.write_dataset(table(600), uri, max_rows_per_file=100)
    create(uri, built_by, with_position=True)
    for turn, target_rows in enumerate((200, 1000)):
        lance_spark.open(uri).delete(f"id % 11 = {turn}")
        lance_spark.open(uri).compact(target_rows_per_fragment=target_rows, defer_index_remap=True)
    analyzed.clear()
    lance_spark.open(uri).optimize_indices()
    assert sum(analyzed) == 0
    assert covered(uri) == (1, 0)
    check_as_afresh(uri)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
def test_both_libraries_by_turns(uri: str, stable: bool) -> None:
    lance.write_dataset(table(400), uri, max_rows_per_file=100, enable_stable_row_ids=stable)
    create(uri, "reference", with_position=True)
    for turn in range(5):
        lance.write_dataset(table(100, turn + 5, 5000 + 100 * turn), uri, mode="append")
        lance_spark.open(uri).delete(f"id % 13 = {turn}")
        if not stable:  # The reference library keeps the old documents of updated rows with stable ids.
            lance_spark.open(uri).update({TEXT: f"concat({TEXT}, ' new')"}, f"id % 19 = {turn}")
        if turn % 3 == 0:
            lance_spark.open(uri).optimize_indices(num_indices_to_merge=turn)
            lance_spark.open(uri).compact(target_rows_per_fragment=150 + 100 * turn)
        elif turn % 3 == 1:
            lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=turn)
            lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=200 + 100 * turn)
        else:
            lance_spark.open(uri).optimize_indices(num_indices_to_merge=10)
            assert covered(uri) == (1, 0)
            check_as_afresh(uri)
        check_many(uri, 1, exact=False, seed=turn)


@pytest.mark.parametrize(
    ("bound", "most", "num_partitions"), [("_PARTITION_TOKENS", 4000, 2), ("_PARTITION_TERMS", 20, 4)]
)
def test_large_partitions_stay_apart(
    uri: str, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, num_partitions: int
) -> None:
    monkeypatch.setattr(build, bound, most)
    lance.write_dataset(table(900), uri, max_rows_per_file=300)
    create(uri, "ours", with_position=True)
    lance.write_dataset(table(200, 5, 5000), uri, mode="append")
    lance_spark.open(uri).optimize_indices()
    assert covered(uri) == (1, 0)
    assert lance_spark.open(uri).index_statistics("words")["segments"][0]["num_partitions"] == num_partitions
    check_as_afresh(uri)


def test_other_analysis_and_damage_are_built_again(uri: str) -> None:
    """What cannot be merged is read from the table."""
    lance.write_dataset(table(300), uri)
    create(uri, "ours", with_position=True)
    lance.write_dataset(table(100, 5, 5000), uri, mode="append")
    lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    (first, second) = sorted((Path(uri) / "_indices").iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in (first, second):
        path = folder / "part_0_invert.lance"
        data = bytearray(path.read_bytes())
        data[200:260] = bytes(60)
        path.write_bytes(bytes(data))
    lance_spark.open(uri).optimize_indices(num_indices_to_merge=10)
    assert covered(uri) == (1, 0)
    check_as_afresh(uri)
