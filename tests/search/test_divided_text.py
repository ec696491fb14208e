"""The pieces of a text search find together what the search finds, with the same scores."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.index.text import part
from lance_spark.index.text.queries import BoostQuery, MatchQuery, PhraseQuery
from lance_spark.table.search import text_columns
from lance_spark.table.search.divided import knowing
from lance_spark.table.search.text_search import SearchRequest

WORDS = ["sea", "lake", "wood", "tree", "rare", "stone", "seas", "ährenfeld", "wooden"]
COUNT = 900


@pytest.fixture(scope="module", params=["no index", "index", "ngrams", "two indexes"])
def dataset(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> lance_spark.Dataset:
    """Nine fragments, of which an index of `a` covers three, and deleted rows in all."""
    rng, uri = random.Random(5), str(tmp_path_factory.mktemp("divided") / "t")

    def text() -> str | None:
        return (
            None if rng.random() < 0.05 else " ".join(rng.choices(WORDS, range(len(WORDS), 0, -1), k=rng.randint(0, 9)))
        )

    for start in range(0, COUNT, 300):
        columns = {name: [text() for _ in range(300)] for name in ("a", "b")}
        rows = pa.table({"id": range(start, start + 300), **columns})
        lance_spark.write(rows, uri, mode="overwrite" if start == 0 else "append", max_rows_per_file=100)
        if start == 0 and request.param != "no index":
            options: dict[str, Any] = {"base_tokenizer": "ngram"} if request.param == "ngrams" else {"stem": False}
            lance_spark.open(uri).create_text_index("a", **options)
            if request.param == "two indexes":
                lance_spark.open(uri).create_text_index("b")
    return lance_spark.open(uri).delete("id % 11 = 0")


@pytest.mark.parametrize("piece_bytes", [0, 30_000])
@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "sea"},
        {"query": "rare wooden sea", "limit": 20},
        {"query": "lake nothing", "search_columns": ("b",), "limit": 7, "offset": 3},
        {"query": "wood tree", "search_columns": ("a", "b"), "limit": 50},
        {"query": MatchQuery("stone sea", "a", operator="AND", boost=2.0)},
        {"query": "sea", "search_columns": ("a",), "fast_search": True},
        {"query": "sea", "use_index": False},
        {"query": "nothing"},
    ],
)
def test_rows_and_scores_are_those_of_the_search(
    dataset: lance_spark.Dataset, arguments: dict[str, Any], piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SearchRequest(**arguments)
    divided = dataset.divided_search(request, piece_bytes)
    results = []
    for piece in reversed(divided.pieces):
        results += pickle.loads(pickle.dumps(dataset.found_in(request, pickle.loads(pickle.dumps(piece)))))
    expected = dataset.searched_texts(request, ["id"], "id % 2 = 0", with_row_address=True)
    whole = dataset.searched_texts(request, ["id"], with_row_address=True)

    def refused(*_: object) -> part.AnalyzedPart:
        raise AssertionError("the rows were read again")

    monkeypatch.setattr(text_columns.TextColumns, "_analyzed", refused)
    known = knowing(request, results)
    assert dataset.searched_texts(known, ["id"], "id % 2 = 0", with_row_address=True) == expected
    assert dataset.searched_texts(known, ["id"], with_row_address=True) == whole
    assert divided.num_bytes > 0 or not divided.pieces
    if piece_bytes == 0 and not arguments.get("fast_search"):
        assert len(divided.pieces) >= 6


@pytest.mark.parametrize(
    "query",
    [
        MatchQuery("saa", "a", fuzziness=1),
        PhraseQuery("sea lake", "a"),
        BoostQuery(MatchQuery("sea"), MatchQuery("lake")),
    ],
)
def test_queries_of_more_than_their_own_words_are_not_divided(dataset: lance_spark.Dataset, query: Any) -> None:
    assert dataset.divided_search(SearchRequest(query), 0).pieces == ()


def test_other_rows_than_the_pieces_had_are_read(dataset: lance_spark.Dataset) -> None:
    request = SearchRequest("sea", ("a",))
    pieces = dataset.divided_search(request, 0).pieces
    results = [found for piece in pieces[1:] for found in dataset.found_in(request, piece)]
    assert dataset.searched_texts(knowing(request, results)) == dataset.searched_texts(request)
