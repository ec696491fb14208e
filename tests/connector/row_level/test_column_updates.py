"""UPDATE and MERGE that write new files of the changed columns: plans, rows, rivals, and tasks that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import lance_spark
from tests.support.connector.isolation import unnamed_files
from tests.support.connector.locations import location
from tests.support.connector.random_statements import check_random_statements

NUM_ROWS = 24_000
COLUMNS = "id BIGINT NOT NULL, label STRING, p INT, v ARRAY<FLOAT>"


@pytest.fixture(params=["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table of 24 MB of random floats with a label."""
    name = "lance.narrow"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {request.param}")
    rng = np.random.default_rng(7)
    floats = pa.ListArray.from_arrays(
        pa.array(np.arange(0, NUM_ROWS * 256 + 1, 256, np.int32)), pa.array(rng.random(NUM_ROWS * 256, np.float32))
    )
    ids = pa.array(range(NUM_ROWS), pa.int64())
    rows = {"id": ids, "label": ["old"] * NUM_ROWS, "p": pa.array(np.arange(NUM_ROWS) % 2, pa.int32()), "v": floats}
    _opened(spark).append(pa.table(rows))
    yield name
    spark.sql(f"DROP TABLE {name} PURGE")


def _opened(spark: SparkSession) -> Any:
    """The newest version of the table in Python."""
    return lance_spark.connect(spark.conf.get("spark.sql.catalog.lance.root") or "").open_table("narrow")


def _set_mode(spark: SparkSession, table: str, mode: str) -> None:
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lance.update.mode' = '{mode}')")


def _labels(spark: SparkSession, table: str) -> dict[str, tuple[int, int]]:
    """The number of rows of each label, and the sum of their ids; each row has its floats."""
    rows = spark.sql(f"SELECT label, count(*), sum(id), count(v) FROM {table} GROUP BY label").collect()
    assert all(row[1] == row[3] for row in rows)
    return {row[0]: (row[1], row[2]) for row in rows}


def _of(ids: range) -> tuple[int, int]:
    return len(ids), sum(ids)


@pytest.mark.parametrize("mode", ["columns", "auto", "rows"])
def test_an_update_of_many_rows(spark: SparkSession, table: str, mode: str) -> None:
    _set_mode(spark, table, mode)
    before = spark.sql(f"SELECT id, _rowaddr FROM {table} ORDER BY id").collect()
    statement = f"UPDATE {table} SET label = concat('new', id % 1) WHERE id % 2 = 1"
    plan = spark.sql(f"EXPLAIN {statement}").collect()[0][0]
    assert (f"update mode={mode} columns=[label]" in plan) == (mode != "rows")
    assert ("columns=[id, _rowaddr]" in plan or "columns=[id, _partition, _rowaddr]" in plan) == (mode != "rows")
    spark.sql(statement)
    evens, odds = range(0, NUM_ROWS, 2), range(1, NUM_ROWS, 2)
    assert _labels(spark, table) == {"old": _of(evens), "new0": _of(odds)}
    # The odd ids of the partitioned table are all rows of one partition.
    stay = spark.sql(f"SELECT id, _rowaddr FROM {table} ORDER BY id").collect() == before
    assert stay == (mode != "rows")


@pytest.mark.parametrize("mode", ["columns", "auto"])
def test_a_merge_updates_deletes_and_inserts(spark: SparkSession, table: str, mode: str) -> None:
    _set_mode(spark, table, mode)
    spark.sql("CREATE OR REPLACE TEMP VIEW changes AS SELECT id * 2 AS id, 'merged' AS label FROM range(13000)")
    statement = f"""MERGE INTO {table} t USING changes s ON t.id = s.id
        WHEN MATCHED AND s.id >= 100 THEN UPDATE SET label = s.label WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED THEN INSERT (id, label, p, v) VALUES (s.id, 'inserted', 1, array(1.0F))
        WHEN NOT MATCHED BY SOURCE AND t.id < 10 THEN UPDATE SET label = 'alone'"""
    plan = spark.sql(f"EXPLAIN {statement}").collect()[0][0]
    assert f"update mode={mode} columns=[label]" in plan
    spark.sql(statement)
    assert _labels(spark, table) == {
        "merged": _of(range(100, NUM_ROWS, 2)),
        "inserted": _of(range(NUM_ROWS, 26_000, 2)),
        "alone": _of(range(1, 10, 2)),
        "old": _of(range(11, NUM_ROWS, 2)),
    }


def test_few_rows_move_where_that_writes_less(spark: SparkSession, table: str) -> None:
    spark.sql(f"UPDATE {table} SET label = 'new' WHERE id IN (1, 3)")
    assert _labels(spark, table)["new"] == (2, 4)
    moved = spark.sql(
        f"SELECT v = u AS same FROM (SELECT v, id FROM {table} WHERE label = 'new') JOIN "
        f"(SELECT v AS u, id FROM {table} VERSION AS OF 2) USING (id)"
    ).collect()
    assert [row.same for row in moved] == [True, True]
    assert spark.sql(f"SELECT max(num_files) FROM {table}.fragments").collect()[0][0] == 1


