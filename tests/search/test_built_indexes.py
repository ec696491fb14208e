"""Text indexes built here answer searches of the reference library, which extends and merges them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.index.text.queries import PhraseQuery
from lance_spark.storage.cache import shared
from tests.search.comparisons import TEXT, Queries, asked, check_many, scores, table, texts


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def written(uri: str, num_rows: int = 1200, *, stable: bool = False) -> lance_spark.Dataset:
    lance.write_dataset(table(num_rows), uri, max_rows_per_file=400, enable_stable_row_ids=stable)
    return lance_spark.open(uri)


@pytest.mark.slow
@pytest.mark.parametrize("with_position", [True, False])
@pytest.mark.parametrize("stable", [True, False])
def test_reference_searches_our_index(uri: str, with_position: bool, stable: bool) -> None:
    dataset = written(uri, stable=stable)
    scanned = {str(ours): scores(dataset.search(ours)) for _, ours in Queries(0).all(2)}
    indexed = dataset.create_text_index(TEXT, with_position=with_position)
    assert {str(ours): scores(indexed.search(ours)) for _, ours in Queries(0).all(2)} == scanned
    (described,) = lance.dataset(uri).describe_indices()
    assert (described.name, described.num_rows_indexed) == ("txt_idx", 1200)
    check_many(uri, 10, phrases=with_position)


@pytest.mark.parametrize(
    "options",
    [
        {"base_tokenizer": "whitespace", "stem": False, "lower_case": False},
        {"base_tokenizer": "ngram", "min_ngram_length": 2},
        {"base_tokenizer": "raw", "max_token_length": None},
        {"language": "French", "custom_stop_words": ["w1", "w7"], "ascii_folding": False},
    ],
    ids=str,
)
def test_reference_analyzes_queries_as_our_index_says(uri: str, options: dict[str, Any]) -> None:
    written(uri, 400).create_text_index(TEXT, "words", **options)
    check_many(uri, 5, phrases=False)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
def test_reference_extends_and_merges_our_index(uri: str, stable: bool) -> None:
    written(uri, stable=stable).create_text_index(TEXT, with_position=True)
    for turn in range(3):
        lance.write_dataset(table(200, seed=turn + 5, first_id=5000 + 200 * turn), uri, mode="append")
        lance.dataset(uri).delete(f"id % 17 = {turn}")
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=turn)
        check_many(uri, 3, exact=False, seed=turn)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100_000)
    check_many(uri, 3, exact=False)
    before = scores(lance_spark.open(uri).search("w1 w5"))
    lance_spark.open(uri).create_text_index(TEXT, with_position=True)
    check_many(uri, 5)
    assert scores(lance_spark.open(uri).search("w1 w5")).keys() == before.keys()


def test_frequent_words_and_long_texts(uri: str) -> None:
    """Posting lists of many blocks, frequencies over 128 and positions over 2^16."""
    rows = ["common " * (row % 300) + "rare word " * (row % 3) for row in range(3000)]
    rows[1700] = "filler " * 70_000 + "rare word"
    lance.write_dataset(pa.table({"id": range(3000), TEXT: rows}), uri)
    lance_spark.open(uri).create_text_index(TEXT, with_position=True)
    for words in ("common", "rare", "filler rare", "common word"):
        assert scores(lance_spark.open(uri).search(words, columns=["id"])) == asked(uri, words)
    for words in ("rare word", "filler rare word", "word rare", "common rare", "common common common"):
        theirs = asked(uri, lance.query.PhraseQuery(words, TEXT))
        assert scores(lance_spark.open(uri).search(PhraseQuery(words), columns=["id"])) == theirs


def test_lists_nested_columns_and_empty_tables(uri: str) -> None:
    lists = [None if text is None else text.split(" ") for text in texts(500, 4)]
    data = pa.table({"id": range(500), TEXT: lists, "s": [{"t": text} for text in texts(500, 6)]})
    lance.write_dataset(data, uri)
    lance_spark.open(uri).create_text_index(TEXT, with_position=True)
    check_many(uri, 5)
    nested = lance_spark.open(uri).create_text_index("s.t")
    found = nested.search("w1", search_columns=["s.t"], columns=["id"])
    assert scores(found) == asked(uri, lance.query.MatchQuery("w1", "s.t"))
    empty = lance_spark.write(data.schema.empty_table(), f"{uri}-empty").create_text_index(TEXT)
    assert empty.search("w1").num_rows == 0
    assert lance.dataset(f"{uri}-empty").to_table(full_text_query="w1").num_rows == 0


def test_bad_index_is_refused_and_leaves_no_files(uri: str) -> None:
    dataset = written(uri, 20)
    with pytest.raises(NotFoundError, match="nope"):
        dataset.create_text_index("nope")
    with pytest.raises(InvalidInputError, match="is of type int64"):
        dataset.create_text_index("id")
    with pytest.raises(InvalidInputError, match=r"unknown text option 'colour'.*document_granularity.*with_position"):
        dataset.create_text_index(TEXT, colour="red")
    with pytest.raises(InvalidInputError, match="block_size 256"):
        dataset.create_text_index(TEXT, block_size=256)
    with pytest.raises(InvalidInputError, match="__lance"):
        dataset.create_text_index(TEXT, "__lance_x")
    lance.dataset(uri).create_scalar_index("id", "BTREE", name="taken")
    with pytest.raises(InvalidInputError, match="'taken' is over another column"):
        lance_spark.open(uri).create_text_index(TEXT, "taken")
    assert len(list((Path(uri) / "_indices").iterdir())) == 1


def test_damaged_bytes_never_give_wrong_rows(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    dataset = written(uri, 300).create_text_index(TEXT, with_position=True)
    expected = scores(dataset.search("w1 w9", use_index=False)).keys()
    for file in Path(uri).glob("_indices/*/*.lance"):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        shared.clear()
        assert scores(lance_spark.open(uri).search("w1 w9")).keys() == expected
        file.write_bytes(whole)
    assert caplog.text.count("its rows are scanned") == 4
