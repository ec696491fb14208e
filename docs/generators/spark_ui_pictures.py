"""Pictures of queries in Spark's UI: a scan that is pruned, and a join without a shuffle."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser import area_around, browser_page, save
from playwright.sync_api import Page
from pyspark.sql import SparkSession

import lance_spark

SCAN = "pruned-scan.png"
JOIN = "join-without-shuffle.png"

_HIDDEN = ".tooltip, #plan-viz-graph > div, .cluster .label { visibility: hidden }"
"""A style for what would lie over the plan or be cut off: tooltip, controls, the time of the stage under an arrow."""


def write(folder: Path) -> None:
    """Writes both pictures into the folder."""
    with _session() as spark, browser_page() as page:
        _picture_of_scan(page, _run(spark, _scan(spark)), folder / SCAN)
        _picture_of_join(page, _run(spark, _join(spark)), folder / JOIN)


@contextmanager
def _session() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as root:
        builder = (
            SparkSession.builder.master("local[2]")
            .appName("lance-spark")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "true")
            .config("spark.ui.port", "0")
            # Small tables are read by tasks, and joined as large ones are.
            .config("spark.sql.lance.inlineBytes", "0")
            .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        )
        spark = lance_spark.configure(builder, root=root).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql("CREATE NAMESPACE lance.shop")
        yield spark
        spark.stop()


def _scan(spark: SparkSession) -> str:
    """A query that reads one fragment of four in two partitions of twelve."""
    spark.sql(
        "CREATE TABLE lance.shop.sales (id BIGINT, day DATE, cents INT) USING lance PARTITIONED BY (months(day)) "
        "TBLPROPERTIES ('lance.auto_zonemap' = 'id')"
    )
    for first in range(0, 1_200_000, 300_000):
        spark.sql(
            "INSERT INTO lance.shop.sales SELECT id, date'2026-01-01' + cast(id % 365 AS INT), cast(id % 9900 AS INT) "
            f"FROM range({first}, {first + 300_000}, 1, 1)"
        )
    return "SELECT id, cents FROM lance.shop.sales WHERE day >= '2026-11-01' AND id >= 1000000"


def _join(spark: SparkSession) -> str:
    """A join of eight buckets with four."""
    spark.sql("CREATE TABLE lance.shop.orders (id BIGINT, item STRING) USING lance PARTITIONED BY (bucket(8, id))")
    spark.sql("CREATE TABLE lance.shop.payments (id BIGINT, paid INT) USING lance PARTITIONED BY (bucket(4, id))")
    spark.sql("INSERT INTO lance.shop.orders SELECT id, concat('item ', id) FROM range(0, 100000, 1, 1)")
    spark.sql("INSERT INTO lance.shop.payments SELECT id, cast(id AS INT) FROM range(0, 100000, 2, 1)")
    return "SELECT id, item, paid FROM lance.shop.orders JOIN lance.shop.payments USING (id)"


def _run(spark: SparkSession, query: str) -> str:
    """The address of the UI's page about a query, after it has run."""
    for _ in range(2):  # The times of a first run are those of compilers.
        spark.sql(query).collect()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    newest = max(executions.apply(place).executionId() for place in range(executions.size()))
    return f"{spark.sparkContext.uiWebUrl}/SQL/execution/?id={newest}"


def _picture_of_scan(page: Page, address: str, path: Path) -> None:
    page.set_viewport_size({"width": 1000, "height": 560})
    page.goto(address)
    page.add_style_tag(content=_HIDDEN)
    page.locator("#plan-viz-graph .node", has_text="BatchScan").click()
    graph, panel = page.locator("#plan-viz-graph svg g.output"), page.locator("#plan-viz-details-panel")
    panel.get_by_text("fragments pruned").wait_for()
    save(page, area_around(graph, panel), path)


def _picture_of_join(page: Page, address: str, path: Path) -> None:
    page.set_viewport_size({"width": 1100, "height": 900})
    page.goto(address)
    page.add_style_tag(content=_HIDDEN)
    save(page, area_around(page.locator("#plan-viz-graph svg g.output")), path)
