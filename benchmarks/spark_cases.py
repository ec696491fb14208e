"""What the Spark benchmark asks: tables written by one Spark in each format, and queries over them as views.

Every format gets the same rows from the same DataFrames, so that the number of files and the order of rows agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark.spark.plugin.datasource import LanceDataSource
from tests.spark import tpch

WIDE_COLUMNS = 200
PLUGIN_NAME = "lance_plugin"
FORMATS = ("parquet", "lance", PLUGIN_NAME)


class PluginUnderAnotherName(LanceDataSource):
    """The plug-in, reachable where the connector's jar has taken the short name over."""

    @classmethod
    def name(cls) -> str:
        return PLUGIN_NAME


@dataclass(frozen=True)
class Case:
    """One query.

    Attributes:
        group: cases of one group share a geometric mean.
        sql: the text; its tables are views.
    """

    group: str
    name: str
    sql: str


@dataclass(frozen=True)
class Tables:
    """Where the tables lie, one folder a format."""

    folder: Path

    def path(self, kind: str, table: str) -> str:
        """Both ways into Lance read the same files."""
        return str(self.folder / ("parquet" if kind == "parquet" else "lance") / table)

    def make(self, table: str, frame: Callable[[], DataFrame]) -> None:
        """Writes a table in both formats, unless it is there."""
        for kind in ("parquet", "lance"):
            done = self.folder / f"{table}.{kind}.done"
            if not done.exists():
                frame().write.format(kind).mode("overwrite").save(self.path(kind, table))
                done.touch()

    def use(self, spark: SparkSession, kind: str, case: Case) -> None:
        """Views of the tables that `case` names, in the format `kind`."""
        for table in TABLES:
            if re.search(rf"\b{table}\b", case.sql) is None:
                continue
            spark.read.format(kind).load(self.path(kind, table)).createOrReplaceTempView(table)


TABLES = (*tpch.TABLES, "wide")


def make_tables(spark: SparkSession, folder: Path, scale: str) -> Tables:
    """TPC-H at `scale`, and a table of 200 columns with as many rows as a tenth of the line items."""
    tables = Tables(folder)
    generated = folder / "generated"
    if not (generated / "lineitem.parquet").exists():
        generated.mkdir(parents=True, exist_ok=True)
        tpch.generate(generated, scale)
    for table in tpch.TABLES:
        tables.make(table, partial(spark.read.parquet, str(generated / f"{table}.parquet")))
    num_rows = max(1000, int(float(scale) * 600_000))
    tables.make("wide", partial(wide, spark, num_rows))
    return tables


def wide(spark: SparkSession, num_rows: int) -> DataFrame:
    """`num_rows` rows of a key and 199 columns: whole numbers, fractions and texts in turn."""
    rows = spark.range(0, num_rows, 1, 2).withColumnRenamed("id", "c0")
    made = [_column(number).alias(f"c{number}") for number in range(1, WIDE_COLUMNS)]
    return rows.select("c0", *made)


def _column(number: int) -> Column:
    mixed = F.xxhash64("c0", F.lit(number))
    kinds = (mixed % 1000, (mixed % 100_000) / 100, F.concat(F.lit("v"), mixed % 500))
    return kinds[number % 3]


def cases() -> list[Case]:
    """All queries: the 22 of TPC-H, and those that show one ability each."""
    benchmark = [Case("tpch", f"q{number}", text.rstrip().rstrip(";")) for number, text in tpch.queries().items()]
    return [*benchmark, *_SINGLE]


_SINGLE = [
    Case("wide", "3 of 200 columns", "SELECT sum(c3), avg(c100), max(c197) FROM wide"),
    Case("wide", "one row of 200 columns", "SELECT * FROM wide WHERE c0 = 4321"),
    Case("count", "count(*)", "SELECT count(*) FROM lineitem"),
    Case("count", "min and max", "SELECT min(l_shipdate), max(l_shipdate), count(l_orderkey) FROM lineitem"),
    Case(
        "top-N",
        "10 largest prices",
        "SELECT l_orderkey, l_extendedprice, l_comment FROM lineitem "
        "ORDER BY l_extendedprice DESC, l_orderkey, l_comment LIMIT 10",
    ),
    Case("top-N", "first 100", "SELECT * FROM lineitem LIMIT 100"),
    Case("filter", "a range of keys", "SELECT sum(l_quantity) FROM lineitem WHERE l_orderkey BETWEEN 1000 AND 2000"),
    Case("filter", "1 row in 50", "SELECT count(*), sum(l_tax) FROM lineitem WHERE l_quantity = 7"),
    Case("filter", "a text", "SELECT count(*) FROM lineitem WHERE l_comment LIKE 'furiously%'"),
    Case("lookup", "one order", "SELECT * FROM orders WHERE o_orderkey = 4003"),
    Case(
        "lookup", "20 orders", f"SELECT * FROM orders WHERE o_orderkey IN ({', '.join(map(str, range(32, 672, 32)))})"
    ),
]
