"""Joins in a row: keys of a filtered table choose rows of the next one, but never keys of keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.fact_tables import answer, rows_of_facts
from tests.support.connector.plan_shape import shape
from tests.support.connector.plans import plan
from tests.support.connector.runtime_filters import PRUNING, load, result

pytestmark = pytest.mark.tasks

LINES, SUPPLIERS, NATIONS = 1_050_000, 5_000, 25
PARTS, MAKERS = 130_000, 110_000
ENABLED = "spark.sql.lance.joinFilters.enabled"
CHAIN = "lines l JOIN suppliers s ON l.supplier = s.id JOIN nations n ON s.nation = n.id"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By the reference library. Every seventh line has no supplier, every eleventh supplier no nation."""
    root = tmp_path_factory.mktemp("chains")
    lines, suppliers, nations = np.arange(LINES), np.arange(SUPPLIERS), np.arange(NATIONS)
    parts, makers = np.arange(PARTS), np.arange(MAKERS)
    rows = {
        "lines": {
            "id": lines,
            "supplier": pa.array(lines * 31 % SUPPLIERS, mask=lines % 7 == 0),
            "part": lines * 31 % PARTS,
        },
        "parts": {"id": parts, "maker": parts % MAKERS},
        "makers": {"id": makers, "nation": makers % NATIONS},
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


@pytest.mark.slow
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_chain_has_its_rows_over_two_joins(views: SparkSession, adaptive: str) -> None:
    views.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        found, frame = answer(views, f"SELECT l.id FROM {CHAIN} WHERE n.name = 'nation 3'")
        assert found == sorted(f"Row(id={number})" for number in lines_of({3}).tolist())
        # Keys of suppliers that were chosen by keys themselves would take another reading of the suppliers.
        assert shape(frame).queries == 0
    finally:
        views.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.slow
def test_chain_has_its_rows_over_three_joins(views: SparkSession) -> None:
    text = f"SELECT count(*) FROM {CHAIN} JOIN regions r ON n.region = r.id WHERE r.name = 'region 2'"
    _, frame = answer(views, text)
    assert frame.collect()[0][0] == len(lines_of({10, 11, 12, 13, 14}))


@pytest.mark.slow
def test_chain_is_filtered_by_the_keys_of_its_middle(views: SparkSession) -> None:
    """The suppliers are filtered themselves, so their keys choose lines."""
    _, frame = answer(views, f"SELECT l.id FROM {CHAIN} WHERE s.nation = 3")
    assert (shape(frame).queries, shape(frame).depth) == (1, 1)
    assert rows_of_facts(frame) == len(lines_of({3}))


@pytest.mark.slow
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_keys_never_come_from_a_side_that_waits_for_keys(views: SparkSession, adaptive: str) -> None:
    """All three scans are worth a filter, and the two outer ones have one of their own."""
    views.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        joins = "lines l JOIN parts p ON l.part = p.id JOIN makers m ON p.maker = m.id"
        joins += " JOIN nations n ON m.nation = n.id"
        text = f"SELECT l.id FROM {joins} WHERE p.id < 900 AND m.id < 400 AND n.name = 'nation 3'"
        found, frame = answer(views, text)
        numbers = np.arange(LINES)
        part = numbers * 31 % PARTS
        maker = part % MAKERS
        kept = (numbers % 1000 != 3) & (part < 900) & (maker < 400) & (maker % NATIONS == 3)
        assert found == sorted(f"Row(id={number})" for number in numbers[kept].tolist())
        assert shape(frame).depth == 1
        assert shape(frame).queries >= 1
    finally:
        views.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.slow
def test_queries_for_keys_are_bounded(views: SparkSession) -> None:
    """Each of many joins could filter the lines; a query for keys costs planning."""
    joins = " ".join(f"JOIN suppliers s{n} ON l.supplier = s{n}.id AND s{n}.nation = {n % 25}" for n in range(60))
    text = f"SELECT count(*) FROM lines l {joins}"
    views.conf.set(PRUNING, "false")
    without = shape(views.sql(text))
    views.conf.unset(PRUNING)
    found = shape(views.sql(text))
    assert 0 < found.queries <= 60
    assert found.nodes <= without.nodes + 1_000 + found.queries


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_setting_turns_filters_by_keys_off(views: SparkSession) -> None:
    text = f"SELECT l.id FROM {CHAIN} WHERE s.nation = 3"
    found, frame = answer(views, text)
    assert shape(frame).queries == 1
    views.conf.set(ENABLED, "false")
    try:
        off = views.sql(text)
        assert shape(off).queries == 0
        assert result(off) == found
        views.conf.set(ENABLED, "perhaps")
        with pytest.raises(AnalysisException, match=r"spark\.sql\.lance\.joinFilters\.enabled is 'perhaps'"):
            views.sql(text).collect()
    finally:
        views.conf.unset(ENABLED)


@pytest.mark.slow
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
