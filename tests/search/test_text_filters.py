"""Text searches as conditions of filters."""

from __future__ import annotations

import uuid
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.expr.sql.parse import parse
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "p": ["a", "a", "b", "b", "c", "c"],
        "title": ["red apple", "green apple", "red red rose", None, "blue", "The Apples of Eden"],
        "body": ["a rose", None, "thorns", None, "red sky", "green garden"],
    }
)


def plain() -> Any:
    return lance_spark.write(ROWS, f"memory://text-{uuid.uuid4().hex}")


def partitioned() -> Any:
    root = f"memory://text-{uuid.uuid4().hex}"
    return create_partitioned_dataset(root, ROWS.schema, [PartitionBy("p", ("p",), Identity())]).append(ROWS)


@pytest.fixture(params=[plain, partitioned], ids=["plain", "partitioned"])
def dataset(request: pytest.FixtureRequest) -> Any:
    return request.param()


CONDITIONS: list[tuple[str, list[int]]] = [
    ("lance_match(title, 'apples')", [1, 2, 6]),
    ("lance_match(TITLE, 'red rose')", [1, 3]),
    ("lance_match(title, 'red rose', 'operator=and')", [3]),
    ("lance_match(title, 'appl', 'fuzziness=1, prefix_length=1, max_expansions=10, boost=2.0')", [1, 2, 6]),
    ("lance_match(title, 'roze', 'fuzziness=auto')", [3]),
    ("lance_match(title, 'the')", []),
    ("lance_match_phrase(title, 'red apple')", [1]),
    ("lance_match_phrase(title, 'red rose', 1)", [3]),
    ("lance_match_phrase(title, 'apples of eden')", [6]),
    ("lance_multi_match('red', title, body)", [1, 3, 5]),
    ("lance_multi_match('red rose', 'operator=AND', title, body)", [1, 3]),
    ("lance_multi_match('the green apple', 'operator=AND', title, body)", [2, 6]),
    ("NOT lance_match(title, 'apple')", [3, 5]),
    ("NOT lance_multi_match('red', title, body)", [2, 6]),
    ("lance_match(title, 'apple') AND id > 1", [2, 6]),
    ("lance_match(title, 'apple') OR id = 5", [1, 2, 5, 6]),
    ("lance_match(title, 'apple') AND NOT lance_match(body, 'rose')", [6]),
    ("NOT (lance_match(title, 'apple') OR title IS NULL)", [3, 5]),
    ("lance_match(title, 'apple') AND p = 'c'", [6]),
    ("contains_tokens(title, 'apple red')", [1]),
    ("contains_tokens(title, 'Red')", []),
    ("contains_tokens(title, 'The')", [6]),
    ("contains_tokens(title, '')", [1, 2, 3, 5, 6]),
    ("NOT contains_tokens(title, 'red')", [2, 5, 6]),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_condition_finds_its_rows(dataset: Any, condition: str, expected: list[int]) -> None:
    assert sorted(dataset.to_table(["id"], condition)["id"].to_pylist()) == expected
    assert dataset.count_rows(condition) == len(expected)
    assert parse(str(parse(condition))) == parse(condition)


def test_explain_names_the_indexes_of_searches(dataset: Any) -> None:
    indexed = dataset.create_scalar_index("title", "INVERTED", name="words")
    text = indexed.explain("lance_match(title, 'red') AND NOT lance_match(body, 'rose')")
    lines = [line for line in text.splitlines() if line.startswith("index: ")]
    assert lines, "body has no index"
    for line in lines:
        assert line.startswith("index: words (INVERTED), condition lance_match(title, 'red', ")
        assert line.endswith("1 segment, fragments 0, exact")


def test_condition_uses_the_analysis_of_the_index(tmp_path: Any) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(ROWS, uri).create_scalar_index("title", "INVERTED", stem=False, lower_case=False)
    dataset = lance_spark.open(uri)
    assert dataset.to_table(["id"], "lance_match(title, 'apple')")["id"].to_pylist() == [1, 2]
    assert dataset.to_table(["id"], "lance_match(title, 'Apples')")["id"].to_pylist() == [6]
    assert dataset.count_rows("contains_tokens(title, 'The')") == 1


@pytest.mark.parametrize("text", ["the", "", "apple", "Apples", "red_apple", "red-apple", "of Eden The"])
def test_contains_tokens_equals_pylance(tmp_path: Any, text: str) -> None:
    uri = str(tmp_path / "table")
    condition = f"contains_tokens(title, '{text}')"
    theirs = lance.write_dataset(ROWS, uri).to_table(filter=condition)
    assert lance_spark.open(uri).to_table(filter=condition).equals(theirs)


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("lance_match(id, 'x')", InvalidInputError, "not int64"),
        ("lance_match(nope, 'x')", NotFoundError, "nope"),
        ("lance_match(title, 3)", InvalidInputError, "the words of lance_match must be a string constant"),
        ("lance_match('title', 'x')", InvalidInputError, "searches columns"),
        ("lance_match(title, 'x', 'colour=red')", InvalidInputError, "no option 'colour'"),
        ("lance_match(title, 'x', 'fuzziness=-1')", InvalidInputError, "fuzziness '-1'"),
        ("lance_match(title, 'x', 'operator=XOR')", InvalidInputError, "operator 'XOR'"),
        ("lance_match_phrase(title, 'x', -1)", InvalidInputError, "slop"),
        ("lance_multi_match('x', title)", InvalidInputError, "two columns or more"),
        ("lance_match(title, 'x') = true", InvalidInputError, "can only be combined by AND, OR and NOT"),
        ("contains_tokens(id, 'x')", InvalidInputError, "not defined for int64"),
    ],
)
def test_bad_condition_is_refused(condition: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plain().to_table(filter=condition)


def test_delete_with_text_search_is_refused_and_changes_nothing(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="works in filters of reads"):
        dataset.delete("lance_match(title, 'apple')")
    assert dataset.count_rows() == 6
    assert dataset.delete("contains_tokens(title, 'apple')").count_rows() == 4


DOCUMENTS = [
    '{"title": "Red apples", "year": 2001}',
    '{"title": "A rose", "tags": ["red", {"n": null}]}',
    '{"title": "The blue sky", "year": 2001.5}',
    None,
    '{"other": "red apple"}',
]

JSON_CONDITIONS: list[tuple[str, list[int]]] = [
    ("lance_match(doc, 'title,str,apple')", [0]),
    ("lance_match(doc, 'title,str,the sky')", [2]),
    ("lance_match(doc, 'year,number,2001;tags,str,red')", [0, 1]),
    ("lance_match(doc, 'tags.n,null,null;tags,str,red', 'operator=AND')", [1]),
    ("lance_match(doc, 'title,str,ros', 'fuzziness=1')", [1]),
    ("NOT lance_match(doc, 'title,str,apple')", [1, 2, 4]),
    ("NOT (lance_match(doc, 'title,str,apple') AND id >= 0)", [1, 2, 4]),
    ("lance_match(doc, 'title,str,rose') OR id = 3", [1, 3]),
    ("lance_match_phrase(doc, 'title,str,red apples')", [0]),
    ("lance_multi_match('other,str,red;title,str,red', doc, more)", [0, 2, 3, 4]),
    ("lance_multi_match('other,str,red;title,str,red', 'operator=AND', doc, more)", [0, 2, 4]),
    ("NOT lance_multi_match('other,str,red', doc, more)", [1, 3]),
]


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("has_index", [False, True])
def test_conditions_on_json_documents_find_their_rows(is_partitioned: bool, has_index: bool) -> None:
    more = ['{"other": "red"}', None, '{"other": "red", "title": "red"}', '{"title": "red"}', '{"title": "red"}']
    columns = {"id": range(5), "p": list("aabbb"), "doc": pa.array(DOCUMENTS, pa.json_())}
    rows = pa.table({**columns, "more": pa.array(more, pa.json_())})
    root = f"memory://text-{uuid.uuid4().hex}"
    partitions = [PartitionBy("p", ("p",), Identity())]
    dataset: Any = (
        create_partitioned_dataset(root, rows.schema, partitions).append(rows)
        if is_partitioned
        else lance_spark.write(rows, root)
    )
    if has_index:
        dataset = dataset.create_scalar_index("doc", "INVERTED", with_position=True)
    for condition, expected in JSON_CONDITIONS:
        assert sorted(dataset.to_table(["id"], condition)["id"].to_pylist()) == expected, condition
        assert dataset.count_rows(condition) == len(expected), condition


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("lance_match(doc, 'red')", "path,type,value"),
        ("lance_match(data, 'red')", "strings, lists of strings or JSON"),
        ("lance_multi_match('a,str,red', 'operator=AND', doc, title)", "texts or JSON documents, not both"),
    ],
)
def test_conditions_that_are_none_of_json_documents_are_refused(condition: str, message: str) -> None:
    rows = pa.table(
        {"title": ["red"], "doc": pa.array(['{"a": 1}'], pa.json_()), "data": pa.array([b"red"], "large_binary")}
    )
    dataset = lance_spark.write(rows, f"memory://text-{uuid.uuid4().hex}")
    with pytest.raises(InvalidInputError, match=message):
        dataset.to_table(filter=condition)


def test_delete_with_a_search_of_json_documents_is_refused() -> None:
    dataset = lance_spark.write(pa.table({"doc": pa.array(DOCUMENTS, pa.json_())}), f"memory://text-{uuid.uuid4().hex}")
    with pytest.raises(InvalidInputError, match="works in filters of reads"):
        dataset.delete("lance_match(doc, 'title,str,apple')")
