"""Indexes of the values at a path of a JSON column, of either library."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_spark
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.json_path.jsonb import scalar_at
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from tests.index.comparisons import ID, ids
from tests.support.index.json_documents import documents

INDEXES = {"a": ("$.a", "btree"), "c": ("$.b.c", "bitmap"), "f": ("$.f", "zonemap"), "t": ("t", "bitmap")}
CONDITIONS = {
    "json_get_int(j, '$.a') = 3": "a",
    "json_get_int(j, 'a') IN (3, 4, 99)": "a",
    "NOT json_get_int(j, '$.a') < 3": "a",
    "json_get_int(j, '$.a') IS NULL": "a",
    "json_get_string(j, '$.b.c') LIKE 's3%'": "c",
    "json_get_string(j, '$.b.c') IS NOT NULL AND json_get_int(j, '$.a') > 7": "a",
    "json_get_float(j, 'f') BETWEEN 3 AND 10": "f",
    "json_get_bool(j, 't')": "t",
    "json_get_string(j, '$.a') = '3'": "",
    "json_get_float(j, '$.a') = 3": "",
}


def value_of(i: int) -> dict[str, object]:
    return {"a": i % 10, "b": {"c": f"s{i % 7}"}, "f": i / 2, "t": i % 2 == 0}


def write(uri: str, first: int = 0, *, mode: str = "create", stable_row_ids: bool = False) -> None:
    table = pa.table({ID: range(first, first + 200), "j": documents(first, 200)})
    lance.write_dataset(table, uri, mode=mode, max_rows_per_file=100, enable_stable_row_ids=stable_row_ids)


def check(uri: str) -> None:
    dataset = lance_spark.open(uri)
    for condition, index in CONDITIONS.items():
        scanned = ids(dataset.to_table([ID], condition, use_scalar_index=False))
        assert ids(dataset.to_table([ID], condition)) == scanned, condition
        assert dataset.count_rows(condition) == len(scanned) > 0, condition
        assert (f"index: {index} " in dataset.explain(condition)) == bool(index), condition


def build(uri: str, builder: str, *, stable_row_ids: bool = False) -> None:
    for name, (path, target) in INDEXES.items():
        # The reference library refuses btree in tables with stable row ids.
        kind = "bitmap" if stable_row_ids and target == "btree" else target
        if builder == "own":
            lance_spark.open(uri).create_scalar_index("j", "json", name, path=path, target_index_type=kind)
        else:
            config = IndexConfig("json", {"target_index_type": kind, "path": path})
            lance.dataset(uri).create_scalar_index("j", config, name=name)


@pytest.mark.parametrize("builder", ["own", "reference"])
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable ids"])
def test_answers_are_those_of_a_scan(tmp_path: Path, builder: str, stable_row_ids: bool, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri, stable_row_ids=stable_row_ids)
    lance.dataset(uri).delete("id IN (3, 4, 150)")
    build(uri, builder, stable_row_ids=stable_row_ids)
    check(uri)
    write(uri, 200, mode="append")
    lance.dataset(uri).delete("id = 33")
    check(uri)
    assert warnings == []
    if stable_row_ids:
        with pytest.raises(UnsupportedFeatureError, match="bitmap or zonemap"):
            lance_spark.open(uri).create_scalar_index("j", "json", path="$.a")


def test_reference_uses_our_index(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri)
    build(uri, "own")
    for condition in ("json_get_int(j, '$.a') = 3", "json_get_string(j, '$.b.c') = 's3'"):
        assert "ScalarIndexQuery" in lance.dataset(uri).scanner(filter=condition).explain_plan()
        found = lance.dataset(uri).to_table(columns=[ID], filter=condition)
        assert ids(found) == ids(lance_spark.open(uri).to_table([ID], condition, use_scalar_index=False))
    described = {item.name: item.index_type for item in lance.dataset(uri).describe_indices()}
    assert {item["name"]: item["type"] for item in lance_spark.open(uri).list_indices()} == described


@pytest.mark.parametrize("builder", ["own", "reference"])
def test_optimized_and_compacted_index_answers(tmp_path: Path, builder: str, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri)
    build(uri, builder)
    write(uri, 200, mode="append")
    lance_spark.open(uri).optimize_indices()
    assert "scanned without index: none" in lance_spark.open(uri).explain("json_get_int(j, '$.a') = 3")
    check(uri)
    lance_spark.open(uri).delete("id < 20")
    lance_spark.open(uri).compact().optimize_indices()
    assert "scanned without index: none" in lance_spark.open(uri).explain("json_get_int(j, '$.a') = 3")
    check(uri)
    assert warnings == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "needs path"),
        ({"path": "$.a", "target_index_type": "fts"}, "target_index_type"),
        ({"path": "$..a"}, "no path into JSON"),
        ({"path": "$.a", "rows_per_zone": 3}, "no parameter 'rows_per_zone'"),
        ({"path": "$.m"}, "several types"),
    ],
)
def test_impossible_indexes_are_refused(tmp_path: Path, parameters: dict[str, object], message: str) -> None:
    uri = str(tmp_path)
    values = pa.array(['{"a": 1, "m": 2}', '{"m": "x"}'], pa.json_())
    lance.write_dataset(pa.table({ID: [0, 1], "j": values}), uri)
    with pytest.raises(InvalidInputError, match=message):
        lance_spark.open(uri).create_scalar_index("j", "JSON", **parameters)
    assert lance_spark.open(uri).list_indices() == []


def json_rows(first: int, values: list[object]) -> pa.Table:
    """Rows with documents `{"p": [0, {"a b": value}]}`, `{}` for Ellipsis, and null for None."""
    documents = [
        None if value is None else "{}" if value is ... else json.dumps({"p": [0, {"a b": value}]}) for value in values
    ]
    return pa.table({ID: range(first, first + len(values)), "j": pa.array(documents, pa.json_())})


@pytest.mark.parametrize("target", ["btree", "bitmap", "zonemap"])
@pytest.mark.parametrize("builder", ["own", "reference"])
def test_later_rows_have_values_of_other_types(tmp_path: Path, builder: str, target: str, warnings: list[str]) -> None:
    """An index has values of one type. Rows that are not in it are read as the function says."""
    uri, path = str(tmp_path), '$.p[1]."a b"'
    # The reference library refuses what is no scalar.
    first: list[object] = [[3], {"c": 3}] if builder == "own" else [..., ...]
    lance_spark.write(json_rows(0, [*range(8), None, ..., *first]), uri)
    if builder == "own":
        lance_spark.open(uri).create_scalar_index("j", "json", "i", path=path, target_index_type=target)
    else:
        config = IndexConfig("json", {"target_index_type": target, "path": path})
        lance.dataset(uri).create_scalar_index("j", config, name="i")
    later = ["3", "x", 3.4, 2.6, True, {"b": 3}, [3], 1 << 63, None, "4e0"]
    lance_spark.write(json_rows(100, later), uri, mode="append")
    expected = {
        f"json_get_int(j, '{path}') = 3": [3, 100, 102, 103],
        f"json_get_int(j, '{path}') > 3": [4, 5, 6, 7, 109],
        f"NOT json_get_int(j, '{path}') > 0": [0],
        f"json_get_int(j, '{path}') IS NULL": [8, 9, 10, 11, 101, 105, 106, 107, 108],
        f"json_get_string(j, '{path}') IN ('3', 'true')": [3, 100, 104],
        f"json_get_float(j, '{path}') BETWEEN 2.6D AND 3.4D": [3, 100, 102, 103],
    }

    def check_expected() -> None:
        dataset = lance_spark.open(uri)
        for condition, found in expected.items():
            for use_scalar_index in (True, False):
                assert ids(dataset.to_table([ID], condition, use_scalar_index=use_scalar_index)) == found, condition
            assert ("index: i " in dataset.explain(condition)) == ("json_get_int" in condition), condition

    check_expected()
    with pytest.raises(InvalidInputError, match="several types"):
        lance_spark.open(uri).optimize_indices("i")
    lance_spark.open(uri).delete("id > 99")
    expected = {condition: [id_ for id_ in found if id_ < 100] for condition, found in expected.items()}
    lance_spark.open(uri).compact().optimize_indices()
    check_expected()
    assert warnings == []


@pytest.mark.parametrize("clause", [None, "p"], ids=["plain", "partitioned"])
def test_other_indexes_are_optimized(tmp_path: Path, clause: str | None, caplog: pytest.LogCaptureFixture) -> None:
    def rows(first: int, value: object) -> pa.Table:
        table = json_rows(first, [value] * 4)
        return table.append_column("p", pa.array([first] * 4)) if clause else table

    def write_rows(table: pa.Table, mode: str) -> None:
        if clause is None:
            lance_spark.write(table, str(tmp_path / "t"), mode=mode)
        elif mode == "create":
            create_partitioned_dataset(
                str(tmp_path / "t"), table.schema, [PartitionBy(clause, (clause,), Identity())]
            ).append(table)
        else:
            lance_spark.open(str(tmp_path / "t")).append(table)

    write_rows(rows(0, 3), "create")
    dataset = lance_spark.open(str(tmp_path / "t"))
    dataset = dataset.create_scalar_index("j", "json", "i", path='$.p[1]."a b"', target_index_type="btree")
    dataset.create_scalar_index(ID, "btree", "by_id")
    write_rows(rows(0, 5), "append")
    write_rows(pa.concat_tables([rows(0, "x"), rows(0, 3)]), "append")
    with caplog.at_level(logging.WARNING):
        dataset = lance_spark.open(str(tmp_path / "t")).optimize_indices()
    assert "index i is not optimized" in caplog.text
    assert dataset.index_statistics("by_id")["num_unindexed_rows"] == 0
    assert dataset.index_statistics("i")["num_unindexed_rows"] > 0
    assert dataset.count_rows("json_get_int(j, '$.p[1].\"a b\"') = 3") == 8


def test_values_are_those_of_the_document(tmp_path: Path) -> None:
    found = [5, "5", 3.7, -3, True, None, "x", 1e3, 1 << 53, 12345678901234567890, 0, -(1 << 40), [1], {"b": 1}]
    values = pa.array([json.dumps({"a": value, "z": [{"a": value}]}) for value in found], pa.json_())
    lance.write_dataset(pa.table({ID: range(len(found)), "j": values}), str(tmp_path))
    _, batches = lance_spark.open(str(tmp_path)).stored_rows(["j"])
    stored = pa.Table.from_batches(batches)["j"].to_pylist()
    for value, data in zip(found, stored, strict=True):
        expected = (False, None) if isinstance(value, (list, dict)) else (True, value)
        assert scalar_at(data, ("a",)) == expected, value
        assert scalar_at(data, ("z", 0, "a")) == expected, value
        assert scalar_at(data, ("z", 1, "a")) == scalar_at(data, ("a", "a")) == (False, None)
    for kind, ours in (("int", "a"), ("float", "a"), ("string", "a")):
        scalars = [number for number, value in enumerate(found) if number not in (6, 9, 12, 13)]
        listed = ", ".join(map(str, scalars))
        query = {"x": f"json_get_{kind}(j, '{ours}')"}
        reference = lance.dataset(str(tmp_path)).to_table(columns={ID: ID, **query}, filter=f"id IN ({listed})")
        for number, value in zip(reference[ID].to_pylist(), reference["x"].to_pylist(), strict=True):
            constant = {"int": str(value), "float": f"{value!r}D", "string": f"'{value}'"}[kind]
            shown = "IS NULL" if value is None else f"= {constant}"
            assert lance_spark.open(str(tmp_path)).count_rows(f"id = {number} AND json_get_{kind}(j, 'a') {shown}") == 1
