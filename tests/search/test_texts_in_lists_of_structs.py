"""Text indexes over members of structs in lists: `l.t` is the text of all `t` of a row's list."""

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
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.index.members import member_values
from lance_spark.index.text.queries import MatchQuery, PhraseQuery, TextQuery
from tests.support.text_turns import extend_by_turns

WORDS = [f"w{number}" for number in range(12)]
ITEM = pa.struct({"t": pa.string(), "n": pa.int32(), "k": pa.list_(pa.string())})
TYPE = pa.list_(ITEM)
ELEMENTS = reference.DocumentGranularity.LIST_ELEMENT
Key = tuple[int, ...]


def table(num_rows: int, seed: int, first_id: int = 0) -> pa.Table:
    choose = random.Random(seed)

    def text() -> str | None:
        return None if choose.random() < 0.1 else " ".join(choose.choices(WORDS, k=choose.randint(0, 5)))

    def item() -> dict[str, Any] | None:
        tags = None if choose.random() < 0.1 else [text() for _ in range(choose.randint(0, 2))]
        return None if choose.random() < 0.1 else {"t": text(), "n": 1, "k": tags}

    rows = [None if choose.random() < 0.1 else [item() for _ in range(choose.randint(0, 3))] for _ in range(num_rows)]
    ids = range(first_id, first_id + num_rows)
    return pa.table({"id": ids, "l": pa.array(rows, TYPE), "s": ["w1"] * num_rows})


def scores(found: pa.Table) -> dict[Key, float]:
    items = found["_doc_index"].to_pylist() if "_doc_index" in found.column_names else [[]] * found.num_rows
    keys = [(id_, *item) for id_, item in zip(found["id"].to_pylist(), items, strict=True)]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found["_score"].to_pylist(), strict=True))


def pairs(choose: random.Random, column: str) -> list[tuple[Any, TextQuery]]:
    words = " ".join(choose.choices(WORDS, k=choose.randint(1, 3)))
    two = " ".join(choose.choices(WORDS, k=2))
    return [
        (reference.MatchQuery(words, column), MatchQuery(words, column)),
        (
            reference.MatchQuery(two, column, operator=reference.FullTextOperator.AND),
            MatchQuery(two, column, operator="AND"),
        ),
        (reference.PhraseQuery(two, column), PhraseQuery(two, column)),
    ]


def checker(column: str) -> Any:
    def check(uri: str, seed: int, *, exact: bool = True) -> None:
        """Random queries have the documents and scores of the reference library, and the documents of a scan."""
        choose, dataset, hits = random.Random(seed), lance_spark.open(uri), 0
        for theirs, ours in [pair for _ in range(6) for pair in pairs(choose, column)]:
            expected = scores(lance.dataset(uri).to_table(columns=["id"], full_text_query=theirs))
            found = dataset.search(ours)
            own = scores(found)
            assert own == (expected if exact else pytest.approx(expected, rel=1e-5, abs=1e-5)), ours
            assert scores(dataset.search(ours, use_index=False)).keys() == own.keys(), ours
            assert found.slice(0, 5).equals(dataset.search(ours, limit=5)), ours
            assert scores(dataset.search(ours, filter="id % 2 = 0")).keys() == {key for key in own if key[0] % 2 == 0}
            hits += len(own)
        assert hits > 20

    return check


COLUMNS = [("l.t", "ROW"), ("l.t", "LIST_ELEMENT"), ("l.k", "ROW"), ("l.k", "LIST_ELEMENT")]


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize(("column", "granularity"), COLUMNS)
def test_reference_index_is_searched(tmp_path: Path, column: str, granularity: str, stable: bool) -> None:
    written = lance.write_dataset(table(300, 1), str(tmp_path), enable_stable_row_ids=stable)
    options = {"document_granularity": ELEMENTS} if granularity != "ROW" else {}
    written.create_scalar_index(column, "INVERTED", with_position=True, **options)
    checker(column)(str(tmp_path), 2)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize(("column", "granularity"), COLUMNS)
def test_our_index_is_searched_and_extended_by_turns(
    tmp_path: Path, column: str, granularity: str, stable: bool
) -> None:
    uri, check = str(tmp_path), checker(column)
    lance.write_dataset(table(300, 3), uri, enable_stable_row_ids=stable)
    lance_spark.open(uri).create_text_index(column, with_position=True, document_granularity=granularity)
    (index,) = lance.dataset(uri).list_indices()
    assert index["name"] == column + ("_idx" if granularity == "ROW" else "_list_element_idx")
    check(uri, 4)
    extend_by_turns(uri, table, check)
    lance_spark.open(uri).optimize_indices(num_indices_to_merge=9)
    check(uri, 6, exact=False)


