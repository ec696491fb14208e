"""The connector where driver and executors are processes of their own, under Spark Connect, and in a session that runs.

A Python process holds one Spark; so each case runs a script of its own.
"""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from tests.support.session_scripts import run_script

pytestmark = pytest.mark.slow

START = """
import pathlib
import sys
from pyspark.sql import SparkSession
import lance_spark

root = sys.argv[1]
builder = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", root + "/warehouse")
    .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
)
{session}
spark.sql("CREATE NAMESPACE lance.db")
"""

TABLES = """
spark.sql("CREATE TABLE lance.db.t AS SELECT id, concat('n', id) AS name FROM range(0, 3000, 1, 3)")
spark.sql("INSERT INTO lance.db.t SELECT id, 'x' FROM range(3000, 3010)")
assert spark.sql("SELECT count(*) AS n FROM lance.db.t WHERE id >= 2990").first().n == 20
assert spark.table("lance.db.t").where("name = 'x'").count() == 10
spark.sql("CREATE TABLE lance.db.numbered (number BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT)")
spark.sql("INSERT INTO lance.db.numbered (id) SELECT id FROM range(0, 20, 1, 3)")
spark.sql("INSERT INTO lance.db.numbered (id) SELECT id FROM range(0, 20, 1, 2)")
assert spark.table("lance.db.numbered").select("number").distinct().count() == 40
path = root + "/by_path"
spark.range(10).write.format("lance").save(path)
spark.range(5).write.format("lance").mode("append").save(path)
assert spark.read.format("lance").option("version", 1).load(path).count() == 10
assert spark.sql("SELECT sum(id) AS s FROM lance.`" + path + "`").first().s == 55
try:
    spark.table("lance.db.t").where("nope = 1").count()
    raise SystemExit("the column is not there")
except Exception as error:
    assert "UNRESOLVED_COLUMN" in str(error), error
try:
    spark.sql("SELECT * FROM lance.db.t VERSION AS OF 99").count()
    raise SystemExit("the version is not there")
except Exception as error:
    assert "has no version 99" in str(error) and "Traceback" not in str(error), error
"""

STREAMS_AND_ERRORS = """
spark.sql("CACHE TABLE lance.db.t")
spark.sql("CALL lance.system.restore('db.t', 1)").collect()
assert spark.table("lance.db.t").count() == 3000
spark.sql("UNCACHE TABLE lance.db.t")
changes = spark.readStream.table("lance.db.t").where("id % 2 = 0")
for number, options in enumerate([{}, {"key": "id"}]):
    writer = changes.writeStream.option("checkpointLocation", f"{root}/c{number}").trigger(availableNow=True)
    writer.options(**options).toTable("lance.db.copy").awaitTermination()
assert spark.table("lance.db.copy").count() == spark.table("lance.db.copy").distinct().count() == 1500
for file in pathlib.Path(root).rglob("data/*.lance"):
    if "__manifest" not in file.parts:
        file.unlink()
for statement in (
    "SELECT count(name) FROM lance.db.t WHERE hash(id) % 3 = 0",
    "DELETE FROM lance.db.t WHERE hash(name) % 3 = 0",
    "INSERT INTO lance.db.t SELECT id, name FROM lance.db.t",
):
    try:
        spark.sql(statement).collect()
        raise SystemExit("the files are not there")
    except Exception as error:
        assert (error.getCondition(), error.getSqlState()) == ("LANCE_NOT_FOUND", "42704"), error
        # Under Spark Connect, Spark appends its own stack trace to the text of every error.
        sentence = str(error).splitlines()[0]
        assert sentence.startswith("[LANCE_NOT_FOUND] ") and sentence.endswith(" SQLSTATE: 42704"), error
        assert "Error" not in sentence and "Traceback" not in str(error), error
"""

END = """
spark.stop()
print("done")
"""