def test_columns_that_rows_lie_in_partitions_by(spark: SparkSession, table: str) -> None:
    _set_mode(spark, table, "columns")
    is_partitioned = spark.sql(f"SHOW CREATE TABLE {table}").collect()[0][0].count("PARTITIONED BY") == 1
    if is_partitioned:
        with pytest.raises(PySparkException, match="rows lie in their partitions by values of column 'p'"):
            spark.sql(f"UPDATE {table} SET p = 7 WHERE id < 10")
        _set_mode(spark, table, "auto")
    spark.sql(f"UPDATE {table} SET p = 7 WHERE id < 10")
    assert spark.sql(f"SELECT sum(id) FROM {table} WHERE p = 7").collect()[0][0] == 45


@pytest.mark.since("4.1", "ADD CONSTRAINT")
def test_rows_that_break_a_check_are_refused(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.checked (id INT, n INT, w INT) TBLPROPERTIES ('lance.update.mode' = 'auto')")
    spark.sql("INSERT INTO lance.checked VALUES (1, 1, 1), (2, 2, 2)")
    spark.sql("ALTER TABLE lance.checked ADD CONSTRAINT small CHECK (n + w < 10)")
    with pytest.raises(PySparkException, match=r"(?i)check"):
        spark.sql("UPDATE lance.checked SET n = 9 WHERE id = 2")
    spark.sql("UPDATE lance.checked SET n = 7 WHERE id = 2")
    assert [tuple(row) for row in spark.sql("SELECT * FROM lance.checked ORDER BY id").collect()] == [
        (1, 1, 1),
        (2, 7, 2),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (bucket(3, id))"])
@pytest.mark.parametrize("seed", [11, 12])
def test_random_statements(spark: SparkSession, tmp_path: Path, partitioned: str, seed: int) -> None:
    check_random_statements(spark, tmp_path, partitioned, seed, "columns")


@pytest.mark.parametrize("action", ["delete", "update", "compact"])
def test_an_update_runs_again_after_a_rival(spark: SparkSession, table: str, action: str) -> None:
    _set_mode(spark, table, "columns")
    root = spark.conf.get("spark.sql.catalog.lance.root") or ""
    first = lance_spark.connect(root).open_table("narrow").version

    def rival(key: int) -> int:
        if key == 1 and lance_spark.connect(root).open_table("narrow").version == first:
            other = lance_spark.connect(root).open_table("narrow")
            if action == "delete":
                other.delete("id = 1")
            elif action == "update":
                other.update({"label": "'rival'"}, "id IN (1, 2)", mode="rows")
            else:
                other.compact(target_rows_per_fragment=NUM_ROWS, materialize_deletions_threshold=0.0)
        return key

    if action == "compact":
        spark.sql(f"DELETE FROM {table} WHERE id >= {NUM_ROWS - 4000}")
        first += 1
    spark.udf.register("rival", udf(rival, "bigint"))
    spark.sql(f"UPDATE {table} SET label = concat('new', rival(id) % 1) WHERE id < 100")
    labels = _labels(spark, table)
    assert labels["new0"] == {"delete": (99, 4949)}.get(action, (100, 4950))
    assert "rival" not in labels
    assert sum(number for number, _ in labels.values()) == NUM_ROWS - {"delete": 1, "compact": 4000}.get(action, 0)
    assert unnamed_files(location(spark, table)) == set()


def test_a_task_that_fails_leaves_no_file(spark: SparkSession, table: str) -> None:
    _set_mode(spark, table, "columns")

    def fails(key: int) -> int:
        if key == NUM_ROWS - 1:
            raise ValueError("the last row")
        return key

    spark.udf.register("fails", udf(fails, "bigint"))
    with pytest.raises(PySparkException, match="the last row"):
        spark.sql(f"UPDATE {table} SET label = concat('new', fails(id))")
    assert _labels(spark, table) == {"old": _of(range(NUM_ROWS))}
    assert unnamed_files(location(spark, table)) == set()


def test_the_reference_reads_what_spark_updated(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(4000, dtype=np.float32)), 4)
    rows = pa.table({"id": pa.array(range(1000), pa.int64()), "label": ["a"] * 1000, "v": vectors})
    dataset = lance.write_dataset(rows, uri, max_rows_per_file=400, enable_stable_row_ids=True)
    dataset.create_scalar_index("label", "BITMAP")
    dataset.update_config({"lance.update.mode": "columns"})
    spark.sql(f"UPDATE lance.`{uri}` SET label = 'b' WHERE id BETWEEN 100 AND 699")
    theirs = lance.dataset(uri)
    theirs.validate()  # type: ignore[no-untyped-call]
    assert [len(fragment.data_files()) for fragment in theirs.get_fragments()] == [2, 2, 1]
    assert theirs.count_rows("label = 'b'") == 600
    shown = theirs.to_table(columns=["id", "v", "_row_last_updated_at_version"]).sort_by("id")
    assert shown["v"].combine_chunks().equals(rows["v"].combine_chunks())
    changed = [row["id"] for row in shown.to_pylist() if row["_row_last_updated_at_version"] > 1]
    assert changed == list(range(100, 700))
