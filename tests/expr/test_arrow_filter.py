"""Filters of pyarrow find the rows that pyarrow finds."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.sql.parse import to_expr

DAY = datetime.date(2024, 2, 29)
ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, 4, -5], pa.int32()),
        "f": pa.array([1.5, None, 2.5, float("nan"), 0.0]),
        "t": ["ab", "a%c", None, "", "xab"],
        "flag": [True, False, None, True, False],
        "d": pa.array([DAY, None, DAY, datetime.date(1969, 1, 1), None]),
        "ts": pa.array([1, 2, None, 4, 5], pa.timestamp("us", "UTC")),
        "ns": pa.array([0, 1, None, 1500, 86_400_000_000_001], pa.timestamp("ns")),
        "span": pa.array([0, 1, None, 1500, 86_400_000_000_001], pa.duration("ns")),
        "clock": pa.array([0, 1, None, 1500, 2000], pa.time64("ns")),
        "f32": pa.array([0.1, None, 0.5, float("nan"), 2.0], pa.float32()),
        "n": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("2.00"), None, decimal.Decimal("-1.00")]),
        "s": pa.array([{"x": 1}, {"x": None}, None, {"x": 4}, {"x": 5}], pa.struct([("x", pa.int64())])),
    }
)
A, F, T = pc.field("a"), pc.field("f"), pc.field("t")

EXPRESSIONS: list[Any] = [
    A == 1,
    A != 1,
    (A < 2) | (A >= 4),
    (A <= 2) & (A > -5) & (F > 1),
    ~((A == 1) & (F == 2.5)),
    ~((A == 1) | pc.field("flag")),
    pc.field("flag"),
    A.is_null(),
    ~A.is_null(),
    A.is_valid(),
    F.is_null(nan_is_null=True),
    F.is_nan(),
    ~F.is_nan(),
    A.isin([1, 4]),
    ~A.isin([1, 4]),
    A.isin([1, None]),
    ~A.isin([1, None]),
    A.isin([]),
    A.isin(pa.array([None], pa.int32())),
    pc.is_in(A, pa.array([1, None], pa.int32()), skip_nulls=True),
    T.isin(["ab", ""]),
    pc.field("ns").isin(pa.array([1, 1500, None], pa.timestamp("ns"))),
    pc.field("ns") == pa.scalar(1, pa.timestamp("ns")),
    pc.field("span").isin(pa.array([1, 86_400_000_000_001], pa.duration("ns"))),
    pc.field("clock").isin(pa.array([1, 2000], pa.time64("ns"))),
    pc.field("f32").isin(pa.array([0.1, 2.0], pa.float32())),
    pc.starts_with(T, "a"),
    pc.ends_with(T, "ab"),
    ~pc.match_substring(T, "%"),
    pc.match_like(T, "a%"),
    T == "a%c",
    pc.field("d") == DAY,
    pc.field("ts") > datetime.datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=datetime.timezone.utc),
    pc.field("n") > decimal.Decimal("1.05"),
    pc.field("s", "x") > 1,
    pc.scalar(True),
    pc.scalar(False),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_rows_are_those_of_pyarrow(expression: Any) -> None:
    expected = ROWS.filter(expression)["a"].to_pylist()
    kept = evaluate_filter(to_expr(expression), ROWS)
    assert ROWS.filter(pa.array(kept))["a"].to_pylist() == expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (A + 1 > 2, "add_checked"),
        (A.cast(pa.int8()) == 1, "cast"),
        (pc.starts_with(T, "A", ignore_case=True), "ignore_case"),
        (pc.match_substring_regex(T, "a."), "match_substring_regex"),
        (pc.field(0) > 1, "no translation"),
    ],
    ids=str,
)
def test_what_has_no_translation_is_refused(expression: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        to_expr(expression)


def test_long_chains_are_translated_and_deep_ones_refused() -> None:
    terms = [number == A for number in range(150)]
    chain = terms[0]
    for term in terms[1:]:
        chain = chain | term
    assert to_expr(chain) == to_expr(" OR ".join(f"a = {number}" for number in range(150)))
    for _ in range(2_000):
        chain = ~chain
    with pytest.raises(InvalidInputError, match="nests more than"):
        to_expr(chain)
