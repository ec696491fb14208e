"""Random statements over tables with indexes, beside a model in Python: an index changes no result of any statement."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.connector.random_statements import (
    COLUMNS,
    SCHEMA,
    Condition,
    Row,
    below,
    condition,
    constant,
    delete,
    in_order,
    merge,
    of_spark,
    rows_of,
    update,
)
from tests.support.history_seeds import seeds

STEPS = 10
KINDS = [
    *("btree (id)", "bitmap (id)", "zonemap (id)", "btree (k)", "bitmap (k)", "zonemap (k)", "zonemap (x)"),
    *("btree (x)", "btree (s)", "bitmap (s)", "bloomfilter (s)", "ngram (s)"),
]
PARTITIONINGS = ["", "PARTITIONED BY (bucket(3, id), k)", "PARTITIONED BY (k)"]
DEFERRED = "OPTIMIZE {} WITH (target_rows_per_fragment = 1000, defer_index_remap = true)"
REFUSED = "cannot defer the remapping of indexes"

Rows = dict[int, Row]
Statement = Callable[[random.Random, Rows, Rows], str]


def values_of(rows: Rows) -> str:
    def text(name: str, value: object) -> str:
        return str(value) if name == "id" else constant(name, value)

    return ", ".join(f"({', '.join(text(name, row[name]) for name in SCHEMA.names)})" for row in rows.values())


def new_rows(draw: random.Random, table: Rows, count: int) -> Rows:
    first = max([*table, 250]) + 1
    return rows_of(draw, range(first, first + count))


def insert(draw: random.Random, table: Rows, source: Rows) -> str:
    rows = new_rows(draw, table, 30)
    table |= rows
    return f"INSERT INTO {{}} VALUES {values_of(rows)}"


def replace_where(draw: random.Random, table: Rows, source: Rows) -> str:
    holds = below(bound := draw.randrange(1, 8))
    for number in [number for number, row in table.items() if holds(row)]:
        del table[number]
    rows = {number: row | {"k": draw.randrange(bound)} for number, row in new_rows(draw, table, 10).items()}
    table |= rows
    return f"INSERT INTO {{}} REPLACE WHERE k < {bound} VALUES {values_of(rows)}"


def index_statement(draw: random.Random, names: list[str]) -> str:
    """A statement that changes no row: it makes, drops or maintains an index, or compacts."""
    choice = draw.random()
    if choice < 0.45 or not names:
        names.append(f"i{draw.randrange(10**9)}")
        return f"ALTER TABLE {{}} CREATE INDEX {names[-1]} USING {draw.choice(KINDS)}"
    if choice < 0.55:
        return f"DROP INDEX {names.pop(draw.randrange(len(names)))} ON {{}}"
    maintained = f"ALTER TABLE {{}} {draw.choice(['OPTIMIZE', 'REFRESH'])} INDEX {draw.choice(names)}"
    return draw.choice([maintained, "OPTIMIZE {} WITH (target_rows_per_fragment = 50)", DEFERRED])


def lookup(draw: random.Random, table: Rows, source: Rows) -> Condition:
    """A condition that an index answers, or any other."""
    number = draw.choice(list(table) or [1])
    return draw.choice(
        [
            (f"t.id = {number}", lambda row: row["id"] == number),
            (
                f"t.id BETWEEN {number - 3} AND {number + 5}",
                lambda row: number - 3 <= int(str(row["id"])) <= number + 5,
            ),
            ("t.s LIKE '%b%'", lambda row: None if row["s"] is None else "b" in str(row["s"])),
            # NaN is the largest number of Spark's.
            ("t.x >= 1.0", lambda row: None if row["x"] is None else not float(str(row["x"])) < 1.0),
            condition(draw, "t.", source),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("seed", seeds(1, one_of=100))
def test_rows_are_those_of_the_model(spark: SparkSession, seed: int, stable_row_ids: bool) -> None:
    draw = random.Random(f"{seed} {stable_row_ids}")
    table, source = rows_of(draw, range(200)), rows_of(draw, range(150, 250))
    target = f"lance.indexed_{seed}{'_stable' if stable_row_ids else ''}"
    properties = f"TBLPROPERTIES ('enable_stable_row_ids' = '{str(stable_row_ids).lower()}')"
    spark.sql(f"CREATE TABLE {target} ({COLUMNS}) {PARTITIONINGS[(seed + stable_row_ids) % 3]} {properties}")
    spark.createDataFrame(pa.Table.from_pylist(list(source.values()), SCHEMA)).createOrReplaceTempView("source")
    spark.sql(f"INSERT INTO {target} VALUES {values_of(table)}")
    names: list[str] = []
    changes: list[Statement] = [delete, update, merge, insert, replace_where]
    done: list[str] = []
    for _ in range(STEPS):
        text = draw.choice(changes)(draw, table, source) if draw.random() < 0.5 else index_statement(draw, names)
        done.append(text)
        try:
            spark.sql(text.format(target))
        except PySparkException as error:
            if not (stable_row_ids and text == DEFERRED and REFUSED in str(error)):
                raise
        queries = [("true", lambda row: True), *(lookup(draw, table, source) for _ in range(2))]
        for where, holds in queries:
            expected = in_order([row for row in table.values() if holds(row)])
            assert of_spark(spark, f"SELECT * FROM {target} t WHERE {where}") == expected, (where, done)
            (count,) = spark.sql(f"SELECT count(*) FROM {target} t WHERE {where}").collect()
            assert count[0] == len(expected), (where, done)
