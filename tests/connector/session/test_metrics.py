"""The numbers that Spark's UI shows."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.connector.metrics import metrics, shown
from tests.support.connector.plans import plan
from tests.support.connector.script_session import WITHOUT_CONNECTOR, printed


@pytest.mark.slow
@pytest.mark.tasks
def test_scans_count_what_they_read(spark: SparkSession, uri: str) -> None:
    spark.range(0, 100, numPartitions=4).write.format("lance").save(uri)
    frame = spark.read.format("lance").load(uri).where("_fragid >= 2 AND id < 90")
    assert "fragments=2/4" in plan(frame)
    assert len(frame.collect()) == 40
    names = ["fragments_read", "fragments_pruned", "files_read", "rows_read"]
    assert metrics(frame, names) == dict(zip(names, (2, 2, 2, 40), strict=True))
    # Small fragments are read together.
    assert metrics(frame, ["batches_read"])["batches_read"] >= 1
    assert metrics(frame, ["bytes_planned"])["bytes_planned"] > 0
    # A request for the end of each file and one for its pages, or one for both.
    told = metrics(frame, ["requests", "bytes_read", "fetch_time", "decode_time"])
    assert 2 <= told["requests"] <= 12
    assert told["bytes_read"] > 40
    assert told["decode_time"] > 0
    assert told["fetch_time"] >= 0


OF_ROWS = {"rows_read", "batches_read"}
OF_TASKS = {"requests", "bytes_read", "fetch_time", "decode_time"}
OF_TABLES = {"fragments_read", "fragments_pruned", "files_read", "bytes_planned"} | OF_ROWS | OF_TASKS
OF_VECTORS = {"index_segments_searched", "index_partitions_probed", "index_rows_compared", "rows_compared"}


def names(frame: DataFrame) -> set[str]:
    """The metrics of the only scan of a frame, but for Spark's own number of rows."""
    pairs = frame._jdf.queryExecution().executedPlan().collectLeaves().head().metrics().toSeq()
    return {pairs.apply(place)._1() for place in range(pairs.size())} - {"numOutputRows"}


@pytest.mark.since("4.2", "the CHANGES clause")
@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True])
def test_scans_and_searches_show_the_metrics_that_apply_to_them(spark: SparkSession, partitioned: bool) -> None:
    table = f"lance.shown_{'partitioned' if partitioned else 'plain'}"
    columns = "id BIGINT, p BIGINT, t STRING, v ARRAY<FLOAT>"
    by = "PARTITIONED BY (p)" if partitioned else ""
    spark.sql(f"CREATE TABLE {table} ({columns}) {by} TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')")
    rows = [(number, number % 2, "fox", [float(number), 1.0]) for number in range(8)]
    spark.createDataFrame(rows, columns).coalesce(1).writeTo(table).append()
    of_scans = OF_TABLES | ({"partitions_read", "partitions_pruned"} if partitioned else set())
    query = "query_vector => array(0.0, 1.0)"
    expected = {
        f"SELECT * FROM {table} WHERE id > 3": of_scans,
        f"SELECT * FROM search(table => '{table}', query => 'fox')": OF_ROWS,
        f"SELECT * FROM vector_search(table => '{table}', {query})": OF_ROWS | OF_VECTORS,
        f"SELECT * FROM hybrid_search(table => '{table}', {query}, query => 'fox')": OF_ROWS | OF_VECTORS,
        f"SELECT * FROM {table} CHANGES FROM VERSION 1": OF_ROWS | OF_TASKS,
    }
    assert {statement: names(spark.sql(statement)) for statement in expected} == expected
    batch = f"table => '{table}', queries => '{table}', k => 1, columns => array('id'), query_columns => array()"
    searched = spark.sql(f"SELECT id FROM vector_search_batch({batch})")
    assert names(searched) == OF_ROWS | OF_TASKS | OF_VECTORS
    searched.collect()
    assert metrics(searched, ["rows_compared", "rows_read"]) == {"rows_compared": 8, "rows_read": 8}
    changes = spark.sql(f"SELECT id FROM {table} CHANGES FROM VERSION 1")
    assert len(changes.collect()) == 8
    told = metrics(changes, ["rows_read", "requests", "bytes_read"])
    assert told["rows_read"] == 8
    assert min(told["requests"], told["bytes_read"]) > 0
    spark.sql(f"DROP TABLE {table} PURGE")


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True])
def test_statements_count_what_they_write(spark: SparkSession, partitioned: bool) -> None:
    name = f"lance.metrics_{'of_partitions' if partitioned else 'of_a_table'}"
    by = "PARTITIONED BY (part)" if partitioned else ""
    spark.sql(f"CREATE TABLE {name} {by} AS SELECT id, id % 2 AS part, 'word' AS word FROM range(0, 100, 1, 1)")
    try:
        merged = spark.sql(f"""
            MERGE INTO {name} t USING (SELECT id + 90 AS id FROM range(20)) s ON t.id = s.id
            WHEN MATCHED AND s.id = 95 THEN DELETE
            WHEN MATCHED THEN UPDATE SET word = 'new'
            WHEN NOT MATCHED THEN INSERT (id, part, word) VALUES (s.id, 0, 'came')
        """)
        told = written(merged)
        assert (told["rows_written"], told["commits_of_others"]) == (19, 0)
        assert told["files_written"] >= (2 if partitioned else 1)
        assert told["bytes_written"] > 100
        updated = written(spark.sql(f"UPDATE {name} SET word = concat(word, id) WHERE id < 7 OR word LIKE 'c%'"))
        assert updated["rows_written"] == 17
        deleted = written(spark.sql(f"DELETE FROM {name} WHERE id % 10 = length(word) - 1"))
        assert (deleted["rows_written"], deleted["files_written"], deleted["bytes_written"]) == (0, 0, 0)
    finally:
        spark.sql(f"DROP TABLE {name} PURGE")


