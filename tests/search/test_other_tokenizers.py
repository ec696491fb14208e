# ruff: noqa: RUF001
"""Indexes with tokenizers beyond words: both libraries search those of the other."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import query as reference

import lance_spark
from lance_spark import MatchQuery, PhraseQuery
from lance_spark.analysis.tokenizers.jieba import VARIABLE
from lance_spark.errors import UnsupportedFeatureError
from tests.search.comparisons import TEXT, check
from tests.support.jieba_models import OF_PACKAGE, jieba_home

__all__ = ["jieba_home"]

IDENTIFIERS = [
    "getUserName",
    "user_name",
    "parseHTML2JSON",
    "x",
    "the",
    "XMLHttpRequest",
    "a::b",
    "p->q",
    "i+=1",
    "__a__",
]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def check_queries(uri: str, queries: list[str]) -> None:
    """Both libraries find the same rows with the same scores, some in all."""
    found = 0
    for words in queries:
        for operator in ("OR", "AND"):
            theirs = reference.MatchQuery(words, TEXT, operator=reference.FullTextOperator[operator])
            found += check(uri, (theirs, MatchQuery(words, TEXT, operator=operator)))
        # The reference library adds the scores of a phrase of many words in another order.
        found += check(uri, (reference.PhraseQuery(words, TEXT), PhraseQuery(words, TEXT)), exact=False)
    assert found > 0


def random_code(choose: random.Random, longest: int) -> str:
    return " ".join(choose.choices(IDENTIFIERS, k=choose.randint(1, longest)))


@pytest.mark.parametrize("builder", ["reference", "own"])
@pytest.mark.parametrize("options", [{}, {"split_identifiers": True}, {"index_operators": True, "stem": True}], ids=str)
def test_code(uri: str, builder: str, options: dict[str, Any]) -> None:
    choose = random.Random(1)
    rows = [random_code(choose, 8) for _ in range(400)]
    lance.write_dataset(pa.table({"id": range(400), TEXT: rows}), uri, max_rows_per_file=150)
    options = {"base_tokenizer": "code", "with_position": True, **options}
    if builder == "own":
        lance_spark.open(uri).create_text_index(TEXT, **options)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", **options)
    check_queries(uri, [random_code(choose, 2) for _ in range(15)] + ["user", "name user", "2 json"])
    (described,) = lance.dataset(uri).describe_indices()
    assert described.segments[0].index_version == 3


def test_code_index_is_extended_and_merged(uri: str) -> None:
    choose = random.Random(2)
    for turn, mode in enumerate(["create", "append", "append", "append"]):
        rows = [random_code(choose, 8) for _ in range(100)]
        lance.write_dataset(pa.table({"id": range(100 * turn, 100 * turn + 100), TEXT: rows}), uri, mode=mode)
        if turn == 0:
            lance_spark.open(uri).create_text_index(
                TEXT, base_tokenizer="code", split_identifiers=True, with_position=True
            )
        elif turn % 2:
            lance_spark.open(uri).optimize_indices(num_indices_to_merge=turn)
        else:
            lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=turn)
    check_queries(uri, [random_code(choose, 2) for _ in range(10)])


@pytest.mark.parametrize("builder", ["reference", "own"])
@pytest.mark.parametrize(
    "options",
    [
        {"base_tokenizer": "ngram", "min_ngram_length": 2},
        {"base_tokenizer": "raw"},
        {"base_tokenizer": "code", "split_identifiers": True, "with_position": True},
    ],
    ids=str,
)
def test_items_of_lists_are_joined_by_spaces(uri: str, builder: str, options: dict[str, Any]) -> None:
    rows = [["ab", "cd"], ["abcd"], ["", "cd"], [None, "cd", ""], ["ab", "", "cd"], [], None, [""], ["ab cd", None]]
    table = pa.table({"id": range(len(rows)), TEXT: pa.array(rows, pa.list_(pa.string()))})
    lance.write_dataset(table, uri)
    if builder == "own":
        lance_spark.open(uri).create_text_index(TEXT, **options)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", **options)
    for words in ("b c", "ab cd", "ab  cd", "cd", "cd ", "abcd"):
        query = MatchQuery(words, TEXT, operator="AND")
        check(uri, (reference.MatchQuery(words, TEXT, operator=reference.FullTextOperator.AND), query))


@pytest.mark.parametrize("builder", ["reference", "own"])
@pytest.mark.parametrize("name", ["icu", "icu/split"])
def test_icu(uri: str, builder: str, name: str) -> None:
    words = ["hello_world", "don't", "3.14", "und", "Straße", "세계", "그리고", "мир", "👩\u200d👧", "x:y", "dogs"]
    choose = random.Random(5)
    rows = [" ".join(choose.choices(words, k=choose.randint(0, 8))) for _ in range(300)]
    lance.write_dataset(pa.table({"id": range(300), TEXT: rows}), uri, max_rows_per_file=100)
    options = {"base_tokenizer": name, "with_position": True}
    if builder == "own":
        lance_spark.open(uri).create_text_index(TEXT, **options)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", **options)
    check_queries(uri, [" ".join(choose.choices(words, k=choose.randint(1, 3))) for _ in range(20)])


def test_icu_answers_queries_without_the_texts_that_it_cannot_cut(uri: str) -> None:
    lance.write_dataset(pa.table({"id": [1, 2, 3], TEXT: ["東京 hello world", "hello", "world 東京"]}), uri)
    lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", base_tokenizer="icu", with_position=True)
    check_queries(uri, ["hello", "hello world", "world"])
    with pytest.raises(UnsupportedFeatureError, match="needs a dictionary"):
        lance_spark.open(uri).search("東京")
    lance.write_dataset(pa.table({"id": [4], TEXT: ["東京 world"]}), uri, mode="append")
    with pytest.raises(UnsupportedFeatureError, match="needs a dictionary"):
        lance_spark.open(uri).search("world")
    assert lance_spark.open(uri).search("world", fast_search=True).num_rows == 2


@pytest.mark.slow
@pytest.mark.parametrize("builder", ["reference", "own"])
def test_jieba(uri: str, builder: str, jieba_home: Path) -> None:
    # The reference library reads the dictionary for each query, so it is a small one.
    lines = (jieba_home / OF_PACKAGE / "dict.txt").read_text("utf-8").splitlines()[::100]
    (jieba_home / "jieba" / builder).mkdir()
    (jieba_home / "jieba" / builder / "dict.txt").write_text("\n".join(lines), "utf-8")
    words = [line.split()[0] for line in lines[::10]]
    choose = random.Random(3)
    rows = ["".join(choose.choices([*words, "，", " a "], k=choose.randint(0, 12))) for _ in range(300)]
    lance.write_dataset(pa.table({"id": range(300), TEXT: rows}), uri, max_rows_per_file=100)
    options = {"base_tokenizer": f"jieba/{builder}", "with_position": True}
    if builder == "own":
        lance_spark.open(uri).create_text_index(TEXT, **options)
    else:
        lance.dataset(uri).create_scalar_index(TEXT, "INVERTED", **options)
    check_queries(uri, [row[:size] for row in rows[::20] for size in (2, 4, 7) if row] + choose.choices(words, k=20))


@pytest.mark.slow
def test_index_is_compacted_without_its_dictionary(
    uri: str, jieba_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for mode, rows in (("create", ["北京大学", "上海"]), ("append", ["北京", "大学生"])):
        lance.write_dataset(pa.table({"id": [len(mode), 0], TEXT: rows}), uri, mode=mode)
    lance_spark.open(uri).create_text_index(TEXT, base_tokenizer=OF_PACKAGE)
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path))
        lance_spark.open(uri).compact()
        with pytest.raises(UnsupportedFeatureError, match="needs its dictionary in"):
            lance_spark.open(uri).search("上海大学")
    assert lance_spark.open(uri).search("上海大学").num_rows == 3
