"""Random rows with dates and times, conditions on them, and partition specs over their columns."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lance_spark.partitioned.field import PartitionField, partition_field
from lance_spark.partitioned.spec import PartitionSpec
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.field import LanceSchema
from tests.expr.random_rows import VALUES, simple_conditions

MOMENTS = st.datetimes(datetime.datetime(1899, 1, 1), datetime.datetime(2101, 1, 1)) | st.sampled_from(
    [
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(1970, 1, 1),
        datetime.datetime(2024, 2, 29, 12),
        datetime.datetime(2024, 3, 31, 1, 30),
        datetime.datetime(2024, 11, 3, 5, 30),
        datetime.datetime(2011, 12, 30, 10),
        datetime.datetime(2024, 12, 31, 23, 59),
    ]
)
NEAR = st.datetimes(datetime.datetime(2023, 11, 1), datetime.datetime(2025, 2, 1))
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **VALUES,
    "ts": (pa.timestamp("us", "UTC"), MOMENTS | NEAR),
    "ntz": (pa.timestamp("ns"), MOMENTS | NEAR),
}
ARROW_SCHEMA = pa.schema([pa.field(name, type_) for name, (type_, _) in COLUMNS.items()])
SCHEMA: LanceSchema = from_arrow_schema(ARROW_SCHEMA)

_HIERARCHY: tuple[Transform, ...] = (Year(), Month(), Day(), Hour())


@st.composite
def rows(draw: st.DrawFn) -> pa.RecordBatch:
    count = draw(st.integers(1, 10))
    columns = [
        pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), type_)
        for type_, values in COLUMNS.values()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


@st.composite
def _moment_conditions(draw: st.DrawFn, names: Sequence[str]) -> str:
    name = draw(st.sampled_from(names))
    words = {"ts": "TIMESTAMP", "ntz": "TIMESTAMP_NTZ", "day": "DATE"}
    word = words[draw(st.sampled_from(["ts", "ntz", "day", name, name, name]))]

    def constant() -> str:
        moment = draw(MOMENTS | NEAR)
        return f"DATE '{moment:%Y-%m-%d}'" if word == "DATE" else f"{word} '{moment:%Y-%m-%d %H:%M:%S.%f}'"

    kind = draw(st.sampled_from(["compare", "in", "between", "between", "year", "part", "cast"]))
    negation = draw(st.sampled_from(["", "", "NOT "]))
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
    if kind == "compare":
        return f"{name} {op} {constant()}"
    if kind == "in":
        return f"{name} {negation}IN ({', '.join(constant() for _ in range(draw(st.integers(1, 4))))})"
    if kind == "between":
        first, last = sorted([constant(), constant()])
        return f"{name} {negation}BETWEEN {first} AND {last}"
    if kind == "year":
        return f"year({name}) {op} {draw(st.integers(1960, 2030))}"
    if kind == "part":
        return f"{draw(st.sampled_from(['month', 'day']))}({name}) {op} {draw(st.integers(0, 31))}"
    return f"CAST({name} AS DATE) {op} DATE '{draw(NEAR):%Y-%m-%d}'"


_SPECIAL = {
    "txt": [
        "txt LIKE 'a%'",
        "txt LIKE '%b%'",
        "txt LIKE 'ab'",
        "txt NOT LIKE 'a_b%'",
        "startswith(txt, 'É')",
        "upper(txt) = 'AB'",
        "substring(txt, 1, 2) = 'ab'",
        "txt > 'ab'",
    ],
    "f64": ["isnan(f64)", "f64 <=> NULL", "NOT f64 < 5"],
    "f32": ["f32 > 0.25D", "CAST(f32 AS DOUBLE) <= 0.5D", "f32 <=> 0.5F"],
    "flag": ["flag", "flag <=> FALSE"],
    "i8": ["i8 + 1 > 5", "CAST(i8 AS BIGINT) > 5", "i8 <=> NULL", "NULL", "TRUE"],
    "i64": ["i64 IN (5, 5.0D, NULL)", "i64 NOT IN (5, NULL)", "i64 <=> 5"],
}
_MOMENT_COLUMNS = ("day", "ntz", "ts")


@st.composite
def conditions(draw: st.DrawFn, names: Sequence[str]) -> str:
    """A condition that reads columns of `names`."""
    choices = [st.sampled_from(_SPECIAL[name]) for name in names if name in _SPECIAL]
    moments = [name for name in names if name in _MOMENT_COLUMNS]
    plain = [name for name in names if name in VALUES]
    choices += [_moment_conditions(moments)] * 2 if moments else []
    choices += [simple_conditions(plain)] * 2 if plain else []
    tree = st.recursive(
        st.one_of(choices),
        lambda inner: st.builds(lambda a, b, op: f"({a}) {op} ({b})", inner, inner, st.sampled_from(["AND", "OR"]))
        | inner.map(lambda a: f"NOT ({a})"),
        max_leaves=5,
    )
    return draw(tree)


@st.composite
def _fields(draw: st.DrawFn, names: Sequence[str]) -> list[tuple[list[str], Transform]]:
    kind = draw(st.sampled_from(["identity", "bucket", "multi_bucket", "truncate", "hierarchy", "hierarchy"]))
    source = draw(st.sampled_from(names))
    if kind == "hierarchy" and source in _MOMENT_COLUMNS:
        levels = draw(st.sets(st.integers(0, 2 if source == "day" else 3), min_size=1))
        return [([source], _HIERARCHY[level]) for level in sorted(levels)]
    if kind == "truncate" and source == "txt":
        return [(["txt"], Truncate(draw(st.sampled_from([1, 2, 3]))))]
    if kind == "truncate" and source not in (*_MOMENT_COLUMNS, "flag"):
        return [([source], Truncate(draw(st.sampled_from([1, 3, 10, 128, 1000, 2**31 - 1]))))]
    if kind == "multi_bucket":
        sources = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        return [(sources, MultiBucket(draw(st.sampled_from([2, 5, 2**31 - 1]))))]
    if kind == "identity":
        return [([source], Identity())]
    return [([source], Bucket(draw(st.sampled_from([1, 2, 7, 16, 1000]))))]


@st.composite
def specs(draw: st.DrawFn, names: Sequence[str] = tuple(COLUMNS)) -> PartitionSpec:
    """A spec with fields of columns of `names`."""
    drawn = [field for fields in draw(st.lists(_fields(names), min_size=1, max_size=3)) for field in fields]
    fields: dict[tuple[object, ...], PartitionField] = {}
    for position, (sources, transform) in enumerate(drawn):
        field = partition_field(f"p{position}", SCHEMA, sources, transform)
        fields.setdefault(field.definition, field)
    return PartitionSpec(1, tuple(fields.values()))


@st.composite
def specs_and_conditions(draw: st.DrawFn) -> tuple[PartitionSpec, str]:
    """A spec, and a condition on columns most of which it partitions by."""
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True))
    return draw(specs(names)), draw(conditions(names))
