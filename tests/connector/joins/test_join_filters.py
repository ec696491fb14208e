"""Joins: the keys of a filtered side choose the rows of the other one, and the answer is the same as without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from lance_spark.spark.connector.scan import runtime_filters
from tests.support.connector.fact_tables import MARK, answer, rows_of_facts
from tests.support.connector.plans import plan
from tests.support.connector.runtime_filters import PRUNING, load

pytestmark = pytest.mark.tasks

ROWS = 120_000
KEYS = 2_000


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Enough rows that filters at run time are worth it; every tenth key is null. By the reference library."""
    numbers = np.arange(ROWS)
    keys = numbers * 7919 % KEYS
    deleted = numbers // 10 % 10 == 3
    columns = {
        "id": pa.array(numbers),
        "k": pa.array(keys, mask=deleted),
        "small": pa.array(keys.astype(np.int16), mask=deleted),
        "name": pa.array([f"key {key}" for key in keys], mask=deleted),
        "day": pa.array(keys.astype(np.int32), mask=deleted).cast(pa.date32()),
        "price": pa.array(
            [None if out else Decimal(int(key)).scaleb(-2) for key, out in zip(keys, deleted, strict=True)]
        ),
        "x": pa.array(keys.astype(np.float64), mask=deleted),
        "part": pa.array([{"k": int(key)} for key in keys]),
    }
    columns["price"] = columns["price"].cast(pa.decimal128(9, 2))
    uri = str(tmp_path_factory.mktemp("join filters") / "facts")
    made = lance.write_dataset(pa.table(columns), uri, max_rows_per_file=50_000)
    made.delete("id % 1000 = 17")
    return uri


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One row a key, with columns of the types of the facts, and one row of nulls."""
    uri = str(tmp_path_factory.mktemp("join filters") / "keys")
    rows = [
        {"k": n, "small": n, "name": f"key {n}", "day": date.fromordinal(719163 + n), "price": Decimal(n).scaleb(-2)}
        for n in range(KEYS)
    ]
    rows = [{**row, "x": float(row["k"]), "colour": f"colour {row['k'] % 100}"} for row in rows]  # type: ignore[call-overload]
    rows.append({"colour": "colour 7"})
    kinds = [("k", pa.int64()), ("small", pa.int16()), ("name", pa.string()), ("day", pa.date32())]
    kinds += [("price", pa.decimal128(9, 2)), ("x", pa.float64()), ("colour", pa.string())]
    lance.write_dataset(pa.Table.from_pylist(rows, pa.schema(kinds)), uri)
    return uri


@pytest.fixture
def views(spark: SparkSession, facts: str, keys: str) -> Iterator[SparkSession]:
    load(spark, facts).createOrReplaceTempView("facts")
    load(spark, keys).createOrReplaceTempView("keys")
    yield spark
    spark.conf.unset(PRUNING)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["k", "small", "name", "day", "price", "part.k"])
def test_rows_are_chosen_by_the_keys_of_the_other_side(views: SparkSession, column: str) -> None:
    other = column.removeprefix("part.")
    text = f"SELECT f.id, d.colour FROM facts f JOIN keys d ON f.{column} = d.{other} WHERE d.colour = 'colour 7'"
    found, frame = answer(views, text)
    assert "dynamicpruning" in plan(frame)
    numbers = np.arange(ROWS)
    kept = (numbers * 7919 % KEYS % 100 == 7) & (numbers // 10 % 10 != 3) & (numbers % 1000 != 17)
    assert len(found) == rows_of_facts(frame) == kept.sum()


@pytest.mark.slow
def test_other_columns_are_left_to_the_join(views: SparkSession) -> None:
    text = "SELECT f.id FROM facts f JOIN keys d ON f.x = d.x WHERE d.colour = 'colour 7'"
    found, frame = answer(views, text)
    assert found
    assert rows_of_facts(frame) > ROWS / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "join",
    [
        "facts f LEFT JOIN d ON f.k = d.k",
        "facts f RIGHT JOIN d ON f.k = d.k",
        "facts f FULL JOIN d ON f.k = d.k",
        "facts f LEFT SEMI JOIN d ON f.k = d.k",
        "facts f LEFT ANTI JOIN d ON f.k = d.k",
        "facts f JOIN d ON f.k <=> d.k",
        "facts f JOIN d ON f.k = d.k AND f.name = d.name",
        "facts f JOIN d ON f.k = d.k + 2",
        "facts f JOIN d ON f.k = d.k JOIN facts g ON g.id = f.id",
        "facts f JOIN d ON f.k = d.k JOIN (SELECT * FROM keys WHERE small < 20) e ON e.name = f.name",
        "(SELECT k, max(id) AS id FROM facts GROUP BY k) f JOIN d ON f.k = d.k",
        "(SELECT * FROM facts WHERE id < 110000) f JOIN d ON f.k = d.k",
        "(SELECT * FROM facts ORDER BY id LIMIT 1000) f JOIN d ON f.k = d.k",
    ],
)
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_every_kind_of_join_has_its_rows(views: SparkSession, join: str, adaptive: str) -> None:
    views.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        text = f"WITH d AS (SELECT * FROM keys WHERE colour = 'colour 7') SELECT f.id FROM {join}"
        found, _ = answer(views, text if "RIGHT" not in join else text.replace("f.id", "f.id, d.k"))
        assert found
    finally:
        views.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.slow
def test_a_side_without_rows(views: SparkSession) -> None:
    text = "SELECT f.id FROM facts f JOIN keys d ON f.k = d.k WHERE d.colour = 'none'"
    found, _ = answer(views, text)
    assert found == []


def test_without_a_filter_there_is_nothing_to_choose_by(views: SparkSession) -> None:
    frame = views.sql("SELECT count(*) FROM facts f JOIN keys d ON f.k = d.k")
    assert "dynamicpruning" not in plan(frame)


@pytest.mark.slow
def test_filters_that_would_be_dropped_are_not_planned(views: SparkSession) -> None:
    """Without a broadcast Spark would plan the other side once more, and then leave the filter out."""
    views.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        frame = views.sql("SELECT f.id FROM facts f JOIN keys d ON f.k = d.k WHERE d.colour = 'colour 7'")
        assert "dynamicpruning" not in plan(frame)
        assert frame.count() > 0
    finally:
        views.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_small_tables_are_read_whole(views: SparkSession, keys: str) -> None:
    load(views, keys).createOrReplaceTempView("again")
    frame = views.sql("SELECT a.k FROM again a JOIN keys d ON a.k = d.k WHERE d.colour = 'colour 7'")
    assert "dynamicpruning" not in plan(frame)


def test_too_many_values_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([pa.field("k", pa.int64())])
    request = runtime_filters.KeyFilter(("k",), LongType(), attachment=0)
    attachment = np.arange(10, dtype="<i8").tobytes()
    found = runtime_filters.runtime_filter([request], [attachment], schema, ())
    assert str(found) == "k IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)"
    assert runtime_filters.affordable(found, 3) is found
    monkeypatch.setattr(runtime_filters, "MAX_SENT_BYTES", 200)
    assert runtime_filters.affordable(found, 3) is None
    monkeypatch.setattr(runtime_filters, "MAX_VALUES", 9)
    assert runtime_filters.runtime_filter([request], [attachment], schema, ()) is None


def test_values_that_a_column_cannot_have_are_no_error() -> None:
    schema = pa.schema([pa.field("k", pa.int8())])
    request = runtime_filters.KeyFilter(("k",), LongType(), attachment=0)
    assert runtime_filters.runtime_filter([request], [(1000).to_bytes(8, "little")], schema, ()) is None


@pytest.mark.slow
def test_an_estimate_lets_spark_broadcast_a_filtered_table(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    numbers = np.arange(400_000)
    lance.write_dataset(pa.table({"id": numbers, "v": np.random.default_rng(1).permutation(numbers)}), uri)

    def size(condition: str) -> int:
        frame = load(spark, uri).where(condition)
        return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "500000")
    try:
        table = size("true")
        assert table > 1_600_000
        assert size("v < 40000") < table / 5
        assert size("v >= 0") == table
        load(spark, uri).createOrReplaceTempView("t")
        frame = spark.sql("SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE b.v < 4000")
        assert "BroadcastHashJoin" in plan(frame)
        assert frame.count() == 4000
        # Below the threshold nobody has to know.
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000000000")
        assert size("v < 40000") == table
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def workers() -> set[int]:
    """The Python processes of Spark below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = {os.getpid()}
    while below := {process for process, parent in parents.items() if parent in found} - found:
        found |= below
    return {process for process in found if b"pyspark.daemon" in _command(process)}


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processes of Linux")
def test_a_limit_leaves_the_workers_for_the_next_task(spark: SparkSession, facts: str) -> None:
    """A worker that has more to tell when its task ends is thrown away, and a new one takes a second to start."""
    limited = load(spark, facts).limit(10)
    for _ in range(3):
        assert len(limited.collect()) == 10
    before = workers()
    for _ in range(3):
        assert len(limited.collect()) == 10
    assert workers() == before


