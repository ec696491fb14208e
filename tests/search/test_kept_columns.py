"""What is searched in an indexed column is found out once for a version; rows and scores stay those of each query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.index.text import partition
from lance_spark.index.text.part import AnalyzedPart
from lance_spark.index.text.queries import MatchQuery, PhraseQuery
from lance_spark.layouts.base import RowRanges
from lance_spark.storage.cache import shared
from lance_spark.table.search import text_columns
from lance_spark.table.search.text_columns import TextColumns

TEXTS = [f"word{number % 7} word{number % 11}" for number in range(60)]


def indexed(uri: str) -> lance_spark.Dataset:
    rows = pa.table({"id": range(60), "txt": TEXTS})
    return lance_spark.write(rows, uri).create_text_index("txt")


def ids(dataset: lance_spark.Dataset, query: object, **arguments: bool) -> list[int]:
    return sorted(dataset.search(query, ["id"], **arguments)["id"].to_pylist())  # type: ignore[arg-type]


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that were looked for."""
    found: list[str] = []
    covered = TextColumns._covered

    def counted(self: TextColumns, name: str, needs_positions: bool, granularity: str | None) -> text_columns._Covered:
        found.append(name)
        return covered(self, name, needs_positions, granularity)

    monkeypatch.setattr(TextColumns, "_covered", counted)
    return found


def test_a_column_is_looked_for_once_for_a_version(tmp_path: Path, looked_up: list[str]) -> None:
    dataset = indexed(str(tmp_path / "table"))
    first = ids(dataset, MatchQuery("word3", "txt"))
    looked_up.clear()
    assert ids(dataset, MatchQuery("word3", "txt")) == first == [n for n, text in enumerate(TEXTS) if "word3" in text]
    assert looked_up == []
    assert ids(dataset, MatchQuery("word3", "txt"), use_index=False) == first
    assert looked_up == ["txt"]


def test_rows_without_an_index_are_searched_after_a_search_without_them(tmp_path: Path) -> None:
    dataset = indexed(str(tmp_path / "table")).append(pa.table({"id": [100], "txt": ["word3"]}))
    query = MatchQuery("word3", "txt")
    for _ in range(2):
        assert 100 not in ids(dataset, query, fast_search=True)
        assert 100 in ids(dataset, query)


def test_a_phrase_is_searched_without_positions_in_the_index(tmp_path: Path) -> None:
    dataset = indexed(str(tmp_path / "table"))
    expected = ids(dataset, PhraseQuery("word3 word4", "txt"), use_index=False)
    assert ids(dataset, MatchQuery("word3", "txt"))
    for _ in range(2):
        assert ids(dataset, PhraseQuery("word3 word4", "txt")) == expected


def test_the_index_of_a_later_version_is_used(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    before = indexed(uri)
    query = MatchQuery("word3", "txt")
    found = ids(before, query)
    after = before.delete("id < 10").drop_index("txt_idx").create_text_index("txt", custom_stop_words=["word3"])
    assert ids(after, query) == []
    assert ids(before, query) == found


@pytest.mark.parametrize("stable", [True, False])
def test_row_ids_that_take_too_much_memory_are_read_for_the_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    rows = pa.table({"id": range(3000), "txt": [f"w{n % 7} w{n % 11} u{n}" if n % 5 else None for n in range(3000)]})
    dataset = lance_spark.write(rows, str(tmp_path), max_rows_per_file=1000, enable_stable_row_ids=stable)
    dataset = dataset.create_text_index("txt", with_position=True).delete("id % 13 = 2")
    filters = ["contains_tokens(txt, 'w3 w5')", "lance_match(txt, 'w3')", None]
    queries = [MatchQuery("u1234", "txt"), MatchQuery("w3 w5", "txt"), PhraseQuery("w3 w5", "txt")]

    def found() -> list[pa.Table]:
        opened = lance_spark.open(str(tmp_path))
        searched = [opened.search(query, ["id"], limit) for query in queries for limit in (1, 10, None)]
        kept = [opened.search(query, ["id"], 10, filter="id % 2 = 0") for query in queries]
        return [*searched, *kept, *(opened.to_table(["id"], filter=condition) for condition in filters)]

    reads: list[object] = []
    read = partition.Partition._read_row_ids

    def counted(self: partition.Partition, rows: RowRanges | None) -> npt.NDArray[np.uint64]:
        reads.append(rows)
        return read(self, rows)

    monkeypatch.setattr(partition.Partition, "_read_row_ids", counted)
    shared.clear()
    expected = found()
    assert reads == []
    shared.clear()
    monkeypatch.setattr(partition, "_MAX_ROWS_SHARE", 0)
    for table, other in zip(found(), expected, strict=True):
        assert table.num_rows > 0
        assert table.equals(other)
    assert len(reads) > 0


def test_rows_without_an_index_are_analyzed_once_for_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    analyzed = TextColumns._analyzed

    def counted(self: TextColumns, *arguments: Any) -> AnalyzedPart:
        part = analyzed(self, *arguments)
        calls.append(part.num_docs)
        return part

    monkeypatch.setattr(TextColumns, "_analyzed", counted)
    later = pa.table({"id": [100, 101, 102], "txt": ["word3 extra", "word5", "word3 word5"]})
    dataset = indexed(str(tmp_path / "table")).append(later)
    with_three = [number for number, text in enumerate(TEXTS) if "word3" in text]
    for _ in range(2):
        assert ids(dataset, MatchQuery("word3", "txt")) == [*with_three, 100, 102]
        assert ids(dataset, MatchQuery("extra", "txt")) == [100]
        assert ids(dataset, PhraseQuery("word3 word5", "txt"))[-1] == 102
    # A phrase reads all rows, because the index has no positions.
    assert calls == [3, 63]
    dataset.delete("id = 102")
    newer = lance_spark.open(str(tmp_path / "table"))
    assert ids(newer, MatchQuery("word3", "txt")) == [*with_three, 100]
    assert calls == [3, 63, 2]
    monkeypatch.setattr(text_columns, "_MAX_ANALYZED_SHARE", 0)
    shared.clear()
    for _ in range(2):
        assert ids(newer, MatchQuery("extra", "txt")) == [100]
    assert calls == [3, 63, 2, 2, 2]