@pytest.mark.parametrize("stable", [True, False])
def test_changed_rows_are_found_by_their_present_texts(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    lance.write_dataset(table(200, 5), uri, enable_stable_row_ids=stable, max_rows_per_file=80)
    dataset = lance_spark.open(uri).create_text_index("l.t", with_position=True)
    source = pa.table(
        {"id": [3, 90, 500], "l": pa.array([[{"t": "new"}], None, [{"t": "new w1"}]], TYPE), "s": ["x"] * 3}
    )
    for step in range(4):
        if step == 0:
            dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
        elif step == 1:
            dataset.update({"s": "'y'"}, "id % 3 = 0")
        elif step == 2:
            dataset.delete("id % 5 = 1")
        else:
            lance_spark.open(uri).compact()
        dataset = lance_spark.open(uri)
        rows = dataset.to_table(["id", "l"]).to_pylist()
        for word in ("new", "w1", "w7"):
            texts = {row["id"]: [(item and item["t"]) or "" for item in row["l"] or []] for row in rows}
            expected = {(id_,) for id_, of_row in texts.items() if word in " ".join(of_row).split()}
            assert scores(dataset.search(MatchQuery(word, "l.t"))).keys() == expected, (step, word)
            assert scores(dataset.search(MatchQuery(word, "l.t"), use_index=False)).keys() == expected, (step, word)


def test_columns_that_no_index_can_have_are_refused(tmp_path: Path) -> None:
    dataset = lance_spark.write(table(20, 1), str(tmp_path))
    for kind, column in (("BTREE", "l.n"), ("BTREE", "l.item.n"), ("LABEL_LIST", "l.k"), ("INVERTED", "l.n")):
        with pytest.raises((InvalidInputError, NotFoundError)):
            dataset.create_scalar_index(column, kind)
    with pytest.raises(InvalidInputError, match="inside of a"):
        dataset.create_text_index("l.item.k.item")
    with pytest.raises(InvalidInputError, match="inside of a"):
        dataset.search(MatchQuery("w1", "l.item.k.item"))
    with pytest.raises(NotFoundError):
        dataset.create_text_index("l.x")
    assert dataset.list_indices() == []


def test_searches_without_a_column_ask_indexes_in_lists(tmp_path: Path) -> None:
    lance.write_dataset(table(100, 1), str(tmp_path)).create_scalar_index("l.t", "INVERTED")
    expected = lance.dataset(str(tmp_path)).to_table(columns=["id"], full_text_query="w2")
    assert scores(lance_spark.open(str(tmp_path)).search("w2", ["id"])) == scores(expected)


def test_members_of_structs_in_lists_are_one_list_for_each_row() -> None:
    choose = random.Random(2)
    inner = pa.struct({"t": pa.list_(pa.int8())})
    dtype = pa.struct({"l": pa.list_(pa.large_list(inner))})

    def maybe(value: Any) -> Any:
        return None if choose.random() < 0.2 else value

    def items(make: Any) -> list[Any]:
        return [make() for _ in range(choose.randint(0, 3))]

    def struct() -> Any:
        return maybe({"t": maybe(items(lambda: maybe(choose.randint(0, 9))))})

    rows = [maybe({"l": maybe(items(lambda: maybe(items(struct))))}) for _ in range(200)]
    expected = [
        [n for part in (row and row["l"]) or () for one in part or () for n in (one and one["t"]) or ()] for row in rows
    ]
    values = pa.array([{"l": []}, *rows], dtype).slice(1)
    assert member_values(values, ["l", "item", "item", "t"]).to_pylist() == expected
    # Items under a null list are not those of a row.
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 2]), values.field("l").values.values.slice(0, 2), mask=pa.array([True, False])
    )
    found = member_values(hidden, ["item", "t"])
    assert found[0].as_py() == []
    assert np.all(found.offsets.to_numpy() >= 0)


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("column", ["l.t", "l.k"])
def test_filters_find_the_rows_that_a_search_finds(tmp_path: Path, column: str, is_indexed: bool) -> None:
    data = table(300, 4)
    dataset = lance_spark.write(data, str(tmp_path))
    if is_indexed:
        dataset = lance_spark.open(str(tmp_path)).create_text_index(column)
        dataset = dataset.append(table(40, 5, first_id=300)).delete("id % 9 = 1")
    lists = dict(zip(*dataset.to_table(["id", "l"]).to_pydict().values(), strict=True))
    for words in ("w1", "w3 w7", "w2 w2 w11"):
        found = set(dataset.search(MatchQuery(words, column), ["id"])["id"].to_pylist())
        both = set(dataset.search(MatchQuery(words, column, operator="AND"), ["id"])["id"].to_pylist())
        expected = {
            f"lance_match({column}, '{words}')": found,
            f"lance_match({column.upper()}, '{words}', 'operator=AND')": both,
            f"lance_match({column}, '{words}') AND id < 100": {id_ for id_ in found if id_ < 100},
            f"lance_match({column}, '{words}') OR id < 100": {id_ for id_ in lists if id_ < 100} | found,
            f"NOT lance_match({column}, '{words}')": {id_ for id_, list_ in lists.items() if list_ is not None} - found,
        }
        assert found
        for condition, ids in expected.items():
            assert set(dataset.to_table(["id"], condition)["id"].to_pylist()) == ids, condition
            assert dataset.count_rows(condition) == len(ids), condition


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("lance_match(l.n, 'w1')", InvalidInputError, "text search needs strings"),
        ("lance_match(l, 'w1')", InvalidInputError, "text search needs strings"),
        ("lance_match(l.no, 'w1')", NotFoundError, "no field no"),
        ("l.t = 'w1' AND lance_match(l.t, 'w1')", InvalidInputError, "only a struct has fields"),
        ("lance_match(l.t, 'w1') IS NULL", InvalidInputError, "only a struct has fields"),
    ],
)
def test_other_conditions_on_members_of_lists_are_refused(
    tmp_path: Path, condition: str, error: type[Exception], message: str
) -> None:
    dataset = lance_spark.write(table(20, 4), str(tmp_path))
    with pytest.raises(error, match=message):
        dataset.to_table(["id"], condition)
