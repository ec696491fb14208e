"""Expression fields: DataFusion evaluates them, and the specification's requirements are enforced."""

from __future__ import annotations

import datetime
import sys

import mmh3
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.partitioned.expression import check_expression, evaluate_expression
from lance_spark.partitioned.field import PartitionField, partition_field_from_json
from lance_spark.schema.arrow import from_arrow_schema

NUMBERS = pa.array([34, -7, None], pa.int64())
WORDS = pa.array(["Grüße", "b", None])
DAYS = pa.array([datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), None])


def hashed(*values: object) -> int:
    data = b"".join(
        value.encode() if isinstance(value, str) else int(str(value)).to_bytes(8, "little", signed=True)
        for value in values
        if value is not None
    )
    return mmh3.hash(data, 0, signed=True)


@pytest.fixture(autouse=True)
def _datafusion() -> None:
    pytest.importorskip("datafusion")


@pytest.mark.parametrize(
    ("expression", "columns", "type_", "expected"),
    [
        ("date_part('year', col0)", [DAYS], pa.int32(), [2024, 1969, None]),
        ("left(col0, 2)", [WORDS], pa.string(), ["Gr", "b", None]),
        ("col0 - (col0 % 10)", [NUMBERS], pa.int64(), [30, 0, None]),
        ("abs(murmur3(col0)) % 16", [NUMBERS], pa.int32(), [abs(hashed(34)) % 16, abs(hashed(-7)) % 16, None]),
        (
            "abs(murmur3_multi(col0, col1)) % 16",
            [NUMBERS, WORDS],
            pa.int32(),
            [abs(hashed(34, "Grüße")) % 16, abs(hashed(-7, "b")) % 16, None],
        ),
        ("MURMUR3( upper(col0) )", [WORDS], pa.int64(), [hashed("GRÜSSE"), hashed("B"), None]),
        ("murmur3(murmur3(col0) % 7)", [NUMBERS], pa.int64(), None),
        ("CASE WHEN col0 > 0 THEN 'up' WHEN col0 <= 0 THEN 'down' END", [NUMBERS], pa.string(), ["up", "down", None]),
        ("EXTRACT(MONTH FROM col0)", [DAYS], pa.int32(), [2, 12, None]),
        ("CAST(col0 AS VARCHAR) || '''x'", [NUMBERS], pa.large_string(), ["34'x", "-7'x", None]),
        ("murmur3_multi(col0, col0)", [NUMBERS], pa.int32(), [hashed(34, 34), hashed(-7, -7), None]),
    ],
)
def test_evaluate(expression: str, columns: list[pa.Array], type_: pa.DataType, expected: list[object] | None) -> None:
    values = evaluate_expression(expression, columns, type_)
    assert values.type == type_
    assert expected is None or values.to_pylist() == expected
    check_expression(expression, [column.type for column in columns], type_)
    for rows in (0, 1):
        assert len(evaluate_expression(expression, [column[:rows] for column in columns], type_)) == rows


def test_rows_keep_their_order() -> None:
    numbers = pa.array(range(100_000))
    assert evaluate_expression("col0 * 2", [numbers], pa.int64()).to_pylist() == list(range(0, 200_000, 2))


@pytest.mark.parametrize(
    "expression",
    [
        "random()",
        "col0 + random()",
        "now()",
        "current_date",
        "CURRENT_TIMESTAMP",
        "current_date()",
        "uuid()",
        "(SELECT 1)",
        "sum(col0)",
        "row_number() OVER ()",
        "col1",
        "other",
        "col0; DROP TABLE source",
        "col0) FROM source --",
        "col0 -- comment",
        "col0 /* comment */",
        "1) , (2",
        '"col0"',
        "version()",
        "",
        "   ",
        "'open",
        "murmur3(col0",
        "murmur3()",
        "murmur3(col0, col0)",
        "lance_hash_0(col0)",
        "$1",
    ],
)
def test_what_is_no_function_of_the_row_is_refused(expression: str) -> None:
    with pytest.raises(InvalidInputError):
        check_expression(expression, [pa.int64()], pa.int64())


@pytest.mark.parametrize(
    ("expression", "type_", "message"),
    [
        ("col0", pa.string(), "result_type"),
        ("col0 = 5", pa.int32(), "result_type"),
        ("arrow_typeof(col0)", pa.string(), "equal numbers"),
    ],
)
def test_requirements_are_checked(expression: str, type_: pa.DataType, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_expression(expression, [pa.int64()], type_)


def test_values_beyond_the_result_type_are_an_error() -> None:
    with pytest.raises(InvalidInputError, match="gives no int8"):
        evaluate_expression("col0 * 100", [NUMBERS], pa.int8())


def test_fields_with_an_expression() -> None:
    schema = from_arrow_schema(pa.schema([("n", pa.int64())]))
    members = {"field_id": "e", "source_ids": [0], "expression": "col0 % 3", "result_type": {"type": "int64"}}
    field = partition_field_from_json(members)
    assert field == PartitionField("e", (0,), pa.int64(), expression="col0 % 3")
    assert field.to_json() == members
    field.check(schema)
    assert field.values(pa.RecordBatch.from_arrays([NUMBERS], ["n"]), schema).to_pylist() == [1, -1, None]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datafusion", None)
    with pytest.raises(UnsupportedFeatureError, match=r"pip install 'lance-spark\[datafusion\]'"):
        evaluate_expression("col0", [NUMBERS], pa.int64())
