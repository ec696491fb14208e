"""Texts as users write them into a search, and filters of the best rows, beside the reference library."""

from __future__ import annotations

import uuid
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

TEXTS = [
    "quick brown fox",
    "brown quick fox",
    "fox quick",
    'say "quick brown" now',
    "quick",
    "brown",
    None,
    "quick a b",
]
ROWS = pa.table({"id": range(len(TEXTS)), "p": [number % 2 for number in range(len(TEXTS))], "t": TEXTS})

QUERIES = [
    "quick brown",
    '"quick brown"',
    '"brown quick"',
    '"quick"',
    '"quick-brown"',
    '""quick brown""',
    '"quick" "brown"',
    '"quick\\" brown"',
    '"quick brown" ',
    ' "quick brown"',
    '"quick brown',
    'quick brown"',
    '"quick" brown',
    '"quick brown" fox',
    "'quick brown'",
    "“quick brown”",
    '""',
    '" "',
    '"',
    "",
]


FIELD = PartitionBy("p", ("p",), Identity())


def partitioned(rows: pa.Table) -> Any:
    root = f"memory://written-{uuid.uuid4().hex}"
    return create_partitioned_dataset(root, rows.schema, [FIELD]).append(rows)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("written") / "t")
    lance.write_dataset(ROWS, uri).create_scalar_index("t", "INVERTED", with_position=True)
    return uri


@pytest.fixture(scope="module")
def tables(uri: str) -> list[Any]:
    """With positions, without them, without an index, and partitioned."""
    without = lance_spark.write(ROWS, f"memory://written-{uuid.uuid4().hex}")
    return [lance_spark.open(uri), without.create_text_index("t"), without, partitioned(ROWS)]


@pytest.mark.parametrize("text", QUERIES)
def test_a_text_in_double_quotes_is_a_phrase(uri: str, tables: list[Any], text: str) -> None:
    reference = lance.dataset(uri)
    for query in (text, {"query": text}, {"query": text, "columns": ["t"]}):
        expected = sorted(reference.to_table(["id"], full_text_query=query)["id"].to_pylist())
        for table in tables:
            assert sorted(table.to_table(["id"], full_text_query=query)["id"].to_pylist()) == expected
    assert sorted(tables[0].search(text, ["id"])["id"].to_pylist()) == expected


def test_words_of_a_query_of_words_are_words_in_quotes_too(uri: str, tables: list[Any]) -> None:
    text = '"quick brown"'
    theirs = lance.dataset(uri).to_table(["id"], full_text_query=lance.query.MatchQuery(text, "t"))
    own = tables[0].search(lance_spark.MatchQuery(text, "t"), ["id"])
    assert sorted(own["id"].to_pylist()) == sorted(theirs["id"].to_pylist())
    assert own.num_rows > 2


def test_scores_of_a_phrase_are_those_of_pylance(uri: str, tables: list[Any]) -> None:
    theirs, own = (each.to_table(["id"], full_text_query='"quick brown"') for each in (lance.dataset(uri), tables[0]))
    assert {row["id"]: row["_score"] for row in own.to_pylist()} == pytest.approx(
        {row["id"]: row["_score"] for row in theirs.to_pylist()}
    )


def test_a_phrase_is_found_beside_a_vector_too() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(number) for number in range(16)], pa.float32()), 2)
    table = lance_spark.write(ROWS.append_column("v", vectors), f"memory://written-{uuid.uuid4().hex}")
    found = table.hybrid_search("v", [0.0, 1.0], '"quick brown"', k=8, candidates=8)
    assert sorted(row["id"] for row in found.to_pylist() if row["_score"] is not None) == [0, 3]


RANKED = pa.table(
    {
        "id": range(20),
        "p": [number % 2 for number in range(20)],
        "t": ["fox " + "and " * number if number < 10 else "dog" for number in range(20)],
    }
)


@pytest.fixture(scope="module")
def ranked_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("ranked") / "t")
    lance.write_dataset(RANKED, uri).create_scalar_index("t", "INVERTED", remove_stop_words=False)
    return uri


@pytest.fixture(scope="module")
def ranked(ranked_uri: str) -> list[Any]:
    """Plain and partitioned, with an index and without."""
    bare = [lance_spark.write(RANKED, f"memory://ranked-{uuid.uuid4().hex}"), partitioned(RANKED)]
    words = {"remove_stop_words": False}
    return [lance_spark.open(ranked_uri), *(table.create_scalar_index("t", "INVERTED", **words) for table in bare)]


@pytest.mark.parametrize("limits", [{}, {"limit": 3}, {"limit": 5}, {"limit": 3, "offset": 1}, {"offset": 2}], ids=str)
@pytest.mark.parametrize("prefilter", [None, True, False])
def test_filters_before_and_after_the_best_rows(
    ranked_uri: str, ranked: list[Any], prefilter: bool | None, limits: dict[str, int]
) -> None:
    for condition in ("id % 2 = 1", "p = 0", "id > 5", "id > 100", None):
        arguments = {"full_text_query": "fox", "filter": condition, **limits}
        if prefilter is not None:
            arguments["prefilter"] = prefilter
        expected = lance.dataset(ranked_uri).to_table(["id"], **arguments)
        for table in ranked:
            found = table.to_table(["id"], **arguments)
            assert found["id"].to_pylist() == expected["id"].to_pylist(), (condition, table)
            assert found["_score"].to_pylist() == pytest.approx(expected["_score"].to_pylist())


def test_a_search_filters_first_unless_it_is_asked_not_to(ranked: list[Any]) -> None:
    for table in ranked:
        assert table.search("fox", ["id"], 3, filter="id % 2 = 1")["id"].to_pylist() == [1, 3, 5]
        assert table.search("fox", ["id"], 3, filter="id % 2 = 1", prefilter=False)["id"].to_pylist() == [1]
        with pytest.raises(InvalidInputError, match="prefilter belongs to"):
            table.to_table(prefilter=False)


def test_a_partitioned_table_without_partitions_has_no_best_rows() -> None:
    table = partitioned(RANKED).delete("true")
    for empty in (table, create_partitioned_dataset(f"memory://{uuid.uuid4().hex}", RANKED.schema, [FIELD])):
        found = empty.to_table(["id"], full_text_query="fox", filter="id > 3", limit=2)
        assert (found.num_rows, found.column_names) == (0, ["id", "_score"])


def test_the_best_items_of_lists_are_filtered_by_their_rows() -> None:
    rows = pa.table({"id": [0, 1, 2], "t": [["fox", "fox and a dog"], ["fox and"], ["dog"]]})
    table = lance_spark.write(rows, f"memory://{uuid.uuid4().hex}")
    table = table.create_text_index("t", document_granularity="LIST_ELEMENT", remove_stop_words=False)
    everything = table.search("fox", ["id"])
    assert [(row["id"], row["_doc_index"]) for row in everything.to_pylist()] == [(0, [0]), (1, [0]), (0, [1])]
    found = table.search("fox", ["id"], 2, filter="id = 0", prefilter=False)
    assert [(row["id"], row["_doc_index"]) for row in found.to_pylist()] == [(0, [0])]
