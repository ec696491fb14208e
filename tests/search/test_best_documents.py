"""The best rows are found without all scores: rows, scores and their order are those of a search for all rows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.index.text import best
from lance_spark.index.text.list_reader import ListReader
from lance_spark.index.text.matching import DocScores
from lance_spark.index.text.queries import MatchQuery, MultiMatchQuery, PhraseQuery, TextQuery
from lance_spark.kernels.text import best as kernel
from lance_spark.storage.cache import shared
from tests.search.comparisons import TEXT, WORDS, asked, table


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def queries(seed: int, count: int, *, phrases: bool = True) -> Iterator[TextQuery]:
    choose = random.Random(seed)

    def words(most: int) -> str:
        return " ".join(WORDS[int(len(WORDS) ** choose.random()) - 1] for _ in range(choose.randint(1, most)))

    for _ in range(count):
        operator, boost = choose.choice(["OR", "AND"]), choose.choice([1.0, 0.0, 1e-44, 0.3, 2.5])
        yield MatchQuery(words(5), TEXT, operator=operator, boost=boost)
        fuzzy = choose.choice([None, 1, 2])
        yield MatchQuery(words(2), TEXT, operator=operator, fuzziness=fuzzy, max_expansions=choose.choice([3, 50]))
        if phrases:
            yield PhraseQuery(words(3), TEXT, choose.choice([0, 0, 1, 3]))


def check(dataset: lance_spark.Dataset, query: TextQuery, limits: tuple[int, ...] = (1, 10, 200)) -> None:
    every = dataset.search(query, ["id"], with_row_address=True)
    order = np.lexsort((every["_rowaddr"].to_numpy(), -every["_score"].to_numpy()))
    assert order.tolist() == list(range(every.num_rows))
    for limit in limits:
        found = dataset.search(query, ["id"], limit, with_row_address=True)
        assert found.equals(every.slice(0, limit)), (query, limit)
    assert dataset.search(query, ["id"], 7, 2).equals(every.drop(["_rowaddr"]).slice(2, 7)), query


@pytest.mark.parametrize("built_by", ["ours", "reference", "blocks of 256"])
@pytest.mark.parametrize("stable", [False, True])
def test_limits_cut_all_rows(uri: str, built_by: str, stable: bool) -> None:
    """With several segments and partitions of blocks, deleted, updated and unindexed rows."""
    lance.write_dataset(table(3000), uri, max_rows_per_file=1000, enable_stable_row_ids=stable)
    if built_by == "ours":
        lance_spark.open(uri).create_text_index(TEXT, "words", with_position=True)
    else:
        size = 256 if built_by == "blocks of 256" else 128
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", name="words", with_position=True, block_size=size)
    for query in queries(1, 3):
        check(lance_spark.open(uri), query)
    lance.write_dataset(table(500, 7, 10_000), uri, mode="append")
    dataset = lance_spark.open(uri).optimize_indices().delete("id % 7 = 3")
    for query in queries(2, 2):
        check(dataset, query)
    lance.write_dataset(table(300, 9, 20_000), uri, mode="append")
    dataset = lance_spark.open(uri).update({TEXT: f"concat({TEXT}, ' w1')"}, "id % 11 = 5")
    for query in queries(3, 2):
        check(dataset, query)
        check_filtered(dataset, query)


def check_filtered(dataset: lance_spark.Dataset, query: TextQuery) -> None:
    every = dataset.search(query, ["id"], filter="id % 2 = 0")
    assert dataset.search(query, ["id"], 5, filter="id % 2 = 0").equals(every.slice(0, 5))


def test_deferred_compaction_and_positions_by_document(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_FTS_FORMAT_VERSION", "1")
    lance.write_dataset(table(1500), uri, max_rows_per_file=300)
    lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", name="words", with_position=True)
    for query in queries(4, 3):
        check(lance_spark.open(uri), query)
    dataset = lance_spark.open(uri).delete("id % 5 = 1").compact(target_rows_per_fragment=900, defer_index_remap=True)
    for query in queries(5, 3):
        check(dataset, query)


def test_several_columns(uri: str) -> None:
    data = table(1200).append_column("other", table(1200, 5)[TEXT])
    dataset = lance_spark.write(data, uri).create_text_index(TEXT).create_text_index("other")
    for words in ("w1", "w3 w9", "w40 w2 w77"):
        check(dataset, MultiMatchQuery(words, (TEXT, "other"), (1.0, 1.5)))


def watched(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Gets the state of each search that the kernel does from now on."""
    tables: list[np.ndarray] = []

    class Watched(best._Run):
        def best(self, *arguments: Any) -> DocScores:
            found = super().best(*arguments)
            tables.append(self._table)
            return found

    monkeypatch.setattr(best, "_Run", Watched)
    return tables


