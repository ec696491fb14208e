"""Random tables, and random conditions on them in the SQL that Spark, DuckDB and this package have in common."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i8": (pa.int8(), st.integers(-128, 127)),
    "i64": (pa.int64(), INT64 | st.sampled_from([0, 1, 5, 2**53, 2**53 + 1])),
    "u32": (pa.uint32(), st.integers(0, 2**32 - 1) | st.sampled_from([0, 5])),
    "f64": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, 5.0, math.nan])),
    "f32": (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.5])),
    "dec": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3) | st.just(Decimal("5.000"))),
    "txt": (pa.string(), st.text(st.sampled_from("ab%_É\n"), max_size=4)),
    "day": (pa.date32(), st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))),
    "flag": (pa.bool_(), st.booleans()),
}


@st.composite
def random_rows(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 12))
    columns = {
        name: pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), type_)
        for name, (type_, values) in VALUES.items()
    }
    return pa.table({"id": pa.array(range(count), pa.int64()), **columns})


def _constant(name: str) -> st.SearchStrategy[str]:
    numbers = st.sampled_from(["0", "5", "-3", "5.0", "0.5", "-0.001", "300"]) | st.integers(-(10**9), 10**9).map(str)
    return {
        "txt": st.text(st.sampled_from("abÉ"), max_size=2).map(lambda text: f"'{text}'"),
        "day": st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)).map(lambda day: f"DATE '{day}'"),
        "flag": st.sampled_from(["TRUE", "FALSE"]),
        "i64": numbers | INT64.map(str),
    }.get(name, numbers)


@st.composite
def simple_conditions(draw: st.DrawFn, names: Sequence[str] = tuple(sorted(VALUES))) -> str:
    name = draw(st.sampled_from(names))
    kind = draw(st.sampled_from(["compare", "in", "null", "between"]))
    constant = _constant(name)
    negation = draw(st.sampled_from(["", "NOT "]))
    if kind == "null":
        return f"{name} IS {negation}NULL"
    if kind == "in":
        return f"{name} {negation}IN ({', '.join(draw(st.lists(constant, min_size=1, max_size=3)))})"
    if kind == "between":
        return f"{name} {negation}BETWEEN {draw(constant)} AND {draw(constant)}"
    return f"{name} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {draw(constant)}"


conditions = st.recursive(
    simple_conditions()
    | st.just("flag")
    | st.sampled_from(["txt LIKE 'a%'", "txt LIKE '%b%'", "txt LIKE '_'", "txt LIKE '%a_b%'"]),
    lambda inner: st.builds(lambda a, b, op: f"({a}) {op} ({b})", inner, inner, st.sampled_from(["AND", "OR"]))
    | inner.map(lambda a: f"NOT ({a})"),
    max_leaves=4,
)
