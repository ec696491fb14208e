"""Members of structs and lists that no file holds: what they lie in keeps its nulls and lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.schema.projection import prune
from lance_spark.table.dataset import Dataset

ITEMS = pa.list_(pa.struct([("a", pa.int64())]))
NESTED = pa.struct([("p", pa.struct([("q", pa.int64())]))])


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Members `b` of the items of a list, and `r` of a struct in a struct, were added as null."""
    items = pa.array([[{"a": 1}, {"a": 2}], None, [], [{"a": None}, None]], ITEMS)
    nested = pa.array([{"p": {"q": 1}}, None, {"p": None}, {"p": {"q": None}}], NESTED)
    made = lance_spark.write(pa.table({"items": items, "s": nested}), str(tmp_path / "t"))
    made = made.add_columns(pa.field("items", pa.list_(pa.struct([("b", pa.string())]))))
    return made.add_columns(pa.field("s", pa.struct([("p", pa.struct([("r", pa.string())]))])))


def read(dataset: Dataset, *members: str) -> pa.Table:
    """Only these members, as an engine asks for them that prunes nested columns."""
    ids = {node.id for field in dataset.lance_schema.fields for node in field.walk() if node.name in members}
    projection = replace(dataset.lance_schema, fields=prune(dataset.lance_schema.fields, ids))
    plan = dataset.plan(columns=[]).returning(projection, tuple(field.name for field in projection.fields))
    batches = [batch for fragment in dataset.fragments for batch in plan.read([fragment])]
    return pa.Table.from_batches(batches)


def test_lists_keep_their_lengths(dataset: Dataset) -> None:
    found = read(dataset, "b")["items"]
    assert found.to_pylist() == [[{"b": None}, {"b": None}], None, [], [{"b": None}, None]]
    assert found.type.value_type == pa.struct([("b", pa.string())])


def test_structs_keep_their_nulls(dataset: Dataset) -> None:
    found = read(dataset, "r")["s"]
    assert found.to_pylist() == [{"p": {"r": None}}, None, {"p": None}, {"p": {"r": None}}]


def test_fragments_that_hold_the_member_beside_those_that_do_not(dataset: Dataset) -> None:
    item = pa.struct([("a", pa.int64()), ("b", pa.string())])
    nested = pa.struct([("p", pa.struct([("q", pa.int64()), ("r", pa.string())]))])
    rows = {
        "items": pa.array([[{"a": 1, "b": "x"}]], pa.list_(item)),
        "s": pa.array([{"p": {"q": 1, "r": "y"}}], nested),
    }
    later = lance_spark.write(pa.table(rows), dataset.uri, mode="append")
    assert read(later, "b", "r").to_pylist()[2:] == [
        {"items": [], "s": {"p": None}},
        {"items": [{"b": None}, None], "s": {"p": {"r": None}}},
        {"items": [{"b": "x"}], "s": {"p": {"r": "y"}}},
    ]