def test_most_blocks_are_skipped(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some documents have the word often, so most blocks are not decoded again after their bounds are known."""
    rows = [("w " * (1 + 20 * (row in (4000, 9000)))) + "x y z v" for row in range(20_000)]
    dataset = lance_spark.write(pa.table({"id": range(20_000), TEXT: rows}), uri).create_text_index(TEXT)
    tables = watched(monkeypatch)
    found = dataset.search("w", ["id"], 2)
    assert found["id"].to_pylist() == [4000, 9000]
    assert found["_score"].to_pylist() == sorted(asked(uri, "w", limit=2).values(), reverse=True)
    (state,) = tables
    assert state[0, kernel.NUM_BLOCKS] == -(-20_000 // 128)
    # Later blocks than that of document 9000 could not have better documents.
    assert state[0, kernel.DECODED] == 9000 // 128


def test_frequent_word_is_not_decoded_where_another_one_is_missing(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rare words have both other words; later ones cannot be as good without "middle"."""
    rows = [
        f"common x{row} {'rare' * (row % 200 == 0)} {'middle' * (row <= 2000 if row % 200 == 0 else row % 10 == 5)}"
        for row in range(20_000)
    ]
    dataset = lance_spark.write(pa.table({"id": range(20_000), TEXT: rows}), uri).create_text_index(TEXT)
    tables = watched(monkeypatch)
    found = dataset.search("common middle rare", ["id"], 5)
    assert found["id"].to_pylist() == [0, 200, 400, 600, 800]
    (state,) = tables
    assert state[0, kernel.NUM_BLOCKS] == -(-20_000 // 128)
    assert state[0, kernel.DECODED] <= 2000 // 128


@pytest.mark.parametrize("built_by", ["here", "reference"])
def test_frequent_words_are_looked_up_by_bits(uri: str, monkeypatch: pytest.MonkeyPatch, built_by: str) -> None:
    """Words from one in 2 to one in 2,000 documents."""
    choose = random.Random(8)
    rows = [" ".join(f"w{int(400 ** choose.random())}" for _ in range(choose.randrange(1, 14))) for _ in range(12_000)]
    dataset = lance_spark.write(pa.table({"id": range(12_000), TEXT: rows}), uri)
    if built_by == "here":
        dataset.create_text_index(TEXT, with_position=True, stem=False)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", with_position=True, stem=False)
    dataset = lance_spark.open(uri).delete("id % 11 = 3")
    tables = watched(monkeypatch)
    for _ in range(2):
        for words in ("w1 w300", "w1 w200 w20 w399", "w2 w2 w390", "w7 w8", "w1 w2 w3"):
            for operator in ("OR", "AND"):
                check(dataset, MatchQuery(words, TEXT, operator=operator), limits=(1, 10))
            check(dataset, PhraseQuery(words, TEXT, slop=1), limits=(1, 10))
        check(dataset, MatchQuery("w1 w300", TEXT, boost=0.5), limits=(3,))
    looked_up = [state for state in tables if state[:, kernel.IS_LOOKED_UP].any()]
    assert any(state[:, kernel.MEMBERS].any() for state in looked_up)
    assert any((state[:, kernel.MEMBERS] == 0).any() for state in tables)


@pytest.mark.slow
def test_threads_search_the_same_terms(uri: str) -> None:
    dataset = lance_spark.write(table(6000), uri).create_text_index(TEXT)
    wanted = [query for query in queries(6, 25, phrases=False) if isinstance(query, MatchQuery)]
    expected = [dataset.search(query, ["id"]).slice(0, 10) for query in wanted]

    def found(places: list[int]) -> list[bool]:
        return [dataset.search(wanted[place], ["id"], 10).equals(expected[place]) for place in places]

    choose = random.Random(1)
    orders = [choose.sample(range(len(wanted)), len(wanted)) for _ in range(4)]
    for _ in range(3):
        shared.clear()
        with ThreadPoolExecutor(4) as pool:
            assert all(all(answers) for answers in pool.map(found, orders))


def test_phrases_in_documents_that_have_their_words_often(uri: str) -> None:
    """The places where a part of a phrase can end need room, however few blocks the words have."""
    rows = [" ".join([word] * count) for count in (3, 40, 50_000) for word in ("red", "red blue", "blue sky")]
    dataset = lance_spark.write(pa.table({"id": range(9), TEXT: rows}), uri)
    dataset = dataset.create_text_index(TEXT, with_position=True, stem=False)
    for words in ("red", "red red", "red red red", "red blue red blue", "blue blue"):
        for slop in (0, 1, 4):
            check(dataset, PhraseQuery(words, TEXT, slop))
    assert dataset.search(PhraseQuery("red red red", TEXT), ["id"], 10)["id"].to_pylist() == [6, 3, 0]


def test_words_that_are_too_rare_in_a_document_are_skipped(uri: str) -> None:
    """Documents of other lengths, and frequencies up to more than are skipped at once."""
    choose = random.Random(3)
    rows = []
    for _ in range(4000):
        filler = " x" * choose.choice([0, 0, 1, 5, 40])
        rows.append(
            "a " * choose.choice([0, 1, 1, 1, 2, 3, 18, 40]) + "b " * choose.choice([0, 1, 2, 20]) + "c" + filler
        )
    dataset = lance_spark.write(pa.table({"id": range(4000), TEXT: rows}), uri)
    dataset = dataset.create_text_index(TEXT, with_position=True, stem=False, remove_stop_words=False)
    for words in ("a", "a b", "a a", "c a", "x b a"):
        for operator in ("OR", "AND"):
            check(dataset, MatchQuery(words, TEXT, operator=operator))
    for words in ("a b", "b c", "b b c"):
        check(dataset, PhraseQuery(words, TEXT))


def test_many_terms_and_empty_limits(uri: str) -> None:
    dataset = lance_spark.write(table(600), uri).create_text_index(TEXT)
    check(dataset, MatchQuery(" ".join(WORDS[:90]), TEXT))
    assert dataset.search("w1", ["id"], 0).num_rows == 0
    assert dataset.search("nothing", ["id"], 3).num_rows == 0
    assert dataset.search(MatchQuery("w1 nothing", operator="AND"), ["id"], 3).num_rows == 0
    assert dataset.search("", ["id"], 3).num_rows == 0


def test_versions_share_what_was_decoded_but_not_their_rows(uri: str) -> None:
    dataset = lance_spark.write(table(600), uri).create_text_index(TEXT)
    before = dataset.search("w1", ["id"], 5)["id"].to_pylist()
    deleted = dataset.delete(f"id = {before[0]}")
    assert deleted.search("w1", ["id"], 4)["id"].to_pylist() == before[1:]
    assert dataset.search("w1", ["id"], 5)["id"].to_pylist() == before
    shared.clear()
    assert deleted.search("w1", ["id"], 4)["id"].to_pylist() == before[1:]


@pytest.mark.slow
def test_damaged_bytes_never_raise(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    """Random bytes in posting lists, positions and documents cost a warning and a scan, where they are noticed."""
    dataset = lance_spark.write(table(800), uri).create_text_index(TEXT, with_position=True)
    assert dataset.search(PhraseQuery("w1 w2"), ["id"], 5).num_rows
    choose = random.Random(4)
    noticed = set()
    for path in Path(uri).glob("_indices/*/part_0_*.lance"):
        whole = path.read_bytes()
        for _ in range(15):
            data = bytearray(whole)
            for _ in range(6):
                data[choose.randrange(len(data) // 2)] = choose.randrange(256)
            path.write_bytes(bytes(data))
            shared.clear()
            for query in (MatchQuery("w1 w2 w9"), MatchQuery("w1 w0", operator="AND"), PhraseQuery("w1 w2", slop=1)):
                caplog.clear()
                assert lance_spark.open(uri).search(query, ["id"], 5).num_rows <= 5
                noticed.add("is not used" in caplog.text)
        path.write_bytes(whole)
    assert noticed == {True, False}


def test_the_words_of_a_query_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    uri = str(tmp_path / "words")
    texts = [f"a{row % 3} b{row % 5} c{row % 7} d" for row in range(300)]
    lance_spark.write(pa.table({"id": range(300), "t": texts}), uri)
    dataset = lance_spark.open(uri).create_text_index("t", with_position=True, stem=False, remove_stop_words=False)
    read = ListReader._read

    def counted(reader: ListReader, terms: Sequence[int], types: Mapping[str, pa.DataType]) -> Any:
        calls.append(len(terms))
        return read(reader, terms, types)

    monkeypatch.setattr(ListReader, "_read", counted)
    assert dataset.search(MatchQuery("c6 a1 b2 d absent c6", "t", operator="OR"), ["id"]).num_rows == 300
    assert calls == [4]
    assert dataset.search(PhraseQuery("a1 b2 c3", "t"), ["id"])["id"].to_pylist() == [52, 157, 262]
    assert calls == [4, 3]
    assert dataset.search(PhraseQuery("c3 a1 absent", "t"), ["id"]).num_rows == 0
    assert dataset.search(PhraseQuery("c4 d", "t"), ["id"], 2)["id"].to_pylist() == [4, 11]
    assert calls == [4, 3, 2]
