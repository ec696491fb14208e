"""Full-text search on both kinds of tables."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.search.text_search import SearchRequest

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "p": ["a", "a", "b", "b", "c", "c"],
        "title": ["red apple", "green apple", "red red rose", None, "blue", "The Apples of Eden"],
    }
)


def plain() -> Any:
    return lance_spark.write(ROWS, f"memory://search-{uuid.uuid4().hex}")


def partitioned() -> Any:
    root = f"memory://search-{uuid.uuid4().hex}"
    return create_partitioned_dataset(root, ROWS.schema, [PartitionBy("p", ("p",), Identity())]).append(ROWS)


@pytest.fixture(params=[plain, partitioned], ids=["plain", "partitioned"])
def dataset(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_rows_come_best_first_with_scores(dataset: Any) -> None:
    found = dataset.search("red apple")
    assert found.column_names == ["id", "p", "title", "_score"]
    assert found["id"].to_pylist() == plain().search("red apple")["id"].to_pylist()
    assert found["_score"].equals(plain().search("red apple")["_score"])
    assert sorted(found["id"].to_pylist()) == [1, 2, 3, 6]
    assert found["id"][0].as_py() == 1


def test_limit_offset_filter_and_columns(dataset: Any) -> None:
    full = dataset.search("red apple", columns=["title"])
    assert dataset.search("red apple", columns=["title"], limit=2, offset=1).equals(full.slice(1, 2).combine_chunks())
    found = dataset.search("apple", columns=["id"], filter="p <> 'a'")
    assert found["id"].to_pylist() == [6]
    everywhere = dict(zip(*dataset.search("apple", columns=["id"]).columns, strict=True))
    assert found["_score"][0] == everywhere[pa.scalar(6)]
    assert dataset.search("apple", columns=["id"], with_score=False).column_names == ["id"]
    assert dataset.search("apple", columns=[], with_score=False).num_rows == 3
    assert dataset.search("nothing", with_row_id=True).column_names == ["id", "p", "title", "_score", "_rowid"]


def test_phrase_and_operators(dataset: Any) -> None:
    def ids(query: Any) -> list[int]:
        return sorted(dataset.search(query, search_columns=["title"])["id"].to_pylist())

    assert ids(lance_spark.PhraseQuery("red rose")) == [3]
    assert ids(lance_spark.MatchQuery("red apple", operator="AND")) == [1]
    assert ids(lance_spark.MatchQuery("appl", fuzziness=1)) == [1, 2, 6]
    without = lance_spark.BooleanQuery(
        must=(lance_spark.MatchQuery("apple"),), must_not=(lance_spark.MatchQuery("green"),)
    )
    assert ids(without) == [1, 6]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"query": "x", "search_columns": ["nope"]}, NotFoundError, "nope"),
        ({"query": "x", "search_columns": ["id"]}, InvalidInputError, "'id' is int64"),
        ({"query": "x", "limit": -1}, InvalidInputError, "limit -1"),
        ({"query": 3}, InvalidInputError, "3 is neither words nor a text query"),
        ({"query": "x", "search_columns": "title"}, InvalidInputError, "must be a list"),
    ],
)
def test_bad_argument_is_refused(dataset: Any, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dataset.search(**arguments)


def test_a_column_with_the_name_of_the_score_is_refused_unless_left_out(dataset: Any) -> None:
    scored = dataset.add_columns({"_score": "id * 1.0"})
    with pytest.raises(InvalidInputError, match="has a column _score, and so has the table"):
        scored.search("rose")
    with pytest.raises(InvalidInputError, match="has a column _score, and so has the table"):
        scored.search_schema(SearchRequest("rose"))
    assert scored.search("rose", columns=["id"]).column_names == ["id", "_score"]
    assert scored.search("rose", columns=["_score"], with_score=False).to_pylist() == [{"_score": 3.0}]


def test_text_index_covers_new_rows_and_partitions(dataset: Any) -> None:
    made = dataset.create_scalar_index("title", "FTS", "words", stem=False)
    expected = [1, 2]
    assert sorted(made.search("apple")["id"].to_pylist()) == expected
    more = pa.table({"id": [7, 8], "p": ["a", "new"], "title": ["apple", "apples"]})
    is_plain = isinstance(made, lance_spark.Dataset)
    grown = lance_spark.write(more, made.uri, mode="append") if is_plain else made.append(more)
    assert grown.index_statistics("words")["num_unindexed_rows"] == 2
    optimized = grown.optimize_indices()
    found = optimized.index_statistics("words")
    assert (found["index_type"], found["num_indexed_rows"], found["num_unindexed_rows"]) == ("Inverted", 8, 0)
    for words, ids in {"apple": [1, 2, 7], "apples": [6, 8]}.items():
        assert sorted(optimized.search(words)["id"].to_pylist()) == ids
        assert sorted(optimized.to_table(["id"], f"lance_match(title, '{words}')")["id"].to_pylist()) == ids
    assert optimized.drop_index("words").list_indices() == []


def test_partition_without_an_index_is_searched_as_the_others_are() -> None:
    rows = pa.table({"p": [1, 1], "id": [0, 1], "text": ["dogs run", "a dog"], "items": [["fox dog", "fox"], ["dog"]]})
    later = pa.table({"p": [2, 2], "id": [2, 3], "text": ["dogs", "dog"], "items": [["cat", "the fox"], None]})
    root = f"memory://{uuid.uuid4()}"
    table = create_partitioned_dataset(root, rows.schema, [PartitionBy("p", ("p",), Identity())]).append(rows)
    table = table.create_scalar_index("text", "INVERTED", stem=False)
    table = table.create_scalar_index("items", "INVERTED", document_granularity="LIST_ELEMENT").append(later)
    for searched in (table, table.optimize_indices()):
        assert sorted(searched.search("dogs", ["id"], search_columns=["text"])["id"].to_pylist()) == [0, 2]
        assert sorted(searched.to_table(["id"], "lance_match(text, 'dogs')")["id"].to_pylist()) == [0, 2]
        assert searched.to_table(["id"], "p = 2 AND lance_match(text, 'dogs')")["id"].to_pylist() == [2]
        for use_index in (True, False):
            found = searched.search("fox", ["id"], search_columns=["items"], use_index=use_index)
            assert sorted(zip(found["id"].to_pylist(), found["_doc_index"].to_pylist(), strict=True)) == [
                (0, [0]),
                (0, [1]),
                (2, [1]),
            ]


def test_score_is_where_the_columns_name_it(dataset: Any) -> None:
    for columns in (["_score", "id"], ["id", "_score", "p"], ["_score"], ["id", "p"]):
        found = dataset.search("red apple", columns)
        assert found.column_names == (columns if "_score" in columns else [*columns, "_score"])
        assert found["_score"].equals(dataset.search("red apple")["_score"])
        if isinstance(dataset, lance_spark.Dataset):
            assert dataset.to_table(columns, full_text_query="red apple").equals(found)
    with pytest.raises(InvalidInputError, match="no column _score: with_score is False"):
        dataset.search("red apple", ["_score"], with_score=False)
    with pytest.raises(InvalidInputError, match="no column _doc_index: the documents of this search are rows"):
        dataset.search("red apple", ["id", "_doc_index"])


@pytest.mark.parametrize("name", ["_score", "_relevance_score"])
def test_hybrid_search_refuses_columns_with_the_names_that_it_adds(name: str) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0], pa.float32()), 2)
    rows = pa.table({"id": [1, 2], "t": ["fox", "dog"], "v": vectors, name: [1, 2]})
    with pytest.raises(InvalidInputError, match=f"has a column {name}, and so has the table"):
        lance_spark.write(rows, f"memory://{uuid.uuid4()}").hybrid_search("v", [0, 1], "fox", 2)
