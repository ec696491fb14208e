"""Variants narrowed to the paths that a query uses: the same values there, whatever the documents and paths."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal
from pyspark.sql.variant_utils import VariantBuilder

from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import PathTree, json_document, json_text
from lance_spark.spark.types.variant_paths import narrowed_variants, path_tree

KEYS = ["a", "b", "é", "long key", "z" * 40, "a.b", ""]
STRUCT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
MISSING = object()


def _document(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind == 7:
        return [_document(rng, depth + 1) for _ in range(rng.choice([0, 1, 3, 300 if depth == 1 else 2]))]
    if kind == 8:
        return {key: _document(rng, depth + 1) for key in rng.sample(KEYS, rng.randrange(len(KEYS)))}
    small = [None, True, rng.choice([0, -1, 300, -(1 << 40)]), 2.5, "x" * rng.choice([0, 3, 63, 64, 300]), 1e100, "é"]
    return small[kind]


def _variants(items: list[Any]) -> pa.StructArray:
    built = [None if item is MISSING else VariantBuilder().build(json.dumps(item)) for item in items]
    rows = [None if pair is None else {"value": bytes(pair[0]), "metadata": bytes(pair[1])} for pair in built]
    return pa.array(rows, STRUCT)


def _python(row: dict[str, bytes] | None) -> Any:
    return MISSING if row is None else json.loads(VariantVal(row["value"], row["metadata"]).toJson())


def _at(item: Any, path: list[str]) -> Any:
    for step in path:
        if step.startswith("."):
            item = item.get(step[1:], MISSING) if isinstance(item, dict) else MISSING
        else:
            place = int(step[1:-1])
            item = item[place] if isinstance(item, list) and place < len(item) else MISSING
    return item


def _path(rng: random.Random) -> list[str]:
    steps = [f".{key}" for key in KEYS] + ["[0]", "[1]", "[2]", "[270]"]
    return [rng.choice(steps) for _ in range(rng.randrange(1, 4))]


@pytest.mark.parametrize("seed", range(40))
def test_the_values_at_the_paths_stay(seed: int) -> None:
    rng = random.Random(seed)
    items = [rng.choice([MISSING, _document(rng)]) if rng.random() < 0.2 else _document(rng) for _ in range(60)]
    items += [{"a": {"b": _document(rng), "é": 1}, "b": [_document(rng), _document(rng)]} for _ in range(40)]
    paths = [_path(rng) for _ in range(rng.randrange(1, 7))] + [[".a", ".b"], [".b", "[1]"]][: rng.randrange(3)]
    given = _variants(items)
    whole, sliced = narrowed_variants(given, path_tree(paths)), narrowed_variants(given[7:90], path_tree(paths))
    assert sliced.equals(whole[7:90])
    whole.validate(full=True)
    for item, row in zip(items, whole.to_pylist(), strict=True):
        assert (row is None) is (item is MISSING)
        kept = _python(row)
        for path in paths:
            assert _at(kept, path) == _at(json.loads(json.dumps(item)) if item is not MISSING else item, path), path


@pytest.mark.parametrize("seed", range(20))
def test_texts_of_json_documents_keep_the_values_at_the_paths(seed: int) -> None:
    rng = random.Random(seed)
    paths = [_path(rng) for _ in range(3)] + [[".a", ".b"]]
    for item in [_document(rng) for _ in range(50)] + [{"a": {"b": _document(rng), "é": 1}}]:
        kept = json.loads(json_text(json_document(json.dumps(item)), path_tree(paths)))
        for path in paths:
            assert _at(kept, path) == _at(item, path), path


def test_other_members_and_their_keys_are_left_out() -> None:
    item = {"a": {"b": 7, "c": "x" * 1000}, "d": ["y" * 1000, 5], "unused": "z" * 1000}
    found = narrowed_variants(_variants([item]), path_tree([[".a", ".b"], [".d", "[1]"]])).to_pylist()[0]
    assert _python(found) == {"a": {"b": 7}, "d": [None, 5]}
    assert len(found["value"]) + len(found["metadata"]) < 60
    with_object = narrowed_variants(_variants([item]), path_tree([[".a"]])).to_pylist()[0]
    assert _python(with_object) == {"a": item["a"]}


def test_no_damage_is_followed() -> None:
    rng = random.Random(3)
    tree = path_tree([[".a", ".b"], [".b", "[1]"], [".a", "[0]"], [".long key"]])
    given = _variants([{"a": {"b": 1, "c": [1, 2]}, "b": [1, "x" * 70], "long key": {"a": 1}}] * 2).to_pylist()[0]
    rows = []
    for _ in range(3000):
        row = {name: bytearray(data) for name, data in given.items()}
        for _ in range(rng.randrange(1, 4)):
            data = row[rng.choice(["value", "metadata"])]
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
            if rng.random() < 0.2:
                del data[rng.randrange(len(data) + 1) :]
        rows.append({name: bytes(data) for name, data in row.items()})
    damaged = pa.array(rows, STRUCT)
    narrowed_variants(damaged, tree).validate(full=True)
    broken = pa.array([{"value": b"", "metadata": b""}, {"value": b"\xff", "metadata": b"\x01"}], STRUCT)
    assert narrowed_variants(broken, tree).to_pylist() == broken.to_pylist()


def test_paths_that_are_none() -> None:
    empty: PathTree = {}
    assert path_tree([]) == empty
    for path in ([], ["a"], ["[-1]"], ["[x]"]):
        with pytest.raises(InvalidInputError, match="path into a variant"):
            path_tree([path])