def written(frame: DataFrame) -> dict[str, int]:
    """What the statement of a frame has told."""
    plan = frame._jdf.queryExecution().optimizedPlan().commandPhysicalPlan()
    names = ["rows_written", "files_written", "bytes_written", "commits_of_others"]
    return {name: plan.metrics().apply(name).value() for name in names}


SIZE = r"[0-9.]+ (B|KiB|MiB)"
TIME = r"[0-9.]+ (ms|s)"


def test_sizes_and_times_in_the_ui_have_units(spark: SparkSession, uri: str) -> None:
    spark.range(0, 4000, numPartitions=4).selectExpr("id", "repeat('word', 20) AS word").write.format("lance").save(uri)
    assert re.fullmatch(SIZE, shown(spark)["bytes written"])
    spark.read.format("lance").load(uri).where("_fragid >= 1").collect()
    texts = shown(spark)
    assert re.fullmatch(SIZE, texts["bytes to read"]), texts
    for name, value in {
        "bytes read": SIZE,
        "time decoding and filtering": TIME,
        "time waiting for the store": TIME,
    }.items():
        pattern = rf"total \(min, med, max\)\n{value} \({value}, {value}, {value}\)|{value}"
        assert re.fullmatch(pattern, texts[name]), texts
    assert texts["rows read"].replace(",", "") == "3000"


@pytest.mark.parametrize("description", [None, "", "my own"])
def test_jobs_of_procedures_have_the_name_of_the_statement(
    spark: SparkSession, root: str, description: str | None
) -> None:
    def jobs() -> dict[int, Any]:
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        found = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
        return {job.jobId(): job for job in (found.apply(index) for index in range(found.size()))}

    spark.sql("CREATE TABLE lance.named_jobs AS SELECT id FROM range(0, 10, 1, 2)")
    spark.sparkContext.setLocalProperty("callSite.short", None)
    spark.sparkContext.setLocalProperty("spark.job.description", description)
    before = max(jobs())
    statement = "CALL lance.system.optimize(table => 'named_jobs')"
    spark.sql(statement).collect()
    named = [(job.name(), job.description().get()) for number, job in jobs().items() if number > before]
    assert named == [(statement, description or statement)]
    assert spark.sparkContext.getLocalProperty("callSite.short") is None
    assert spark.sparkContext.getLocalProperty("spark.job.description") == description
    spark.sparkContext.setLocalProperty("spark.job.description", None)
    spark.sql("DROP TABLE lance.named_jobs PURGE")


IN_A_RUNNING_SESSION = """
def loaders(loader):
    while loader is not None:
        yield loader.getClass().getSimpleName()
        loader = loader.getParent()

if "{when}" == "after":
    spark.sql(f"ADD JAR '{root}/other.jar'")
print("==== loaders", *loaders(spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()), file=sys.stderr)
lance_spark.install(spark, root=root)

from tests.support.connector.metrics import shown

spark.range(10).coalesce(1).writeTo("lance.t").create()
print("==== written", shown(spark)["rows written"], file=sys.stderr)
assert len(spark.table("lance.t").where("id > 3").collect()) == 6
print("==== read", shown(spark)["rows read"], file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "first", "loader"),
    [
        ("before", "false", "MutableURLClassLoader"),
        ("after", "true", "NonClosableMutableURLClassLoader ChildFirstURLClassLoader"),
    ],
)
def test_spark_finds_the_metrics_of_an_installed_connector(
    jar: Path, tmp_path: Path, when: str, first: str, loader: str
) -> None:
    """Install before and after ADD JAR of another jar."""
    with zipfile.ZipFile(tmp_path / "other.jar", "w") as other:
        other.writestr("a", "")
    settings = ("spark.ui.enabled=true", "spark.ui.port=0", f"spark.driver.userClassPathFirst={first}")
    log = printed(jar, tmp_path, IN_A_RUNNING_SESSION.replace("{when}", when), *settings, start=WITHOUT_CONNECTOR)
    assert f"==== loaders {loader}" in log
    assert re.findall(r"==== (\w+) (\d+)$", log, re.MULTILINE) == [("written", "10"), ("read", "6")]
    assert "LanceMetrics" not in log
    assert "ClassNotFoundException" not in log


FOREIGN_LOADER = """
thread = spark._jvm.java.lang.Thread.currentThread()
thread.setContextClassLoader(spark._jvm.java.lang.ClassLoader.getSystemClassLoader())
lance_spark.install(spark, root=root)
spark.range(10).writeTo("lance.t").create()
print("==== rows", spark.table("lance.t").count(), file=sys.stderr)
"""


@pytest.mark.slow
def test_install_needs_no_class_loader_of_spark(jar: Path, tmp_path: Path) -> None:
    assert "==== rows 10" in printed(jar, tmp_path, FOREIGN_LOADER, start=WITHOUT_CONNECTOR)
