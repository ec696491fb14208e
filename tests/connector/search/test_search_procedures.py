"""The procedures that search find what the table functions of their names find, also in sessions without these."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

VALUES = np.random.default_rng(5).normal(size=(60, 4)).round(3).astype(np.float32)
VECTOR = str(VALUES[7].tolist())
QUERY = f"array({VECTOR[1:-1]})"
COLUMNS = "id BIGINT, p BIGINT, text STRING, v ARRAY<FLOAT>"
SETTINGS = ("spark.sql.lance.vectorSearch.inlineBytes", "spark.sql.lance.textSearch.inlineBytes")
CALLS = {
    "search": "query => 'sea', limit => 7, filter => 'id > 3', columns => array('id', 'text'), with_row_id => true",
    "vector_search": f"query_vector => {QUERY}, k => 5, filter => 'p = 1', vector_column => 'v', "
    "distance_type => 'cosine', columns => array('id', 'v'), upper_bound => 1.5, offset => 1, prefilter => true",
    "hybrid_search": f"query_vector => {QUERY}, query => 'se', fuzziness => '1', k => 6, candidates => 12, "
    "fusion => 'linear', vector_weight => 0.25, columns => array('id')",
}


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    name = f"lance.db.called_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING lance {by} TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '4')")
    words = ["sea", "lake", "the sea"]
    rows = [(number, number % 3, words[number % 3], VALUES[number].tolist()) for number in range(len(VALUES))]
    spark.createDataFrame(rows, COLUMNS).writeTo(name).append()
    return name


def rows_of(spark: SparkSession, text: str) -> tuple[list[str], list[Row]]:
    found = spark.sql(text)
    return found.columns, found.collect()


@pytest.mark.parametrize("in_tasks", [False, True])
@pytest.mark.parametrize("function", CALLS)
def test_procedures_find_the_rows_of_the_functions(
    spark: SparkSession, table: str, function: str, in_tasks: bool
) -> None:
    expected = rows_of(spark, f"SELECT * FROM {function}(table => '{table}', {CALLS[function]})")
    assert len(expected[1]) > 3
    for setting in SETTINGS if in_tasks else ():
        spark.conf.set(setting, "0")
    try:
        arguments = CALLS[function].replace(QUERY, f"'{VECTOR}'")
        assert rows_of(spark, f"CALL lance.system.{function}(table => '{table}', {arguments})") == expected
    finally:
        for setting in SETTINGS:
            spark.conf.unset(setting)


def test_arguments_are_checked_as_those_of_the_functions(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="the query has 2"):
        spark.sql(f"CALL lance.system.vector_search(table => '{table}', query_vector => '[1, 2]')").collect()
    with pytest.raises(PySparkException, match="write its values as"):
        spark.sql(f"CALL lance.system.vector_search(table => '{table}', query_vector => '1 2')").collect()
    with pytest.raises(PySparkException, match="fusion"):
        spark.sql(
            f"CALL lance.system.hybrid_search(table => '{table}', query_vector => '{VECTOR}', query => 'a', "
            "fusion => 'x')"
        ).collect()


SCRIPT = """
import sys
import lance_spark
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = lance_spark.configure(builder, "lance", root=sys.argv[1]).config("spark.sql.extensions", "").getOrCreate()
spark.sql("CREATE NAMESPACE lance.db")
spark.sql(
    "CREATE TABLE lance.db.t (id INT, text STRING, v ARRAY<FLOAT>) USING lance "
    "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
)
spark.sql("INSERT INTO lance.db.t VALUES (1, 'the sea', array(1f, 0f)), (2, 'a lake', array(0f, 1f))")
found = [
    lance_spark.search(spark, "lance.db.t", [1.0, 0.5], k=1),
    lance_spark.search(spark, "lance.db.t", text="lake"),
    lance_spark.search(spark, "lance.db.t", [1.0, 0.5], "sea", k=1),
]
print("FOUND", [[row["id"] for row in rows.collect()] for rows in found])
"""


@pytest.mark.slow
def test_searches_of_sessions_without_the_extension(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert "FOUND [[1], [2], [1]]" in run.stdout, run.stderr[-3000:]
