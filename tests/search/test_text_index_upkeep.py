"""Text indexes are extended and kept right like other indexes, by turns with the reference library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.index.text.queries import TextQuery
from lance_spark.table.search.text_columns import TextColumns
from tests.search.comparisons import TEXT, Queries, check_many, scores, table


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def covered(dataset: lance_spark.Dataset) -> tuple[int, int, int]:
    """(segments, indexed rows, rows without index)."""
    found = dataset.index_statistics("words")
    return found["num_segments"], found["num_indexed_rows"], found["num_unindexed_rows"]


def check_rows(uri: str, seed: int = 0) -> None:
    """Searches by index find the rows of a scan, and so do filters."""
    dataset = lance_spark.open(uri)
    for _, query in Queries(seed).all(2):
        assert rows_of(dataset, query) == rows_of(dataset, query, use_index=False), query
    for words in ("w1 w5", "w9", "w30 w2"):
        expected = rows_of(dataset, words, use_index=False)
        assert set(dataset.to_table(["id"], f"lance_match({TEXT}, '{words}')")["id"].to_pylist()) == expected


def rows_of(dataset: lance_spark.Dataset, query: TextQuery | str, **options: Any) -> set[int]:
    return set(scores(dataset.search(query, **options)))


def append(uri: str, turn: int) -> None:
    lance.write_dataset(table(100, seed=turn + 5, first_id=5000 + 100 * turn), uri, mode="append")


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("built_by", ["ours", "reference"])
def test_optimize_by_turns(uri: str, stable: bool, built_by: str) -> None:
    lance.write_dataset(table(600), uri, max_rows_per_file=200, enable_stable_row_ids=stable)
    if built_by == "ours":
        lance_spark.open(uri).create_scalar_index(TEXT, "fts", "words", with_position=True)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", name="words", with_position=True)
    for turn in range(4):
        append(uri, turn)
        lance.dataset(uri).delete(f"id % 13 = {turn}")
        if turn % 2:
            lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=turn - 1)
        else:
            segments = covered(lance_spark.open(uri))[0]
            optimized = lance_spark.open(uri).optimize_indices()
            assert covered(optimized) == (segments, optimized.count_rows(), 0)
            assert optimized.optimize_indices().version == optimized.version
        check_many(uri, 2, seed=turn, exact=False)
        check_rows(uri, turn)
    merged = lance_spark.open(uri).optimize_indices(num_indices_to_merge=10)
    assert covered(merged) == (1, merged.count_rows(), 0)
    check_many(uri, 2)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True])
def test_compaction_and_updates(uri: str, stable: bool) -> None:
    lance.write_dataset(table(400), uri, max_rows_per_file=100, enable_stable_row_ids=stable)
    dataset = lance_spark.open(uri).create_scalar_index(TEXT, "INVERTED", "words", num_segments=2, stem=False)
    dataset = dataset.delete("id % 7 = 0").update({TEXT: "'w1 changed'"}, "id % 5 = 1")
    assert covered(dataset)[0] == 2
    check_rows(uri)
    assert rows_of(dataset, "changed") == {row for row in range(400) if row % 5 == 1 and row % 7}
    for turn in range(2):
        compacted = lance_spark.open(uri).compact(target_rows_per_fragment=150)
        check_rows(uri, turn)
        optimized = compacted.optimize_indices()
        assert covered(optimized)[1:] == (optimized.count_rows(), 0)
        check_rows(uri, turn)
        if not stable:  # The reference library finds updated rows with stable ids under their old text too.
            check_many(uri, 1, exact=False, phrases=False, seed=turn)
        append(uri, turn)


def test_deferred_compaction(uri: str) -> None:
    lance.write_dataset(table(400), uri, max_rows_per_file=100)
    dataset = lance_spark.open(uri).create_scalar_index(TEXT, "INVERTED", "words")
    compacted = dataset.compact(target_rows_per_fragment=1000, defer_index_remap=True)
    check_rows(uri)
    optimized = compacted.optimize_indices()
    assert covered(optimized) == (1, 400, 0)
    check_rows(uri)
    check_many(uri, 2, phrases=False)


@pytest.mark.parametrize("built_by", ["ours", "reference"])
@pytest.mark.parametrize("compacted_by", ["ours", "reference"])
def test_index_is_searched_after_deferred_compactions(uri: str, built_by: str, compacted_by: str) -> None:
    """Also after several, with deleted, updated and appended rows between them."""
    lance.write_dataset(table(400), uri, max_rows_per_file=50)
    if built_by == "ours":
        lance_spark.open(uri).create_scalar_index(TEXT, "INVERTED", "words", with_position=True)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", name="words", with_position=True)
    for turn, target_rows in enumerate((100, 250, 1000)):
        lance_spark.open(uri).delete(f"id % 11 = {turn}")
        if compacted_by == "ours":
            lance_spark.open(uri).compact(target_rows_per_fragment=target_rows, defer_index_remap=True)
        else:
            lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=target_rows, defer_index_remap=True)
        assert scanned_rows(uri) == 0
        check_rows(uri, turn)
    lance_spark.open(uri).update({TEXT: "'w1 changed'"}, "id % 5 = 1")
    append(uri, 0)
    assert 0 < scanned_rows(uri) <= 180
    check_rows(uri)
    assert rows_of(lance_spark.open(uri), "changed") == {row for row in range(400) if row % 5 == 1 and row % 11 > 2}


def scanned_rows(uri: str) -> int:
    """The rows that a search reads, as no index covers them."""
    dataset = lance_spark.open(uri)
    columns = TextColumns(dataset.manifest, dataset.lance_schema, dataset.location.bases(dataset.manifest))
    scanned = columns(TEXT, False).scanned
    return 0 if scanned is None else len(scanned.part.row_ids)


def test_parameters_survive_and_wrong_ones_are_refused(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    lance.write_dataset(pa.table({"id": [1, 2], TEXT: ["Running Fast", "the run"]}), uri)
    options: dict[str, Any] = {"base_tokenizer": "whitespace", "stem": False, "custom_stop_words": ["fast"]}
    dataset = lance_spark.open(uri).create_scalar_index(TEXT, "INVERTED", "words", **options)
    lance.write_dataset(pa.table({"id": [3], TEXT: ["running fast"]}), uri, mode="append")
    optimized = lance_spark.open(uri).optimize_indices()
    assert covered(optimized) == (1, 3, 0)
    assert rows_of(optimized, "running") == {1, 3}
    assert rows_of(optimized, "run") == {2}
    assert rows_of(optimized, "fast") == set()
    check = lance.dataset(uri).to_table(full_text_query="running", columns=["id"])
    assert set(check["id"].to_pylist()) == {1, 3}
    with pytest.raises(InvalidInputError, match="INVERTED does not support"):
        dataset.create_scalar_index("id", "INVERTED")
    with pytest.raises(InvalidInputError, match="unknown text option 'colour'"):
        dataset.create_scalar_index(TEXT, "INVERTED", colour="red")
    empty = dataset.create_scalar_index(TEXT, "INVERTED", "words", train=False, **options)
    assert covered(empty) == (1, 0, 3)
    caplog.clear()
    assert rows_of(empty.optimize_indices(), "running") == {1, 3}
    assert not caplog.text
