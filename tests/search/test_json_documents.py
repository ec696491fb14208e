"""Text indexes of JSON columns: terms are paths, types and values."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import query as reference

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.index.text.queries import MatchQuery, PhraseQuery
from tests.search.comparisons import asked, scores
from tests.support.text_turns import extend_by_turns

WORDS = ["The", "running", "dogs", "Café", "don't", "lazy", "x1", "very", "of"]
NUMBERS = [0, 1, -3, 1.0, -0.0, 0.5, 1e16, 1.25e-5, 1e-6, 1.5e300, 1 << 63, -(1 << 63), 123456789012345680.0]


def document(choose: random.Random, depth: int = 0) -> Any:
    kind = choose.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return choose.choice([None, True, False])
    if kind == 1:
        return choose.choice(NUMBERS)
    if kind < 5:
        return " ".join(choose.choices(WORDS, k=choose.randint(0, 5)))
    if kind == 5:
        return [document(choose, depth + 1) for _ in range(choose.randint(0, 3))]
    return {choose.choice(["a", "b", "Key", "x y", ""]): document(choose, depth + 1) for _ in range(3)}


def table(num_rows: int, seed: int, first_id: int = 0) -> pa.Table:
    choose = random.Random(seed)
    texts = [
        None if row % 17 == 3 else json.dumps({"a": document(choose), "b": document(choose, 1)})
        for row in range(num_rows)
    ]
    return pa.table({"id": range(first_id, first_id + num_rows), "doc": pa.array(texts, pa.json_())})


def triples(choose: random.Random) -> str:
    path = choose.choice(["a", "b", "a.a", "a.b", "a.Key", "b.x y", "a.b.a", "b."])
    kind = choose.randrange(4)
    if kind == 0:
        number = choose.choice(["0", "1", "-3", "1.0", "-0.0", "0.5", "1e+16", "0.0000125", "1e-6", "1.5e+300"])
        return f"{path},number,{number}"
    if kind == 1:
        return choose.choice([f"{path},bool,true", f"{path},null,null"])
    return f"{path},str,{' '.join(choose.choices(WORDS, k=choose.randint(1, 2)))}"


def check(uri: str, seed: int, *, exact: bool = True) -> None:
    """Random queries have the rows and scores of the reference library."""
    choose = random.Random(seed)
    dataset = lance_spark.open(uri)
    hits = 0
    for _ in range(15):
        words = ";".join(triples(choose) for _ in range(choose.randint(1, 3)))
        operator = choose.choice(["OR", "AND"])
        pairs: list[tuple[Any, Any]] = [
            (
                reference.MatchQuery(words, "doc", operator=reference.FullTextOperator[operator]),
                MatchQuery(words, "doc", operator=operator),
            ),
            (reference.MatchQuery(words, "doc", fuzziness=1), MatchQuery(words, "doc", fuzziness=1)),
            (reference.PhraseQuery(words, "doc"), PhraseQuery(words, "doc")),
        ]
        for theirs, ours in pairs:
            expected, found = asked(uri, theirs), scores(dataset.search(ours))
            assert found.keys() == expected.keys(), ours
            assert found == (expected if exact else pytest.approx(expected, rel=1e-5)), ours
            assert scores(dataset.search(ours, use_index=False)).keys() == expected.keys(), ours
            best = dataset.search(ours, limit=3)["_score"].to_pylist()
            assert best == sorted(found.values(), reverse=True)[:3]
            hits += len(found)
    assert hits > 30


@pytest.mark.parametrize("stable", [True, False])
def test_reference_index_has_our_rows(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    written = lance.write_dataset(table(300, 1), uri, enable_stable_row_ids=stable)
    written.create_scalar_index("doc", "INVERTED", with_position=True)
    check(uri, 2)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [True, False])
def test_our_index_is_searched_and_extended_by_turns(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    lance.write_dataset(table(300, 3), uri, enable_stable_row_ids=stable)
    lance_spark.open(uri).create_text_index("doc", with_position=True)
    check(uri, 4)
    extend_by_turns(uri, table, check)


def test_rows_without_an_index_are_analyzed_as_documents(tmp_path: Path) -> None:
    """The reference library analyzes their JSON text, and finds the words of keys."""
    uri = str(tmp_path)
    texts = ['{"k": "dog"}', '{"dog": "k"}', '{"k": {"dog": 1}}']
    lance.write_dataset(pa.table({"id": range(3), "doc": pa.array(texts, pa.json_())}), uri)
    dataset = lance_spark.open(uri)
    assert dataset.search("k,str,dogs", search_columns=["doc"])["id"].to_pylist() == [0]
    assert dataset.search("k.dog,number,1;dog,str,k", search_columns=["doc"])["id"].to_pylist() == [1, 2]
    dataset = dataset.create_text_index("doc")
    assert dataset.search("k,str,dogs")["id"].to_pylist() == [0]
    assert len(asked(uri, reference.MatchQuery("k,str,dogs", "doc"))) == 1


@pytest.mark.parametrize("words", ["dog", "a,str", "a,text,dog", "", "a,str,dog;"])
def test_query_without_path_and_type_raises(tmp_path: Path, words: str) -> None:
    lance.write_dataset(table(5, 1), str(tmp_path))
    with pytest.raises(InvalidInputError, match="path,type,value"):
        lance_spark.open(str(tmp_path)).search(MatchQuery(words, "doc"))


def test_bytes_that_are_no_json_have_no_index(tmp_path: Path) -> None:
    lance_spark.write(pa.table({"b": pa.array([b"x"], pa.large_binary()), "s": ["x"]}), str(tmp_path))
    with pytest.raises(InvalidInputError, match="does not support"):
        lance_spark.open(str(tmp_path)).create_text_index("b")
    with pytest.raises(InvalidInputError, match="of the column"):
        lance_spark.open(str(tmp_path)).create_text_index("s", lance_tokenizer="json")
