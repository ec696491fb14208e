"""Text indexes whose documents are the items of lists."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import query as reference

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.index.text.queries import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery, TextQuery
from lance_spark.index.text.search import RowScores
from lance_spark.spark.connector.search.text_search import TextSearch
from lance_spark.table.search.text_search import SearchRequest
from tests.support.text_turns import extend_by_turns

WORDS = ["the", *(f"w{number}" for number in range(12))]
ELEMENTS = reference.DocumentGranularity.LIST_ELEMENT
Scores = dict[tuple[int, int], float]


def table(num_rows: int, seed: int, first_id: int = 0) -> pa.Table:
    choose = random.Random(seed)

    def item() -> str | None:
        return None if choose.random() < 0.1 else " ".join(choose.choices(WORDS, k=choose.randint(0, 6)))

    lists = [None if row % 11 == 4 else [item() for _ in range(choose.randint(0, 4))] for row in range(num_rows)]
    ids = range(first_id, first_id + num_rows)
    return pa.table({"id": ids, "l": pa.array(lists, pa.list_(pa.string())), "s": ["w1"] * num_rows})


def scores(found: pa.Table) -> Scores:
    keys = [(id_, item) for id_, (item,) in zip(found["id"].to_pylist(), found["_doc_index"].to_pylist(), strict=True)]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found["_score"].to_pylist(), strict=True))


def asked(uri: str, query: Any, **options: Any) -> Scores:
    scanner = lance.dataset(uri).scanner(columns=["id", "_doc_index", "_score"], full_text_query=query, **options)
    return scores(scanner.to_table())


def match(choose: random.Random) -> tuple[Any, MatchQuery]:
    words = " ".join(choose.choices(WORDS[1:], k=choose.randint(1, 3)))
    operator = choose.choice(["OR", "AND"])
    theirs = reference.MatchQuery(words, "l", operator=reference.FullTextOperator[operator])
    return theirs, MatchQuery(words, "l", operator=operator)


def pairs(choose: random.Random) -> list[tuple[Any, TextQuery]]:
    (one, mine), (two, less) = match(choose), match(choose)
    words = " ".join(choose.choices(WORDS[1:], k=2))
    must = [(reference.Occur.MUST, one), (reference.Occur.MUST_NOT, two)]
    return [
        (one, mine),
        (reference.PhraseQuery(words, "l"), PhraseQuery(words, "l")),
        (reference.BooleanQuery(must), BooleanQuery(must=mine, must_not=less)),
        (reference.BoostQuery(one, two), BoostQuery(mine, less)),
    ]


def check(uri: str, seed: int, *, exact: bool = True) -> None:
    """Random queries have the items and scores of the reference library, and the items of a scan."""
    choose = random.Random(seed)
    dataset = lance_spark.open(uri)
    hits = 0
    for _ in range(6):
        for theirs, ours in pairs(choose):
            expected, found = asked(uri, theirs), dataset.search(ours)
            own = scores(found)
            assert own.keys() == expected.keys(), ours
            assert own == (expected if exact else pytest.approx(expected, rel=1e-5, abs=1e-5)), ours
            assert scores(dataset.search(ours, use_index=False)).keys() == expected.keys(), ours
            assert found.slice(0, 5).equals(dataset.search(ours, limit=5)), ours
            assert scores(dataset.search(ours, filter="id % 2 = 0")).keys() == {key for key in own if key[0] % 2 == 0}
            hits += len(own)
    assert hits > 20


@pytest.mark.parametrize("stable", [True, False])
def test_reference_index_has_our_items(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    written = lance.write_dataset(table(300, 1), uri, enable_stable_row_ids=stable)
    written.create_scalar_index("l", "INVERTED", with_position=True, document_granularity=ELEMENTS)
    check(uri, 2)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
def test_our_index_is_searched_and_extended_by_turns(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    lance.write_dataset(table(300, 3), uri, enable_stable_row_ids=stable)
    lance_spark.open(uri).create_text_index("l", with_position=True, document_granularity="list_element")
    assert [index["name"] for index in lance.dataset(uri).list_indices()] == ["l_list_element_idx"]
    check(uri, 4)
    extend_by_turns(uri, table, check)
    lance_spark.open(uri).optimize_indices(num_indices_to_merge=9)
    check(uri, 6, exact=False)


def test_scanned_items_have_the_scores_of_indexed_ones(tmp_path: Path) -> None:
    """Also those without terms count, as in an index."""
    lance.write_dataset(table(200, 7), str(tmp_path))
    dataset = lance_spark.open(str(tmp_path))
    query = MatchQuery("w1 w3", "l", document_granularity="LIST_ELEMENT")
    scanned = dataset.search(query)
    assert scanned.schema.field("_doc_index").type == pa.list_(pa.field("item", pa.uint32(), nullable=False))
    indexed = dataset.create_text_index("l", document_granularity="LIST_ELEMENT")
    assert indexed.search(query).equals(scanned)
    assert indexed.search(MatchQuery("w1 w3", "l")).equals(scanned)
    # Not the order of its documents: rows have moved.
    moved = lance_spark.write(table(200, 8, 500), str(tmp_path), mode="append")
    moved.update({"s": "'new'"}, "id < 50")
    found = scores(lance_spark.open(str(tmp_path)).search(query))
    assert found.keys() == scores(lance_spark.open(str(tmp_path)).search(query, use_index=False)).keys()


def test_rows_and_items_are_chosen_by_the_query(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "l": [["quick fox", "fox dog"], ["dog"]]})
    dataset = lance_spark.write(rows, str(tmp_path)).create_text_index("l", document_granularity="LIST_ELEMENT")
    both = MatchQuery("quick dog", "l", operator="AND")
    assert dataset.search(both).num_rows == 0
    as_row = MatchQuery("quick dog", "l", operator="AND", document_granularity="ROW")
    assert dataset.search(as_row)["id"].to_pylist() == [1]
    # A filter is about rows.
    assert dataset.count_rows("lance_match(l, 'quick dog', 'operator=AND')") == 1
    dataset = dataset.create_text_index("l")
    with pytest.raises(InvalidInputError, match="document_granularity"):
        dataset.search(both)
    assert dataset.search(as_row)["id"].to_pylist() == [1]
    assert dataset.search(MatchQuery("fox", "l", document_granularity="LIST_ELEMENT")).num_rows == 2


def test_items_are_not_compared_with_other_documents(tmp_path: Path) -> None:
    dataset = lance_spark.write(table(20, 1), str(tmp_path)).create_text_index("l", document_granularity="LIST_ELEMENT")
    items, rows = MatchQuery("w1", "l"), MatchQuery("w1", "s")
    for query in (BooleanQuery(must=(items, rows)), BoostQuery(items, rows), MultiMatchQuery("w1", ("l", "s"))):
        with pytest.raises(InvalidInputError, match="items of a list column"):
            dataset.search(query)
    with pytest.raises(InvalidInputError, match="lists of strings"):
        dataset.create_text_index("s", document_granularity="LIST_ELEMENT")
    with pytest.raises(InvalidInputError, match="ITEM"):
        MatchQuery("w1", "l", document_granularity="ITEM")


ITEMS_OF_LISTS = {"l.k": [(2, [2, 1])], "l.a.t": [(2, [1, 0]), (3, [0, 1])], "l.a.k": [(2, [1, 0, 2])]}


@pytest.mark.parametrize("column", ITEMS_OF_LISTS)
@pytest.mark.parametrize("builder", ["reference", "ours", "both", "nobody"])
def test_items_of_lists_in_lists_have_a_number_at_each_level(tmp_path: Path, column: str, builder: str) -> None:
    inner = pa.struct({"t": pa.string(), "k": pa.list_(pa.string())})
    lists = [
        None,
        [],
        [None, {"k": None, "a": [{"t": "fox", "k": ["x", None, "red fox"]}, None]}, {"k": ["", "fox"], "a": None}],
        [{"k": ["dog"], "a": [{"t": "dog", "k": []}, {"t": "a fox", "k": None}]}],
    ]
    dtype = pa.list_(pa.struct({"k": pa.list_(pa.string()), "a": pa.list_(inner)}))
    uri = str(tmp_path)
    written = lance.write_dataset(pa.table({"id": range(4), "l": pa.array(lists, dtype)}), uri)
    if builder in ("reference", "both"):
        written.create_scalar_index(column, "INVERTED", document_granularity=ELEMENTS)
    if builder == "both":
        more = pa.table({"id": range(10, 14), "l": pa.array(lists, dtype)})
        lance_spark.write(more, uri, mode="append").optimize_indices(num_indices_to_merge=1)
    if builder == "ours":
        lance_spark.open(uri).create_text_index(column, document_granularity="LIST_ELEMENT")
    query = MatchQuery("fox", column, document_granularity="LIST_ELEMENT")
    dataset = lance_spark.open(uri)
    for use_index in (True, False):
        found = dataset.search(query, ["id"], use_index=use_index)
        items = sorted(zip(found["id"].to_pylist(), found["_doc_index"].to_pylist(), strict=True))
        added = [(id_ + 10, item) for id_, item in ITEMS_OF_LISTS[column]] if builder == "both" else []
        assert items == [*ITEMS_OF_LISTS[column], *added]
    if builder != "nobody":
        theirs = lance.dataset(uri).to_table(columns=["id"], full_text_query=reference.MatchQuery("fox", column))
        keys = zip(theirs["id"].to_pylist(), theirs["_doc_index"].to_pylist(), strict=True)
        assert sorted(keys) == items
        scores_of = [sorted(table["_score"].to_pylist()) for table in (theirs, dataset.search(query, ["id"]))]
        assert scores_of[0] == pytest.approx(scores_of[1], rel=1e-6)


def test_rows_have_the_best_score_of_their_items() -> None:
    """As hybrid searches count them."""
    addresses, items = np.array([3, 3, 7, 9, 9], np.uint64), np.array([[0], [4], [1], [0], [1]], np.uint32)
    found = RowScores(addresses, np.array([1, 2, 3, 5, 4], np.float32), items).by_row()
    assert (found.addresses.tolist(), found.scores.tolist(), found.items) == ([3, 7, 9], [2, 3, 5], None)
    assert len(RowScores.none(1).by_row().scores) == 0


def test_results_of_sql_have_the_numbers_of_items(tmp_path: Path) -> None:
    dataset = lance_spark.write(table(20, 1), str(tmp_path)).create_text_index("l", document_granularity="LIST_ELEMENT")
    found = TextSearch(dataset, SearchRequest("w1", ["l"]), ["id"], None, False)
    assert found.found().schema == found.schema()
    assert found.schema().names == ["id", "_doc_index", "_score"]
    assert found.found().equals(dataset.search("w1", ["id"]))
    assert found.found().num_rows > 0


def test_order_of_equal_scores_is_that_of_rows_and_items(tmp_path: Path) -> None:
    rows = pa.table({"id": range(40), "l": [["w1", "x", "w1"]] * 40})
    dataset = lance_spark.write(rows, str(tmp_path), max_rows_per_file=7)
    dataset = dataset.create_text_index("l", document_granularity="LIST_ELEMENT")
    found = dataset.search("w1", limit=5)
    assert found["id"].to_pylist() == [0, 0, 1, 1, 2]
    assert np.concatenate(found["_doc_index"].to_pylist()).tolist() == [0, 2, 0, 2, 0]
