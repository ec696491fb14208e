"""Indexes of all kinds that this library builds: their files, and their answers in both libraries."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from lance.indices import IndexConfig

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.index.builders import zone_rows
from lance_spark.index.builders.base import IndexedRows
from lance_spark.table.indexes import build
from tests.index.builds import assert_used_by_reference, both
from tests.index.comparisons import ID, append, check, ids, write

NAN = float("nan")
FILES = {
    "BITMAP": "bitmap_page_lookup.lance",
    "LABEL_LIST": "bitmap_page_lookup.lance",
    "NGRAM": "ngram_postings.lance",
    "ZONEMAP": "zonemap.lance",
    "BLOOMFILTER": "bloomfilter.lance",
}
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [5, -3, None, 127, -128]),
    "uint64": (pa.uint64(), [5, None, 2**64 - 1, 0]),
    "int64": (pa.int64(), [5, None, -(2**63), 2**63 - 1, 7, 8]),
    "float16": (pa.float16(), [1.5, None, NAN, -0.0, 0.0]),
    "float32": (pa.float32(), [1.5, None, NAN, -0.0, 0.0, float("-inf")]),
    "float64": (pa.float64(), [1.5, None, NAN, -0.0, 0.0, float("inf"), 2.0]),
    "bool": (pa.bool_(), [True, None, False]),
    "string": (pa.string(), ["hello world", None, "", "Größe", "a\U0001f600", "foo bar 12", "İstanbul ﬁx"]),
    "large_string": (pa.large_string(), ["hello world", None, "", "bb"]),
    "binary": (pa.binary(), [b"b", None, b"", b"\xff\x00", b"x" * 50]),
    "fixed": (pa.binary(3), [b"abc", None, b"\xff\x00\x01"]),
    "date": (pa.date32(), [datetime.date(2020, 1, 2), None, datetime.date(1960, 1, 1)]),
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")]),
    "timestamp": (pa.timestamp("us"), [datetime.datetime(2020, 1, 2), None, datetime.datetime(1960, 1, 1)]),
    "duration": (pa.duration("us"), [datetime.timedelta(1), None, datetime.timedelta(-3)]),
    "list": (pa.list_(pa.int64()), [[1, 2], None, [], [None, 1], [3, 3]]),
    "list_of_text": (pa.list_(pa.string()), [["a", "b"], None, [], [None, "a"], ["c"]]),
    "large_list": (pa.large_list(pa.float64()), [[1.0, NAN], None, [], [None, 0.0], [-0.0]]),
}
LISTS = ("list", "list_of_text", "large_list")
TEXTS = ("string", "large_string")
NO_BLOOM = ("bool", "decimal", "float16", "duration", "fixed")
CASES = [
    *(("BITMAP", name) for name in VALUES if name not in LISTS),
    *(("ZONEMAP", name) for name in VALUES if name not in LISTS),
    *(("BLOOMFILTER", name) for name in VALUES if name not in (*LISTS, *NO_BLOOM)),
    *(("LABEL_LIST", name) for name in LISTS),
    *(("NGRAM", name) for name in TEXTS),
]
PARAMETERS: dict[str, dict[str, Any]] = {
    "ZONEMAP": {"rows_per_zone": 7},
    "BLOOMFILTER": {"number_of_items": 9, "probability": 0.01},
}
ITEMS_DIFFER = "NOT array_has(x, 3)"
"""The reference library takes a null item for one that differs."""
CONDITIONS: dict[str, list[tuple[str, str, bool]]] = {
    "BITMAP": [("x = 5", "", True), ("x <> 5", "", True), ("x IS NULL", "", True), ("NOT (x < 7)", "", True)],
    "ZONEMAP": [("x = 5", "", True), ("x > 6", "", True), ("x IS NULL", "", True), ("x <> 5", "", False)],
    "BLOOMFILTER": [("x = 5", "", True), ("x IN (7, 4000)", "", True), ("x IS NULL", "", True)],
    "LABEL_LIST": [
        ("array_contains(x, 1)", "array_has(x, 1)", True),
        ("NOT array_contains(x, 3)", ITEMS_DIFFER, True),
        ("array_contains(x, 4000)", "array_has(x, 4000)", True),
    ],
    "NGRAM": [
        ("contains(x, 'llo')", "", True),
        ("x LIKE '%bar 12%'", "", True),
        ("contains(x, 'wor')", "", True),
        ("contains(x, 'Größe')", "", False),
    ],
}


def column_for(kind: str, num_rows: int, seed: int) -> pa.Array:
    name = {"LABEL_LIST": "list", "NGRAM": "string"}.get(kind, "int64")
    return mixed(name, num_rows, seed)


def mixed(name: str, num_rows: int, seed: int) -> pa.Array:
    dtype, values = VALUES[name]
    draw = random.Random(seed)
    if name == "float16":
        values = [None if value is None else np.float16(value) for value in values]
    return pa.array([draw.choice(values) for _ in range(num_rows)], dtype)


def files_of(uri: str, kind: str) -> list[LanceFileReader]:
    found = sorted(lance_spark.open(uri).indices(), key=lambda index: index.name)
    return [LanceFileReader(f"{uri}/_indices/{index.uuid}/{FILES[kind]}") for index in found]


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}-{name}" for kind, name in CASES])
def test_files_and_metadata_are_those_of_pylance(tmp_path: Path, kind: str, name: str, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    write(uri, {"x": mixed(name, 60, 1)}, rows_per_file=25, stable_row_ids=stable_row_ids)
    lance_spark.open(uri).delete("id IN (0, 1, 7, 8, 30)")
    config = IndexConfig(kind.lower().replace("_", ""), PARAMETERS[kind]) if kind in PARAMETERS else kind
    lance.dataset(uri).create_scalar_index("x", config, name="theirs")
    lance_spark.open(uri).create_scalar_index("x", kind, name="ours", **PARAMETERS.get(kind, {}))
    ours, theirs = files_of(uri, kind)
    assert ours.metadata().schema.metadata == theirs.metadata().schema.metadata
    tables = [file.read_all().to_table() for file in (ours, theirs)]
    assert tables[0].schema.equals(tables[1].schema)
    if kind == "BLOOMFILTER":
        assert tables[0].drop(["bloom_filter_data"]).equals(tables[1].drop(["bloom_filter_data"]))
        assert tables[0]["bloom_filter_data"].to_pylist() == tables[1]["bloom_filter_data"].to_pylist()
    else:
        assert str(tables[0].to_pylist()) == str(tables[1].to_pylist())
    own, other = sorted(lance_spark.open(uri).indices(), key=lambda index: index.name)
    assert own.message.index_details == other.message.index_details
    assert own.message.index_version == other.message.index_version
    for key in ("null_bitmap", "lance:label_list_nulls"):
        if key.encode() in (ours.metadata().schema.metadata or {}):
            number = int(ours.metadata().schema.metadata[key.encode()])
            assert ours.read_global_buffer(number) == theirs.read_global_buffer(number)


@pytest.mark.parametrize("chunk_rows", [1, 20, 40])
@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
def test_zones_do_not_depend_on_how_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, chunk_rows: int
) -> None:
    """Batches of some rows of a fragment, and chunks of one or several fragments."""
    read = build.row_batches
    ends: list[bool] = []

    def read_in_pieces(*arguments: Any) -> Iterator[IndexedRows]:
        for rows in read(*arguments):
            yield IndexedRows.none(rows.values.type)
            ends.append(rows.ends_fragment)
            for start in range(0, len(rows.values), 4):
                some = slice(start, start + 4)
                is_last = rows.ends_fragment and start + 4 >= len(rows.values)
                yield IndexedRows(rows.values.slice(start, 4), rows.ids[some], rows.addresses[some], is_last)

    uri = str(tmp_path)
    write(uri, {"x": mixed("int64", 60, 1)}, rows_per_file=17)
    lance_spark.open(uri).delete("id IN (0, 1, 7, 8, 30)")
    config = IndexConfig(kind.lower(), PARAMETERS[kind])
    lance.dataset(uri).create_scalar_index("x", config, name="theirs")
    monkeypatch.setattr(build, "row_batches", read_in_pieces)
    monkeypatch.setattr(zone_rows, "_CHUNK_ROWS", chunk_rows)
    lance_spark.open(uri).create_scalar_index("x", kind, name="ours", **PARAMETERS[kind])
    assert set(ends) == {False, True}, "fragments with and without deleted rows"
    ours, theirs = files_of(uri, kind)
    assert ours.read_all().to_table().equals(theirs.read_all().to_table())
    number = int(ours.metadata().schema.metadata[b"null_bitmap"])
    assert ours.read_global_buffer(number) == theirs.read_global_buffer(number)


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("kind", CONDITIONS)
def test_histories_of_both_libraries_answer_as_a_scan(
    tmp_path: Path, kind: str, stable_row_ids: bool, warnings: list[str]
) -> None:
    uri = str(tmp_path)
    write(uri, {"x": column_for(kind, 60, 1)}, rows_per_file=25, stable_row_ids=stable_row_ids)
    lance_spark.open(uri).create_scalar_index("x", kind, **PARAMETERS.get(kind, {}))
    values = {"LABEL_LIST": "array(1)", "NGRAM": "'hello world'"}
    for turn in range(5):
        append(uri, {"x": column_for(kind, 9, turn + 2)}, first_id=1000 * (turn + 1))
        lance_spark.open(uri).delete(f"id % 11 = {turn}")
        if kind != "LABEL_LIST":
            lance_spark.open(uri).update({"x": values.get(kind, "5")}, f"id % 13 = {turn}")
        if turn % 2:
            lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=turn // 2)
        else:
            lance_spark.open(uri).optimize_indices(num_indices_to_merge=turn // 2)
        assert lance_spark.open(uri).index_statistics("x_idx")["num_unindexed_rows"] == 0
        for condition, reference, used in CONDITIONS[kind]:
            spelled = "" if reference == ITEMS_DIFFER else reference or condition
            check(uri, condition, reference=spelled)
            if used:
                assert_used_by_reference(uri, reference or condition, "x_idx")
    # One segment is left: the reference library answers stale rows where there are several.
    lance_spark.open(uri).optimize_indices(num_indices_to_merge=9)
    for condition, reference, used in CONDITIONS[kind]:
        if reference != ITEMS_DIFFER:
            both(uri, condition, index="x_idx", reference=reference or condition, used=used)
    assert warnings == []


def test_ngram_finds_folded_texts_in_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path)
    texts = ["Größe", "GRÖSSE", "Ångström unit", "ŁÓDŹ 2024", "ﬁnal", "e\u0301tude", "Ærøskøbing", "ЖΣ123", "İzmir12"]
    write(uri, {"x": pa.array(texts)})
    lance_spark.open(uri).create_scalar_index("x", "NGRAM")
    for text in texts:
        for start in range(len(text) - 2):
            piece = text[start : start + 3].replace("'", "''")
            found = lance.dataset(uri).to_table(filter=f"contains(x, '{piece}')", columns=[ID])
            assert ids(found) == [place for place, value in enumerate(texts) if piece in value], piece
            assert ids(lance_spark.open(uri).to_table(filter=f"contains(x, '{piece}')")) == ids(found), piece


@pytest.mark.parametrize(
    ("kind", "column"),
    [("BITMAP", "list"), ("LABEL_LIST", "int64"), ("NGRAM", "int64"), ("ZONEMAP", "list"), ("BLOOMFILTER", "bool")],
)
def test_types_that_a_kind_does_not_index_are_refused(tmp_path: Path, kind: str, column: str) -> None:
    uri = str(tmp_path)
    write(uri, {"x": mixed(column, 5, 1)})
    with pytest.raises(InvalidInputError, match=kind):
        lance_spark.open(uri).create_scalar_index("x", kind)
    assert lance_spark.open(uri).version == 1


@pytest.mark.parametrize("value", [0, 1, "x", -0.5, None])
def test_bloom_filter_with_an_impossible_probability_is_refused(tmp_path: Path, value: object) -> None:
    uri = str(tmp_path)
    write(uri, {"x": mixed("int64", 5, 1)})
    with pytest.raises(InvalidInputError, match="probability"):
        lance_spark.open(uri).create_scalar_index("x", "BLOOMFILTER", probability=value)


@pytest.mark.parametrize("kind", CONDITIONS)
def test_empty_and_untrained_indexes(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path)
    write(uri, {"x": column_for(kind, 20, 1)})
    lance_spark.open(uri).create_scalar_index("x", kind, train=False, **PARAMETERS.get(kind, {}))
    condition, reference, _ = CONDITIONS[kind][0]
    check(uri, condition, reference=reference or condition)
    lance.dataset(uri).optimize.optimize_indices()
    both(uri, condition, index="x_idx", reference=reference or condition)
    if kind in PARAMETERS:
        statistics = lance_spark.open(uri).index_statistics("x_idx")["segments"][0]
        assert statistics == statistics | PARAMETERS[kind]
