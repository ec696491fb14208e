"""`json_exists`, `json_array_length`, `json_array_contains` and `json_extract`, compared with the reference library."""

from __future__ import annotations

import json
import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.nodes import EXTRACT, JsonTest
from lance_spark.expr.nodes import Column
from lance_spark.expr.sql.parse import parse

DOCUMENTS = [
    '{"a": 1, "b": [1, "x", null, 2.5, {"c": 1}, "12"], "s": "t", "n": null}',
    '{"a": {"b": []}, "b": "nope"}',
    "[1, 2, 3]",
    "5",
    None,
    '{"b": [true, "1", 1, -7, [2]]}',
    '{"$.b": [1], "b": {"c": [7]}}',
    "null",
    '{"b": 1, "a": "\\u0001\\t\\"\\u007f\\u2028\u00e9\U0001f600", "": [[], {}]}',
]
EXTRACTED = [
    "IS NULL",
    "= 'null'",
    "= '{\"c\":1}'",
    "= '5'",
    "> '[1'",
    "= '\"nope\"'",
    '= \'[1,"x",null,2.5,{"c":1},"12"]\'',
]
CONDITIONS = [
    *(f"json_exists(j, '{path}')" for path in ("$.b", "$.n", "$", "$[0]", "$.b[4]", "$.b[9]", "$.a.b", "$.b[4].c")),
    *(f"json_array_length(j, '{path}') = 3" for path in ("$.b", "$", "$.a.b")),
    *(f"json_array_length(j, '{path}') IS NULL" for path in ("$.b", "$.zz", "$.a.b", "$.b.c")),
    "json_array_length(j, '$.a.b') = 0",
    *(f"json_array_contains(j, '$.b', '{item}')" for item in ("x", "1", "2.5", "true", "null", '"x"', "-7", "12", "2")),
    "json_array_contains(j, '$.b', 1)",
    "json_array_contains(j, '$', '2')",
    "json_array_contains(j, '$.b.c', '7')",
    *(f"json_extract(j, '{path}') {test}" for path in ("$", "$.b", "$.b[4]", "$.n", "$.a") for test in EXTRACTED),
]
NUMBERS = [
    0.00001,
    -1.5e-5,
    9.9e-5,
    1e-6,
    1e-7,
    1.25e-10,
    1e15,
    1e16,
    1e22,
    0.1,
    -0.0,
    1.0,
    123456.5,
    1e400,
    1 << 63,
    -7,
]


def test_rows_are_those_of_pylance(tmp_path: Path) -> None:
    table = pa.table({"id": range(len(DOCUMENTS)), "j": pa.array(DOCUMENTS, pa.json_())})
    lance.write_dataset(table, str(tmp_path))
    reference, ours = lance.dataset(str(tmp_path)), lance_spark.open(str(tmp_path))
    for condition in CONDITIONS:
        for query in (condition, f"NOT {condition}", f"({condition}) IS NULL", f"{condition} AND id < 5"):
            expected = reference.to_table(columns=["id"], filter=query)["id"].to_pylist()
            assert ours.to_table(columns=["id"], filter=query)["id"].to_pylist() == expected, query
        assert parse(str(parse(condition))) == parse(condition)


def test_texts_are_those_of_pylance(tmp_path: Path) -> None:
    rng = random.Random(3)
    numbers = [*NUMBERS, *(rng.uniform(-10, 10) * 10.0 ** rng.randint(-25, 25) for _ in range(300))]
    texts = [json.dumps({"n": number, "m": [number]}).replace("Infinity", "1e400") for number in numbers]
    table = pa.table({"j": pa.array([*texts, *(item for item in DOCUMENTS if item is not None)], pa.json_())})
    reference = lance.write_dataset(table, str(tmp_path))
    schema, batches = lance_spark.open(str(tmp_path)).stored_rows(["j"])
    documents = pa.Table.from_batches(batches, schema)["j"].combine_chunks()
    for path in ("$", "$.n", "$.m[0]", "$.a", "$.b[4]"):
        expected = reference.scanner(columns={"x": f"json_extract(j, '{path}')"}).to_table()["x"].to_pylist()
        assert JsonTest(EXTRACT, Column(("j",)), path).evaluated(documents).to_pylist() == expected, path


@pytest.mark.parametrize(
    "query",
    [
        "json_extract(j, 'a') = '1'",
        "json_exists(j, 'b.c')",
        "json_exists(j, '$.b[*]')",
        "json_exists(j, k)",
        "json_exists(j)",
        "json_array_length(j, 3) = 1",
        "json_array_contains(j, '$.b', k)",
        "json_array_contains(j, '$.b', NULL)",
    ],
)
def test_other_paths_and_arguments_are_refused(query: str) -> None:
    with pytest.raises(InvalidInputError):
        parse(query)


def test_bytes_that_are_no_documents_are_refused(tmp_path: Path) -> None:
    lance_spark.write(pa.table({"j": [b"\x80\x00\x00\xff"], "t": ["x"]}), str(tmp_path))
    for query in ("json_array_contains(j, '$', '1')", "json_exists(j, '$[3]')", "json_exists(t, '$')"):
        with pytest.raises(InvalidInputError, match=r"no binary JSON|takes a JSON column"):
            lance_spark.open(tmp_path).count_rows(query)
