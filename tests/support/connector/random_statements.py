"""Random row-level statements and a model of what they do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
from pyspark.sql import SparkSession

Row = dict[str, object]


Truth = bool | None


Condition = tuple[str, Callable[[Row], Truth]]


SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("x", pa.float64()), ("s", pa.string())])


COLUMNS = "id BIGINT, k INT, x DOUBLE, s STRING"


NAN = float("nan")


VALUES: dict[str, list[object]] = {"k": [None, *range(8)], "x": [None, NAN, 0.0, 1.5], "s": [None, "", "a", "ab", "%"]}


SQL = {"k": "CAST({} AS INT)", "x": "CAST('{}' AS DOUBLE)", "s": "'{}'"}


_STEPS = 5


def rows_of(draw: random.Random, ids: range) -> dict[int, Row]:
    return {number: {"id": number} | {name: draw.choice(some) for name, some in VALUES.items()} for number in ids}


def constant(name: str, value: object) -> str:
    return SQL[name].format(value) if value is not None else "NULL"


def same(one: object, other: object) -> bool:
    """Equality of values that are not null: NaN equals NaN."""
    return one == other or (one != one and other != other)


def all_of(terms: list[Truth]) -> Truth:
    """AND of three values."""
    return False if False in terms else None if None in terms else True


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def is_in(value: object, options: list[object]) -> Truth:
    """IN of three values; of no options nothing is."""
    if not options:
        return False
    if value is None:
        return None
    return any(same(value, option) for option in options if option is not None) or (None if None in options else False)


def below(bound: int) -> Callable[[Row], Truth]:
    """The condition `k < bound`."""
    return lambda row: None if not isinstance(row["k"], int) else row["k"] < bound


def leaf(draw: random.Random, of: str, source: dict[int, Row]) -> Condition:
    """A comparison, or a subquery over the table `source`."""
    name = draw.choice(["k", "s", "x"])
    value = draw.choice(VALUES[name][1:])
    options = draw.sample(VALUES[name], 2)
    bound = draw.randrange(8)
    keys = [row["k"] for row in source.values() if below(bound)(row)]
    several = [row[name] for row in source.values() if row["k"] == bound]
    return draw.choice(
        [
            (f"{of}{name} = {constant(name, value)}", lambda row: is_in(row[name], [value])),
            (f"{of}k < {bound}", below(bound)),
            (f"{of}{name} IS NULL", lambda row: row[name] is None),
            (
                f"{of}{name} IN ({', '.join(constant(name, option) for option in options)})",
                lambda row: is_in(row[name], options),
            ),
            (f"{of}k IN (SELECT k FROM source WHERE k < {bound})", lambda row: is_in(row["k"], keys)),
            (
                f"{of}{name} NOT IN (SELECT {name} FROM source WHERE k = {bound})",
                lambda row: negated(is_in(row[name], several)),
            ),
            (
                f"EXISTS (SELECT 1 FROM source o WHERE o.{name} = {of}{name} AND o.k = {bound})",
                lambda row: is_in(row[name], several) is True,
            ),
        ]
    )


def condition(draw: random.Random, of: str, source: dict[int, Row], depth: int = 2) -> Condition:
    if not depth or draw.random() < 0.3:
        return leaf(draw, of, source)
    (one, is_one), (other, is_other) = (condition(draw, of, source, depth - 1) for _ in range(2))
    kind = draw.choice(["AND", "OR", "NOT"])
    if kind == "NOT":
        return f"NOT ({one})", lambda row: negated(is_one(row))
    if kind == "AND":
        return f"({one} AND {other})", lambda row: all_of([is_one(row), is_other(row)])
    return f"({one} OR {other})", lambda row: negated(all_of([negated(is_one(row)), negated(is_other(row))]))


def delete(draw: random.Random, table: dict[int, Row], source: dict[int, Row]) -> str:
    text, holds = condition(draw, "t.", source)
    for number in [number for number, row in table.items() if holds(row)]:
        del table[number]
    return f"DELETE FROM {{}} t WHERE {text}"


def update(draw: random.Random, table: dict[int, Row], source: dict[int, Row]) -> str:
    text, holds = condition(draw, "t.", source)
    name = draw.choice(["k", "s", "x"])
    value = draw.choice(VALUES[name])
    for row in [row for row in table.values() if holds(row)]:
        table[int(str(row["id"]))] = row | {name: value}
    return f"UPDATE {{}} t SET {name} = {constant(name, value)} WHERE {text}"


def merge(draw: random.Random, table: dict[int, Row], source: dict[int, Row]) -> str:
    wanted, changed, inserted, alone = (draw.randrange(1, 9) for _ in range(4))
    chosen = {number: row for number, row in source.items() if below(wanted)(row)}
    before = dict(table)
    for number, row in before.items():
        if number not in chosen:
            if below(alone)(row):
                table[number] = row | {"x": 1.5}
        elif below(changed)(row):
            table[number] = row | {"s": chosen[number]["s"]}
        else:
            del table[number]
    table |= {n: row for n, row in chosen.items() if n not in before and below(inserted)(row)}
    return (
        f"MERGE INTO {{}} t USING (SELECT * FROM source WHERE k < {wanted}) s ON t.id = s.id "
        f"WHEN MATCHED AND t.k < {changed} THEN UPDATE SET s = s.s WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED AND s.k < {inserted} THEN INSERT * "
        f"WHEN NOT MATCHED BY SOURCE AND t.k < {alone} THEN UPDATE SET x = 1.5"
    )


def in_order(rows: list[Row]) -> list[str]:
    """The rows as texts, so that NaN equals NaN."""
    return sorted(repr(tuple(row[name] for name in SCHEMA.names)) for row in rows)


def of_spark(spark: SparkSession, text: str) -> list[str]:
    return in_order([row.asDict() for row in spark.sql(text).collect()])


def check_random_statements(spark: SparkSession, folder: Path, partitioned: str, seed: int, mode: str = "auto") -> None:
    """Run random statements on a new table; its rows, also those of each version, are those of the model.

    Args:
        folder: gets the table that statements take rows from.
        partitioned: the clause of CREATE TABLE.
        mode: what updates write.
    """
    draw = random.Random(seed)
    name = f"random_{mode}_{seed}{'_parts' if partitioned else ''}"
    table, source = rows_of(draw, range(200)), rows_of(draw, range(150, 250))
    target = f"lance.{name}"
    spark.sql(f"CREATE TABLE {target} ({COLUMNS}) {partitioned} TBLPROPERTIES ('lance.update.mode' = '{mode}')")
    lance.write_dataset(pa.Table.from_pylist(list(source.values()), SCHEMA), f"{folder}/source", max_rows_per_file=30)
    spark.read.format("lance").load(f"{folder}/source").createOrReplaceTempView("source")
    spark.createDataFrame(pa.Table.from_pylist(list(table.values()), SCHEMA)).createOrReplaceTempView("first")
    for part in range(4):
        spark.sql(f"INSERT INTO {target} SELECT * FROM first WHERE id % 4 = {part}")
    seen = []
    for step in range(_STEPS):
        # Sources and rows of subqueries come from tasks, and with the plan.
        spark.conf.set("spark.sql.lance.inlineBytes", ["0", "1048576"][step % 2])
        text = draw.choice([delete, update, merge])(draw, table, source)
        spark.sql(text.format(target))
        expected = in_order(list(table.values()))
        assert of_spark(spark, f"SELECT * FROM {target}") == expected, text
        seen.append((spark.table(f"{target}.versions").agg({"version": "max"}).first()[0], expected))
    for version, expected in seen:
        assert of_spark(spark, f"SELECT * FROM {target} VERSION AS OF {version}") == expected
