"""Small reads that the planner does by itself: their rows are those of tasks, and large reads are left to tasks."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import lance_spark
from tests.support.connector.metrics import metrics
from tests.support.connector.plans import plan
from tests.support.connector.scan_requests import ask, planned

SETTING = "spark.sql.lance.inlineBytes"


def all_types(count: int) -> pa.Table:
    """Rows of every type that Spark reads, with nulls."""
    numbers = [None if n % 7 == 3 else n for n in range(count)]

    def column(make: object, dtype: pa.DataType) -> pa.Array:
        return pa.array([None if n is None else make(n) for n in numbers], dtype)  # type: ignore[operator]

    inner = pa.struct([("x", pa.int32()), ("words", pa.list_(pa.string())), ("d", pa.decimal128(5, 2))])
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "flag": column(lambda n: n % 2 == 0, pa.bool_()),
            "byte": column(lambda n: n % 100, pa.int8()),
            "short": column(lambda n: n, pa.int16()),
            "real": column(lambda n: n / 3, pa.float32()),
            "double": column(lambda n: float("nan") if n % 5 == 0 else n / 7, pa.float64()),
            "small": column(lambda n: Decimal(n).scaleb(-2), pa.decimal128(9, 2)),
            "wide": column(lambda n: Decimal(n).scaleb(-10), pa.decimal128(38, 10)),
            "text": column(lambda n: "ü" * (n % 4), pa.string()),
            "bytes": column(lambda n: bytes([n % 256]), pa.binary()),
            "day": column(lambda n: date(2026, 1, 1 + n % 28), pa.date32()),
            "moment": column(lambda n: datetime(2026, 1, 1, n % 24), pa.timestamp("us")),
            "zoned": column(lambda n: datetime(2026, 1, 1, n % 24), pa.timestamp("us", "UTC")),
            "list": column(lambda n: list(range(n % 3)), pa.list_(pa.int64())),
            "vector": column(lambda n: [n, n + 1], pa.list_(pa.float32(), 2)),
            "inner": column(lambda n: {"x": n, "words": ["a"] * (n % 3), "d": Decimal(n).scaleb(-2)}, inner),
            "map": column(lambda n: [("k", n)], pa.map_(pa.string(), pa.int64())),
        }
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_small(str(tmp_path_factory.mktemp("inline") / "small"))


def write_small(uri: str) -> str:
    """Three fragments of all types, some rows deleted."""
    made = lance.write_dataset(all_types(90), uri, max_rows_per_file=30, data_storage_version="2.2")
    made.delete("id % 10 = 9 OR id = 0")
    return uri


QUERIES = [
    "SELECT * FROM t",
    "SELECT inner.x, map['k'], get(list, 0) FROM t",
    "SELECT count(*), sum(small), min(text), max(day) FROM t",
    "SELECT count(*) FROM t WHERE id < 0",
    "SELECT sum(id), min(day) FROM t WHERE id < 0",
    "SELECT flag, count(*), sum(byte) FROM t GROUP BY flag",
    "SELECT * FROM t WHERE text LIKE 'ü%' AND inner.x > 40",
    "SELECT id, text FROM t WHERE double <> double OR flag IS NULL",
    "SELECT id, small FROM t ORDER BY double DESC NULLS LAST, id LIMIT 7",
    "SELECT count(*) FROM (SELECT * FROM t LIMIT 45)",
    "SELECT id FROM t ORDER BY id LIMIT 5 OFFSET 20",
    "SELECT id, _rowaddr, _fragid FROM lance.`{small}` WHERE _fragid = 1 AND id % 2 = 0",
    "SELECT a.id, b.text FROM t a JOIN t b ON a.id = b.inner.x WHERE a.byte > 50",
    "SELECT id FROM t WHERE id IN (SELECT inner.x FROM t WHERE day > DATE '2026-01-10')",
    "SELECT 1 FROM t WHERE id < 20",
    "SELECT id FROM older WHERE id % 10 = 9",
]


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_tasks(spark: SparkSession, small: str, query: str) -> None:
    spark.read.format("lance").load(small).createOrReplaceTempView("t")
    spark.read.format("lance").option("version", "1").load(small).createOrReplaceTempView("older")
    here = spark.sql(query.replace("{small}", small)).collect()
    spark.conf.set(SETTING, "0")
    in_tasks = spark.sql(query.replace("{small}", small)).collect()
    assert sorted(map(repr, here)) == sorted(map(repr, in_tasks))


def test_metrics_are_those_of_the_read(spark: SparkSession, uri: str) -> None:
    # A table of its own: the planner asks the store for nothing that it has kept of other reads.
    frame = spark.read.format("lance").load(write_small(uri)).where("text IS NOT NULL").select("id", "text")
    assert len(frame.collect()) == sum(n % 7 != 3 and n % 10 != 9 and n != 0 for n in range(90))
    told = metrics(frame, ["fragments_read", "rows_read", "batches_read", "requests", "bytes_read"])
    assert (told["fragments_read"], told["rows_read"]) == (3, len(frame.collect()))
    # Small fragments are read together.
    assert told["batches_read"] == 1
    assert 2 <= told["requests"] <= 20
    assert told["bytes_read"] > 100


def test_only_small_reads_are_done_at_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    numbers = np.random.default_rng(3).integers(0, 1 << 40, 200_000)
    texts = [f"{number:x}" * 20 for number in numbers]
    lance.write_dataset(pa.table({"id": range(200_000), "n": numbers, "text": texts}), uri, max_rows_per_file=50_000)
    inline = {"inline_bytes": str(1 << 20)}
    table, _ = ask("scan.plan", uri, inline)
    assert (table["is_inline"], table["num_rows"]) == (False, 200_000)
    first, tasks = ask("scan.plan", uri, inline, limit=100)
    assert (first["is_inline"], first["num_rows"], tasks) == (True, 100, 1)
    # The filter reads the long texts, for a column that is small.
    like = {"name": "CONTAINS", "children": [{"column": ["text"]}, {"literal": "abc", "type": "string"}]}
    assert planned(uri, [like], inline, columns=["id"])["is_inline"] is False
    one = {"name": "=", "children": [{"column": ["id"]}, {"literal": "70000", "type": "long"}]}
    assert planned(uri, [one], inline)["is_inline"] is False
    # The zone map of the column says where its values are.
    lance_spark.open(uri).create_scalar_index("id", "ZONEMAP", rows_per_zone=1000)
    found = planned(uri, [one], inline)
    assert (found["is_inline"], found["num_rows"]) == (True, 1)
    assert "fragments=1/4" in str(found["description"])
    assert planned(uri, [one])["is_inline"] is False
    assert planned(uri, [one], inline, for_changes=True)["is_inline"] is False


def test_a_lookup_by_key_reads_one_zone(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": range(300_000), "n": range(300_000)}), uri, max_rows_per_file=100_000)
    lance_spark.open(uri).create_scalar_index("id", "ZONEMAP")
    for key in (5, 123_456, 299_999):
        frame = spark.read.format("lance").load(uri).where(f"id = {key}")
        assert frame.collect() == [(key, key)]
        assert "fragments=1/3" in plan(frame)
    assert metrics(frame, ["fragments_pruned", "rows_read"]) == {"fragments_pruned": 2, "rows_read": 1}
    lance.dataset(uri).delete("id = 123456")
    assert spark.read.format("lance").load(uri).where("id BETWEEN 123455 AND 123457").count() == 2
    lance.dataset(uri).update({"n": "-1"}, "id = 5")
    assert spark.read.format("lance").load(uri).where("id = 5").collect() == [(5, -1)]


@pytest.mark.slow
def test_statements_find_their_rows(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.inline_rows AS SELECT id, id * 2 AS n FROM range(0, 50000, 1, 2)")
    try:
        for key in range(3):
            spark.sql(f"DELETE FROM lance.inline_rows WHERE id = {key + 1000}")
            spark.sql(f"UPDATE lance.inline_rows SET n = -1 WHERE id = {key + 2000}")
            spark.sql(f"""
                MERGE INTO lance.inline_rows t USING (SELECT {key + 3000} AS id) s ON t.id = s.id
                WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 0)
            """)
        assert spark.table("lance.inline_rows").where("id BETWEEN 990 AND 1010").count() == 18
        assert spark.table("lance.inline_rows").where("n = -1").count() == 3
        assert spark.table("lance.inline_rows").count() == 49_994
    finally:
        spark.sql("DROP TABLE lance.inline_rows PURGE")


def test_a_damaged_file_fails_as_in_a_task(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": range(1000)}), uri)
    (file,) = Path(uri).rglob("data/*.lance")
    data = bytearray(file.read_bytes())
    data[-40:] = bytes(40)
    file.write_bytes(bytes(data))
    with pytest.raises(Exception, match="LANCE_CORRUPT_FILE"):
        spark.read.format("lance").load(uri).collect()


def test_a_value_that_makes_no_sense_is_refused(spark: SparkSession, small: str) -> None:
    spark.conf.set(SETTING, "few")
    with pytest.raises(AnalysisException, match=r"spark\.sql\.lance\.inlineBytes is 'few'; it is a number of bytes"):
        spark.read.format("lance").load(small).collect()


@pytest.mark.slow
def test_python_functions_over_inline_rows(spark: SparkSession, small: str) -> None:
    double = udf(lambda number: number * 2, "bigint")
    frame: DataFrame = spark.read.format("lance").load(small).select(double("id"))
    assert sum(row[0] for row in frame.collect()) == 2 * sum(n for n in range(90) if n % 10 != 9)


def test_whoever_asks_for_tasks_gets_them(spark: SparkSession, small: str) -> None:
    frame = spark.read.format("lance").option("target_partition_bytes", "1").load(small)
    assert frame.rdd.getNumPartitions() > 3
    assert spark.read.format("lance").load(small).rdd.getNumPartitions() == 1


@pytest.mark.slow
@pytest.mark.parametrize("build", ["BROADCAST", "MERGE"])
def test_keys_of_a_join_choose_inline_rows(spark: SparkSession, tmp_path: Path, build: str) -> None:
    """Rows that a scan has before the keys are there, after, both, or never."""
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": range(150_000), "k": [n % 150 for n in range(150_000)]}), uri)
    spark.read.format("lance").load(uri).createOrReplaceTempView("facts")
    for count in (0, 1, 40, 5000):
        few = pa.table({"k": pa.array(range(count), pa.int64()), "word": ["x"] * count})
        lance.write_dataset(few, f"{uri}-{count}")
        spark.read.format("lance").load(f"{uri}-{count}").createOrReplaceTempView("few")
        for on, expected in (("f.k = s.k", min(count, 150) * 1000), ("f.id = s.k", count)):
            query = f"SELECT /*+ {build}(s) */ count(f.id) FROM facts f JOIN few s ON {on} WHERE s.word = 'x'"
            assert spark.sql(query).collect() == [(expected,)]
            assert spark.sql(query.replace("count(f.id)", "sum(f.id)").replace("f.id =", "1 * f.id =")).count() == 1


PARTITIONED_QUERIES = [
    "SELECT * FROM {t}",
    "SELECT *, _partition FROM {t} WHERE id % 3 = 0",
    "SELECT count(*), max(word) FROM {t} WHERE id < 500",
    "SELECT part, count(*), sum(id) FROM {t} GROUP BY part",
    "SELECT word, count(*) FROM {t} GROUP BY word",
    "SELECT * FROM {t} ORDER BY id DESC LIMIT 7",
    "SELECT count(*) FROM (SELECT id FROM {t} LIMIT 20)",
    "SELECT a.id, b.word FROM {t} a JOIN {t} b ON a.id = b.id AND a.part = b.part",
    "SELECT a.id, b.word FROM {t} a JOIN {t} b ON a.part = b.part WHERE b.id < 7",
    "SELECT * FROM {t} WHERE part = 2",
    "SELECT * FROM {t} WHERE part IS NULL AND id > 10",
    "SELECT * FROM {t} WHERE part = 77",
]


@pytest.mark.slow
def test_partitions_keep_their_keys(spark: SparkSession) -> None:
    name = "lance.inline_parts"
    spark.sql(f"""
        CREATE TABLE {name} PARTITIONED BY (part, bucket(4, id)) AS
        SELECT id, nullif(id % 5, 4) AS part, concat('w', id % 7) AS word FROM range(0, 1000, 1, 2)
    """)
    try:
        spark.sql(f"DELETE FROM {name} WHERE id % 50 = 1")
        for query in PARTITIONED_QUERIES:
            spark.conf.unset(SETTING)
            here = spark.sql(query.format(t=name))
            rows = sorted(map(repr, here.collect()))
            spark.conf.set(SETTING, "0")
            in_tasks = spark.sql(query.format(t=name))
            assert rows == sorted(map(repr, in_tasks.collect())), query
            # No shuffle more, where keys of partitions make one superfluous.
            assert plan(here).count("hashpartitioning") <= plan(in_tasks).count("hashpartitioning"), query
    finally:
        spark.sql(f"DROP TABLE {name} PURGE")