def test_a_mark_that_is_left_in_a_plan_is_true(spark: SparkSession) -> None:
    """A false one would empty the result of a query without an error."""
    declared = _rule(spark).getDeclaredField("MARK")
    declared.setAccessible(True)
    assert MARK in declared.get(None).toString()
    assert declared.get(None).eval(None) is True


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT k FROM keys WHERE '{MARK}' = '{MARK}'",
        f"SELECT k FROM keys WHERE k = 1 AND '{MARK}' = '{MARK}'",
        f"SELECT k FROM keys WHERE k = 1 OR NOT '{MARK}' = '{MARK}'",
        f"SELECT '{MARK}' = '{MARK}' AS same FROM keys",
        f"SELECT a.k FROM keys a JOIN keys b ON a.k = b.k AND '{MARK}' = '{MARK}'",
        f"SELECT k FROM keys WHERE k IN (SELECT id FROM facts WHERE '{MARK}' = '{MARK}' OR id = 1)",
    ],
)
def test_no_mark_is_left_when_the_rule_ends(views: SparkSession, text: str) -> None:
    marked = views.sql(text)._jdf.queryExecution().analyzed()
    assert MARK in marked.toString()
    method = next(item for item in _rule(views).getDeclaredMethods() if item.getName() == "unmarked")
    method.setAccessible(True)
    arguments = views._jvm.java.util.ArrayList()  # type: ignore[union-attr]
    arguments.add(marked)
    assert MARK not in method.invoke(None, arguments.toArray()).toString()


def _rule(spark: SparkSession) -> Any:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
    return loader.loadClass("io.lancespark.compat.optimizer.LanceDynamicPruning")