SESSIONS = {
    "local-cluster": """
spark = lance_spark.configure(builder.master("local-cluster[2,1,1024]"), root=root).getOrCreate()
""",
    "connect": 'spark = lance_spark.configure(builder.remote("local[2]"), root=root).getOrCreate()',
    "installed under connect": """
spark = builder.remote("local[2]").getOrCreate()
spark.range(3).count()
lance_spark.install(spark, root=root)
""",
    "installed in a cluster": """
spark = builder.master("local-cluster[2,1,1024]").getOrCreate()
spark.range(3).count()
rules = lambda: spark._jsparkSession.experimental().extraOptimizations().mkString(",")
assert "lancespark" not in rules()
lance_spark.install(spark, root=root)
lance_spark.install(spark, "second", root=root)
assert rules().count("LanceTaskCoalescing") == rules().count("LanceDynamicPruning") == 1, rules()
""",
}


SEARCHES = """
spark.sql(
    "CREATE TABLE lance.db.docs (id BIGINT, body STRING, v ARRAY<FLOAT>) USING lance "
    "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2', 'enable_stable_row_ids' = 'true')"
)
spark.sql("INSERT INTO lance.db.docs SELECT id, concat('word', id % 5, ' rain'), array(id, 0f) FROM range(50)")
spark.sql("ALTER TABLE lance.db.docs CREATE INDEX words USING fts (body)")
spark.sql("ALTER TABLE lance.db.docs CREATE INDEX ids USING btree (id)")
ids = lambda statement: sorted(row.id for row in spark.sql(statement).collect())
threes = list(range(3, 50, 5))
assert ids("SELECT id FROM SEARCH(table => 'lance.db.docs', query => 'word3', limit => 100)") == threes
assert ids("SELECT id FROM lance.db.docs WHERE lance_match(body, 'word3')") == threes
assert ids("SELECT id FROM lance.db.docs WHERE lance_match_phrase(body, 'word3 rain') AND id < 20") == [3, 8, 13, 18]
assert ids("SELECT id FROM VECTOR_SEARCH('lance.db.docs', array(7.2f, 0f), 2)") == [7, 8]
assert ids("SELECT id FROM lance.db.docs ORDER BY lance_distance(v, array(7.2f, 0f)) LIMIT 2") == [7, 8]
assert ids("SELECT id FROM lance.db.docs WHERE id = 12") == [12]
names = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
assert {"lance_match", "lance_distance", "lance_read_blob"} <= {name.split(".")[-1] for name in names}, names

def run(frame, target, name, **options):
    writer = frame.writeStream.option("checkpointLocation", root + "/" + name).trigger(availableNow=True)
    query = writer.options(**options).toTable(target)
    query.awaitTermination()
    return query

run(spark.readStream.table("lance.db.docs"), "lance.db.copy", "first")
spark.sql("UPDATE lance.db.docs SET body = 'changed' WHERE id = 1")
spark.sql("DELETE FROM lance.db.docs WHERE id = 2")
changes = spark.readStream.option("startingVersion", 5).changes("lance.db.docs")
changes = changes.where("_change_type <> 'update_preimage'").select("id", "body", "v", "_change_type")
run(changes, "lance.db.copy", "second", key="id", delete_when="_change_type = 'delete'")
assert spark.table("lance.db.copy").exceptAll(spark.table("lance.db.docs")).count() == 0
assert spark.table("lance.db.copy").count() == 49
"""


def _run(session: str, script: str, folder: Path) -> None:
    run_script(START.replace("{session}", session) + script + END, str(folder), folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SESSIONS)
def test_writes_and_reads(jar: Path, tmp_path: Path, kind: str) -> None:
    # What `install` adds to a session that runs does not differ in what follows.
    is_whole = not kind.startswith("installed")
    _run(SESSIONS[kind], TABLES + STREAMS_AND_ERRORS if is_whole else TABLES, tmp_path)
    assert lance.dataset(str(tmp_path / "by_path")).version == 2


@pytest.mark.slow
def test_searches_and_streams_under_connect(jar: Path, tmp_path: Path) -> None:
    _run(SESSIONS["connect"], SEARCHES, tmp_path)
