"""Searches in indexes that the reference library wrote find its rows and scores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.index.text.queries import MatchQuery, PhraseQuery
from lance_spark.storage.cache import shared
from tests.search.comparisons import TEXT, Queries, asked, check, check_many, scores, table, texts


def written(uri: str, num_rows: int = 1200, *, stable: bool = False, rows_per_file: int = 400) -> lance.LanceDataset:
    return lance.write_dataset(table(num_rows), uri, max_rows_per_file=rows_per_file, enable_stable_row_ids=stable)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.mark.slow
@pytest.mark.parametrize("with_position", [True, False])
@pytest.mark.parametrize("block_size", [128, 256])
@pytest.mark.parametrize("stable", [True, False])
def test_rows_and_scores_are_equal(uri: str, with_position: bool, block_size: int, stable: bool) -> None:
    written(uri, stable=stable).create_scalar_index(
        TEXT, "INVERTED", with_position=with_position, block_size=block_size
    )
    check_many(uri, 10, phrases=with_position)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_each_format_version_is_read(uri: str, version: str) -> None:
    written(uri)
    # The reference library reads the variable once, when it is loaded.
    code = f"import lance; lance.dataset({uri!r}).create_scalar_index('txt', 'INVERTED', with_position=True)"
    subprocess.run([sys.executable, "-c", code], env={"LANCE_FTS_FORMAT_VERSION": version}, check=True)
    check_many(uri, 10)


@pytest.mark.slow
def test_several_partitions_are_read(uri: str) -> None:
    lance.write_dataset(table(60_000), uri)
    code = f"import lance; lance.dataset({uri!r}).create_scalar_index('txt', 'INVERTED', with_position=True)"
    environment = {"LANCE_FTS_PARTITION_SIZE": "1", "LANCE_FTS_TARGET_SIZE": "1", "LANCE_FTS_NUM_SHARDS": "2"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    (folder,) = (Path(uri) / "_indices").iterdir()
    assert len(list(folder.glob("part_*_docs.lance"))) > 1
    check_many(uri, 2, exact=False)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
def test_unindexed_rows_are_merged_in(uri: str, stable: bool) -> None:
    written(uri, stable=stable).create_scalar_index(TEXT, "INVERTED", with_position=True)
    lance.write_dataset(table(300, seed=2, first_id=5000), uri, mode="append")
    check_many(uri, 10, exact=False, fuzzy=False)


def test_fuzzy_words_are_fuzzy_in_unindexed_rows_too(uri: str) -> None:
    """The reference library compares unindexed rows with the exact words."""
    written(uri).create_scalar_index(TEXT, "INVERTED")
    lance.write_dataset(table(300, seed=2, first_id=5000), uri, mode="append")
    dataset = lance_spark.open(uri)
    theirs, ours = lance.query.MatchQuery("w13", TEXT, fuzziness=1), MatchQuery("w13", TEXT, fuzziness=1)
    found = set(scores(dataset.search(ours)))
    assert found == set(scores(dataset.search(ours, use_index=False)))
    assert set(asked(uri, theirs)) < found


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
def test_deleted_and_updated_rows_are_not_found_at_their_old_place(uri: str, stable: bool) -> None:
    dataset = written(uri, stable=stable)
    dataset.create_scalar_index(TEXT, "INVERTED", with_position=True)
    dataset.delete("id % 7 = 3 OR (id >= 400 AND id < 800)")
    dataset.update({TEXT: "'w3 w4 w5 w6'"}, where="id % 11 = 2")
    check_many(uri, 10, exact=False, fuzzy=False)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
def test_segments_and_compaction(uri: str, stable: bool) -> None:
    dataset = written(uri, stable=stable)
    dataset.create_scalar_index(TEXT, "INVERTED", with_position=True)
    lance.write_dataset(table(300, seed=2, first_id=5000), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    check_many(uri, 4, exact=False)
    dataset.delete("id % 5 = 1")
    dataset.optimize.compact_files(target_rows_per_fragment=10_000)
    check_many(uri, 4, exact=False)
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices()
    check_many(uri, 4, exact=False)


@pytest.mark.parametrize(
    "options",
    [
        {"base_tokenizer": "whitespace", "stem": False, "remove_stop_words": False},
        {"base_tokenizer": "raw", "max_token_length": None},
        {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 3},
        {"language": "German", "ascii_folding": False},
        {"lower_case": False, "custom_stop_words": ["w1", "w2"]},
    ],
    ids=str,
)
def test_analysis_of_the_index_is_used(uri: str, options: dict[str, Any]) -> None:
    written(uri, 400).create_scalar_index(TEXT, "INVERTED", **options)
    for pair in [*Queries(3).all(3, phrases=False)]:
        check(uri, pair, exact=False)
    text = next(text for text in texts(400, 1) if text)
    assert lance_spark.open(uri).search(MatchQuery(text, operator="AND"), columns=["id"]).num_rows >= 1


def test_fuzzy_words_are_not_stemmed(uri: str) -> None:
    rows = pa.table({"id": range(4), TEXT: ["Running dogs", "an apple", "the cat", "run"]})
    lance.write_dataset(rows, uri).create_scalar_index(TEXT, "INVERTED")
    for words in ("running", "runn", "RUN", "W32", "aple", "the cat", "ca-t", "dogs", "dig an", "r"):
        for fuzziness in (1, 2, 3):
            pair = (
                lance.query.MatchQuery(words, TEXT, fuzziness=fuzziness),
                MatchQuery(words, TEXT, fuzziness=fuzziness),
            )
            check(uri, pair)


def test_lists_of_strings_are_one_document(uri: str) -> None:
    lists = [None if text is None else text.split(" ") for text in texts(500, 4)]
    data = table(500).set_column(1, TEXT, [lists])
    lance.write_dataset(data, uri).create_scalar_index(TEXT, "INVERTED", with_position=True)
    check_many(uri, 5)


def test_limit_offset_filter_and_columns(uri: str) -> None:
    written(uri).create_scalar_index(TEXT, "INVERTED")
    dataset = lance_spark.open(uri)
    full = dataset.search("w1 w5 w9", with_row_id=True)
    assert full.column_names == ["id", TEXT, "_score", "_rowid"]
    best = full.slice(3, 10)
    assert dataset.search("w1 w5 w9", limit=10, offset=3, with_row_id=True).equals(best)
    few = dataset.search("w1 w5 w9", limit=10, columns=[TEXT], filter="id % 3 = 0", with_score=False)
    assert few.column_names == [TEXT]
    expected = [row for row in full.to_pylist() if row["id"] % 3 == 0][:10]
    assert few.to_pylist() == [{TEXT: row[TEXT]} for row in expected]
    theirs = asked(uri, "w1 w5 w9", filter="id % 3 = 0", prefilter=True, limit=10)
    assert sorted(theirs.values()) == sorted(row["_score"] for row in expected)
    assert dataset.search("w1", limit=0).num_rows == 0
    assert dataset.search("", columns=["id"]).num_rows == dataset.search("the", columns=["id"]).num_rows == 0


def test_search_without_index_equals_search_with_one(uri: str) -> None:
    written(uri).create_scalar_index(TEXT, "INVERTED", with_position=True)
    dataset = lance_spark.open(uri)
    for _, ours in Queries(8).all(5):
        scanned = dataset.search(ours, columns=["id"], use_index=False)
        assert scores(scanned) == scores(dataset.search(ours, columns=["id"])), ours


def test_table_without_index_is_searched(uri: str) -> None:
    written(uri)
    check_many(uri, 5, exact=False, fuzzy=False)


def test_phrase_without_positions_reads_the_rows(uri: str) -> None:
    written(uri).create_scalar_index(TEXT, "INVERTED", with_position=False)
    found = lance_spark.open(uri).search(PhraseQuery("w1 w2"))
    assert found.num_rows > 0
    assert all("w1 w2" in f"{text}" for text in found[TEXT].to_pylist())


def test_phrase_with_slop_finds_what_its_rule_says(uri: str) -> None:
    """With three words and slop the reference library misses rows, even some that contain the exact phrase."""
    written(uri).create_scalar_index(TEXT, "INVERTED", with_position=True, remove_stop_words=False)
    rows = [(id_, (text or "").split()) for id_, text in enumerate(texts(1200, 1))]

    def matches(words: list[str], phrase: list[str], slop: int) -> bool:
        ends = {place for place, word in enumerate(words) if word == phrase[0]}
        for wanted in phrase[1:]:
            ends = {
                place
                for place, word in enumerate(words)
                if word == wanted and any(0 < place - end <= 1 + slop for end in ends)
            }
        return bool(ends)

    missed = 0
    for seed in range(30):
        phrase, slop = Queries(seed).words(3), 1 + seed % 4
        expected = {id_ for id_, words in rows if matches(words, phrase.split(), slop)}
        found = lance_spark.open(uri).search(PhraseQuery(phrase, slop=slop), columns=["id"])
        assert set(found["id"].to_pylist()) == expected
        theirs = asked(uri, lance.query.PhraseQuery(phrase, TEXT, slop=slop)).keys()
        assert theirs <= expected
        missed += len(expected - theirs)
    assert missed > 0


def test_stale_documents_after_updates_of_stable_rows_are_not_found(uri: str) -> None:
    """The reference library finds updated rows by their old text."""
    dataset = written(uri, 100, stable=True)
    dataset.update({TEXT: "'old'"}, where="true")
    dataset.create_scalar_index(TEXT, "INVERTED")
    dataset.update({TEXT: "'new'"}, where="id < 30")
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert len(asked(uri, "old")) == 100
    for _ in range(2):
        found = lance_spark.open(uri)
        assert set(found.search("old")["id"].to_pylist()) == set(range(30, 100))
        assert set(found.search("new")["id"].to_pylist()) == set(range(30))
        dataset = lance.dataset(uri)
        lance.write_dataset(table(5, first_id=9000), uri, mode="append")
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=10)


def test_compaction_after_a_deferred_one_loses_no_rows(uri: str) -> None:
    """The reference library loses all rows of the index."""
    dataset = written(uri, 60, rows_per_file=20)
    dataset.create_scalar_index(TEXT, "INVERTED")
    expected = set(asked(uri, "w1"))
    dataset.optimize.compact_files(target_rows_per_fragment=30, defer_index_remap=True)
    assert set(scores(lance_spark.open(uri).search("w1"))) == expected
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    assert set(scores(lance_spark.open(uri).search("w1"))) == expected
    assert set(asked(uri, "w1")) != expected


def test_several_columns_give_the_best_score(uri: str) -> None:
    data = table(600).append_column("other", pa.array(texts(600, 5)))
    dataset = lance.write_dataset(data, uri)
    dataset.create_scalar_index(TEXT, "INVERTED")
    dataset.create_scalar_index("other", "INVERTED")
    theirs = lance.query.MultiMatchQuery("w3 w9", [TEXT, "other"], boosts=[1.0, 2.0])
    check(uri, (theirs, lance_spark.MultiMatchQuery("w3 w9", (TEXT, "other"), (1.0, 2.0))))
    check(uri, ("w3 w9", MatchQuery("w3 w9")))
    mixed = lance.query.BooleanQuery(
        [
            (lance.query.Occur.MUST, lance.query.MatchQuery("w3", TEXT)),
            (lance.query.Occur.MUST, lance.query.MatchQuery("w1", "other")),
        ]
    )
    check(uri, (mixed, lance_spark.BooleanQuery(must=(MatchQuery("w3", TEXT), MatchQuery("w1", "other")))))
    only = lance_spark.open(uri).search("w3", columns=["id"], search_columns=["other"])
    assert scores(only) == asked(uri, lance.query.MatchQuery("w3", "other"))


@pytest.mark.parametrize("name", ["metadata", "part_0_tokens", "part_0_docs", "part_0_invert"])
def test_missing_index_file_means_a_scan(uri: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    written(uri).create_scalar_index(TEXT, "INVERTED")
    expected = scores(lance_spark.open(uri).search("w1 w2"))
    (file,) = Path(uri).glob(f"_indices/*/{name}.lance")
    file.rename(file.with_suffix(".gone"))
    shared.clear()
    assert scores(lance_spark.open(uri).search("w1 w2")) == expected
    assert "its rows are scanned" in caplog.text


def test_fast_search_leaves_out_rows_without_index(uri: str) -> None:
    lance.write_dataset(table(300), uri)
    assert lance_spark.open(uri).search("w1", fast_search=True).num_rows > 0
    lance.dataset(uri).create_scalar_index(TEXT, "INVERTED")
    lance.write_dataset(table(100, 5, 5000), uri, mode="append")
    for words in ("w1", "w7 w30"):
        theirs = asked(uri, words, fast_search=True)
        assert 0 < max(theirs) < 5000
        assert scores(lance_spark.open(uri).search(words, fast_search=True)) == theirs
        assert max(scores(lance_spark.open(uri).search(words))) >= 5000
