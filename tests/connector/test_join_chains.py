"""Joins in a row: the rows that a filter leaves of one table choose those of the next, and these the rows of many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.connector.conftest import plan
from tests.connector.test_join_filters import answer, rows_of_facts
from tests.connector.test_spj_runtime_filters import PRUNING, load

LINES, SUPPLIERS, NATIONS = 1_050_000, 5_000, 25
CHAIN = "lines l JOIN suppliers s ON l.supplier = s.id JOIN nations n ON s.nation = n.id"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By the reference library. Every seventh line has no supplier, every eleventh supplier no nation."""
    root = tmp_path_factory.mktemp("chains")
    lines, suppliers, nations = np.arange(LINES), np.arange(SUPPLIERS), np.arange(NATIONS)
    rows = {
        "lines": {"id": lines, "supplier": pa.array(lines * 31 % SUPPLIERS, mask=lines % 7 == 0)},
        "suppliers": {"id": suppliers, "nation": pa.array(suppliers % NATIONS, mask=suppliers % 11 == 0)},
        "nations": {"id": nations, "name": [f"nation {n}" for n in nations], "region": nations // 5},
        "regions": {"id": np.arange(5), "name": [f"region {n}" for n in range(5)]},
    }
    for name, columns in rows.items():
        lance.write_dataset(pa.table(columns), str(root / name), max_rows_per_file=300_000)
    lance.dataset(str(root / "lines")).delete("id % 1000 = 3")
    return {name: str(root / name) for name in rows}


@pytest.fixture
def views(spark: SparkSession, tables: dict[str, str]) -> Iterator[SparkSession]:
    for name, uri in tables.items():
        load(spark, uri).createOrReplaceTempView(name)
    yield spark
    spark.conf.unset(PRUNING)


def lines_of(nations: set[int]) -> np.ndarray:
    """Ids of the lines whose supplier is of one of `nations`."""
    lines = np.arange(LINES)
    supplier = lines * 31 % SUPPLIERS
    there = (lines % 7 != 0) & (lines % 1000 != 3) & (supplier % 11 != 0)
    return lines[there & np.isin(supplier % NATIONS, list(nations))]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_are_chosen_over_two_joins(views: SparkSession, adaptive: str) -> None:
    views.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        found, frame = answer(views, f"SELECT l.id FROM {CHAIN} WHERE n.name = 'nation 3'")
        assert "list#" in frame._jdf.queryExecution().optimizedPlan().toString()
        expected = lines_of({3})
        assert found == sorted(f"Row(id={number})" for number in expected.tolist())
        # Spark shows what it has read only if it adapts its plans.
        assert adaptive == "false" or rows_of_facts(frame) == len(expected)
    finally:
        views.conf.unset("spark.sql.adaptive.enabled")


def test_rows_are_chosen_over_three_joins(views: SparkSession) -> None:
    text = f"SELECT count(*) FROM {CHAIN} JOIN regions r ON n.region = r.id WHERE r.name = 'region 2'"
    _, frame = answer(views, text)
    expected = lines_of({10, 11, 12, 13, 14})
    assert frame.collect()[0][0] == len(expected) == rows_of_facts(frame)


@pytest.mark.parametrize(
    "joins",
    [
        "lines l LEFT JOIN suppliers s ON l.supplier = s.id LEFT JOIN few n ON s.nation = n.id",
        "lines l LEFT JOIN suppliers s ON l.supplier = s.id JOIN few n ON s.nation = n.id",
        "lines l JOIN suppliers s ON l.supplier = s.id LEFT JOIN few n ON s.nation = n.id",
        "lines l JOIN suppliers s ON l.supplier = s.id LEFT SEMI JOIN few n ON s.nation = n.id",
        "lines l JOIN suppliers s ON l.supplier = s.id LEFT ANTI JOIN few n ON s.nation = n.id",
        "lines l LEFT SEMI JOIN (SELECT s.id FROM suppliers s JOIN few n ON s.nation = n.id) s ON l.supplier = s.id",
        "lines l LEFT ANTI JOIN (SELECT s.id FROM suppliers s JOIN few n ON s.nation = n.id) s ON l.supplier = s.id",
        "suppliers s JOIN lines l ON l.supplier = s.id JOIN few n ON s.nation = n.id",
        "lines l JOIN suppliers s ON l.supplier = s.id JOIN few n ON s.nation = n.id + 1",
        "lines l JOIN suppliers s ON l.supplier = s.id JOIN few n ON s.nation <=> n.id",
        "lines l FULL JOIN suppliers s ON l.supplier = s.id JOIN few n ON s.nation = n.id",
        "lines l JOIN suppliers s ON l.supplier = s.id JOIN suppliers t ON s.id = t.id JOIN few n ON t.nation = n.id",
        "lines l JOIN lines m ON l.id = m.id JOIN suppliers s ON m.supplier = s.id JOIN few n ON s.nation = n.id",
        "lines l JOIN suppliers s ON l.supplier = s.id JOIN none n ON s.nation = n.id",
    ],
)
def test_every_chain_has_its_rows(views: SparkSession, joins: str) -> None:
    views.sql("SELECT * FROM nations WHERE name IN ('nation 3', 'nation 4')").createOrReplaceTempView("few")
    views.sql("SELECT * FROM nations WHERE name = 'no nation'").createOrReplaceTempView("none")
    # The number, the sum and the exclusive or of the ids tell rows that are missing, or there twice.
    answer(views, f"SELECT count(*), sum(l.id), bit_xor(l.id * 31 + coalesce(l.supplier, 7)) FROM {joins}")


def test_few_rows_are_not_worth_a_query(views: SparkSession) -> None:
    few = "(SELECT s.id, s.nation FROM suppliers s WHERE s.id < 100000)"
    text = f"SELECT t.id FROM suppliers t JOIN {few} s ON t.id = s.id JOIN nations n ON s.nation = n.id"
    found, frame = answer(views, f"{text} WHERE n.name = 'nation 3'")
    assert found
    assert "list#" not in plan(frame)
    assert "dynamicpruning" not in plan(frame)


@pytest.mark.parametrize(
    "some",
    [
        "(SELECT * FROM suppliers ORDER BY rand() LIMIT 900)",
        "(SELECT * FROM suppliers WHERE rand() < 0.5)",
        "(SELECT * FROM suppliers TABLESAMPLE (50 PERCENT))",
        "(SELECT * FROM suppliers LIMIT 900)",
        "(SELECT id, max(nation) AS nation FROM suppliers GROUP BY id)",
        "(SELECT * FROM suppliers WHERE nation = (SELECT max(id) FROM few))",
    ],
)
def test_rows_that_may_be_others_the_next_time_are_asked_for_once(views: SparkSession, some: str) -> None:
    """A line whose supplier the join has, but not a second reading of the same, would be lost."""
    views.sql("SELECT * FROM nations WHERE name IN ('nation 3', 'nation 4')").createOrReplaceTempView("few")
    text = f"SELECT count(*) FROM lines l JOIN {some} s ON l.supplier = s.id JOIN few n ON s.nation = n.id"
    assert "list#" not in views.sql(text)._jdf.queryExecution().optimizedPlan().toString()
    assert views.sql(text).collect()[0][0] > 0


def test_without_broadcasts_there_are_no_keys(views: SparkSession) -> None:
    views.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        frame = views.sql(f"SELECT count(*) FROM {CHAIN} WHERE n.name = 'nation 3'")
        assert "dynamicpruning" not in plan(frame)
        assert frame.collect()[0][0] == len(lines_of({3}))
    finally:
        views.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_the_source_of_a_statement(views: SparkSession, tables: dict[str, str], tmp_path: Path) -> None:
    """Keys may leave out rows of the source of MERGE, and none of its target."""
    target = str(tmp_path / "target")
    numbers = np.arange(0, LINES, 1000)
    lance.write_dataset(pa.table({"id": numbers, "hits": np.zeros(len(numbers), np.int64)}), target)
    views.sql(f"""
        MERGE INTO lance.`{target}` t
        USING (SELECT l.id FROM {CHAIN} WHERE n.name = 'nation 3') s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET hits = 1
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET hits = -1
    """)
    rows = lance.dataset(target).to_table().to_pydict()
    chosen = set(lines_of({3}).tolist())
    assert dict(zip(rows["id"], rows["hits"], strict=True)) == {int(n): 1 if n in chosen else -1 for n in numbers}
