"""Statements that read what others change meanwhile: they run again, or fail, or go on, as the isolation level says.

The other writer commits from inside of the statement, by a function that the statement calls: after the version was
read and before the commit, every time. `spark.sql.lance.maxStatementRuns` = 1 tells whether a statement conflicts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.table.location import TableLocation
from tests.support.connector.isolation import RUNS, append, delete, meanwhile, unnamed_files, version
from tests.support.connector.row_level import ALTERS

TABLE = "lance.isolation"
UPSERT = "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"
INSERT = "WHEN NOT MATCHED THEN INSERT *"


@pytest.fixture(params=["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def uri(spark: SparkSession, root: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The place of a table with id 0 to 9, k "a", v 0, in version 2."""
    spark.sql(f"CREATE TABLE {TABLE} (id BIGINT, k STRING, v BIGINT) USING lance {request.param}")
    spark.sql(f"INSERT INTO {TABLE} SELECT id, 'a', 0 FROM range(0, 10, 1, 1)")
    yield DirectoryNamespace(root).table_location(("isolation",)).uri
    spark.conf.unset(RUNS)
    spark.sql(f"DROP TABLE {TABLE} PURGE")


def _rows(spark: SparkSession) -> list[tuple[int, int]]:
    return sorted((row.id, row.v) for row in spark.table(TABLE).collect())


def _update(uri: str, condition: str, value: int) -> Callable[[], object]:
    def act() -> object:
        import lance_spark
        from lance_spark.partitioned.table import is_partitioned_table, open_partitioned
        from tests.partitioned.verbs import update_rows

        if is_partitioned_table(uri):
            return update_rows(open_partitioned(uri), {"v": value}, condition)
        return lance_spark.open(uri).update({"v": value}, condition)

    return act


def _compact(uri: str) -> Callable[[], object]:
    def act() -> object:
        import lance_spark
        from lance_spark.partitioned.maintenance.compaction import compact
        from lance_spark.partitioned.table import is_partitioned_table, open_partitioned

        if is_partitioned_table(uri):
            return compact(open_partitioned(uri))
        return lance_spark.open(uri).compact()

    return act


def _merge(clauses: str, key: int, condition: str = "t.id = s.id") -> str:
    """A MERGE of one row with v = 1."""
    source = f"(SELECT meanwhile(id) + {key - 1} AS id, 'a' AS k, 1L AS v FROM range(1, 2)) s"
    return f"MERGE INTO {TABLE} t USING {source} ON {condition} {clauses}"


def _conflicts(spark: SparkSession, statement: str) -> bool:
    """Whether a statement that runs only once conflicts with what came meanwhile."""
    spark.conf.set(RUNS, 1)
    try:
        spark.sql(statement)
        return False
    except PySparkException as error:
        if "LANCE_COMMIT_CONFLICT" not in str(error):
            raise
        return True
    finally:
        spark.conf.unset(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("clauses", [INSERT, UPSERT], ids=["insert", "upsert"])
def test_merge_sees_a_key_that_was_inserted_meanwhile(spark: SparkSession, uri: str, clauses: str) -> None:
    meanwhile(spark, uri, append(uri, 50))
    spark.sql(_merge(clauses, 50))
    assert [row for row in _rows(spark) if row[0] >= 10] == [(50, 100 if clauses == INSERT else 101)]
    assert unnamed_files(uri) == set()


@pytest.mark.slow
@pytest.mark.parametrize("clauses", [INSERT, UPSERT], ids=["insert", "upsert"])
def test_merge_that_may_run_only_once_conflicts(spark: SparkSession, uri: str, clauses: str) -> None:
    meanwhile(spark, uri, append(uri, 50))
    before = version(uri)
    assert _conflicts(spark, _merge(clauses, 50))
    assert version(uri) == before + 1
    assert [row for row in _rows(spark) if row[0] >= 10] == [(50, 100)]
    assert unnamed_files(uri) == set()


@pytest.mark.slow
@pytest.mark.parametrize("clauses", [INSERT, UPSERT], ids=["insert", "upsert"])
def test_rows_outside_of_what_was_read_do_not_conflict(spark: SparkSession, uri: str, clauses: str) -> None:
    """The condition on the target alone is pushed into its scan."""
    condition = "t.id = s.id AND t.id < 60"
    meanwhile(spark, uri, append(uri, 70))
    assert not _conflicts(spark, _merge(clauses, 50, condition))
    meanwhile(spark, uri, append(uri, 71, "other"))
    assert not _conflicts(spark, _merge(clauses, 51, condition))
    meanwhile(spark, uri, append(uri, 59))
    assert _conflicts(spark, _merge(clauses, 52, condition))


@pytest.mark.slow
def test_update_conflicts_with_rows_that_match_its_condition(spark: SparkSession, uri: str) -> None:
    statement = f"UPDATE {TABLE} SET v = v + 1 WHERE id < 3 AND meanwhile(id) < 100"
    meanwhile(spark, uri, append(uri, 3))
    assert not _conflicts(spark, statement)
    meanwhile(spark, uri, append(uri, -5))
    assert _conflicts(spark, statement)
    meanwhile(spark, uri, append(uri, -6))
    spark.sql(statement)
    assert _rows(spark)[:5] == [(-6, 101), (-5, 101), (0, 2), (1, 2), (2, 2)]


@pytest.mark.slow
def test_delete_conflicts_with_rows_that_match_its_condition(spark: SparkSession, uri: str) -> None:
    statement = f"DELETE FROM {TABLE} WHERE id < 3 AND meanwhile(id) < 100"
    meanwhile(spark, uri, append(uri, 3))
    assert not _conflicts(spark, statement)
    spark.sql(f"INSERT INTO {TABLE} VALUES (1, 'a', 0)")
    meanwhile(spark, uri, append(uri, -5))
    spark.sql(statement)
    assert _rows(spark)[0][0] == 3


@pytest.mark.slow
@pytest.mark.parametrize("change", ["delete", "update"])
def test_rows_that_were_read_and_then_changed_conflict(spark: SparkSession, uri: str, change: str) -> None:
    """Rows below 3 decide about the statement, which changes another one."""
    statement = f"""UPDATE {TABLE} SET v = 7
                    WHERE id = 5 AND meanwhile(id - 4) = 1 AND (SELECT count(*) FROM {TABLE} WHERE id < 3) > 0"""

    def act(key: int) -> Callable[[], object]:
        return delete(uri, f"id = {key}") if change == "delete" else _update(uri, f"id = {key}", 5)

    meanwhile(spark, uri, act(8))
    assert not _conflicts(spark, statement)
    meanwhile(spark, uri, act(2))
    assert _conflicts(spark, statement)


@pytest.mark.slow
def test_rows_of_the_same_statement_conflict_and_are_computed_again(spark: SparkSession, uri: str) -> None:
    meanwhile(spark, uri, _update(uri, "id = 1", 5))
    spark.sql(f"UPDATE {TABLE} SET v = v + 1 WHERE id < 3 AND meanwhile(id) < 100")
    assert _rows(spark)[:4] == [(0, 1), (1, 6), (2, 1), (3, 0)]
    assert unnamed_files(uri) == set()


@pytest.mark.slow
def test_compaction_is_no_change_of_rows(spark: SparkSession, uri: str) -> None:
    spark.sql(f"INSERT INTO {TABLE} VALUES (20, 'a', 0)")
    meanwhile(spark, uri, _compact(uri))
    assert not _conflicts(spark, _merge(INSERT, 50))
    assert _rows(spark)[-1] == (50, 1)
    # Rows that move with the fragment are found again.
    spark.sql(f"INSERT INTO {TABLE} VALUES (21, 'a', 0)")
    meanwhile(spark, uri, _compact(uri))
    spark.sql(_merge(UPSERT, 20))
    assert (20, 1) in _rows(spark)


@pytest.mark.slow
def test_snapshot_isolation_looks_at_changed_rows_only(spark: SparkSession, uri: str) -> None:
    spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('isolation-level' = 'snapshot')")
    meanwhile(spark, uri, append(uri, 50))
    assert not _conflicts(spark, _merge(INSERT, 50))
    assert [row for row in _rows(spark) if row[0] == 50] == [(50, 1), (50, 100)]
    meanwhile(spark, uri, _update(uri, "id = 1", 5))
    assert _conflicts(spark, _merge(UPSERT, 1))


@pytest.mark.slow
def test_insert_where_not_exists_has_snapshot_isolation(spark: SparkSession, uri: str) -> None:
    meanwhile(spark, uri, append(uri, 50))
    spark.sql(
        f"""INSERT INTO {TABLE} SELECT * FROM (SELECT meanwhile(id) + 49 AS id, 'a', 1L FROM range(1, 2)) s
            WHERE NOT EXISTS (SELECT 1 FROM {TABLE} t WHERE t.id = s.id)"""
    )
    assert [row for row in _rows(spark) if row[0] == 50] == [(50, 1), (50, 100)]


@pytest.mark.slow
def test_runs_are_bounded_and_leave_nothing(spark: SparkSession, uri: str) -> None:
    spark.conf.set(RUNS, 3)
    meanwhile(spark, uri, append(uri, 50), times=100)
    before = version(uri)
    with pytest.raises(Exception, match=r"LANCE_COMMIT_CONFLICT.*the statement was run 3 times"):
        spark.sql(_merge(UPSERT, 60))
    assert version(uri) == before + 3
    assert unnamed_files(uri) == set()
    spark.conf.set(RUNS, "none")
    with pytest.raises(Exception, match="maxStatementRuns is a number of runs"):
        spark.sql(_merge(UPSERT, 60))


@pytest.mark.slow
def test_a_rerun_counts_what_it_changes(spark: SparkSession, uri: str) -> None:
    meanwhile(spark, uri, append(uri, 50))
    spark.sql(_merge(UPSERT, 50))
    manifests = Path(uri) / "__manifest"
    history = TableLocation(str(manifests) if manifests.exists() else uri).history
    transaction = history.transaction(history.load_latest())
    assert transaction is not None
    counts = {name: value for name, value in transaction.properties.items() if "numTargetRows" in name}
    assert counts["spark.numTargetRowsUpdated"] == "1"
    assert counts["spark.numTargetRowsInserted"] == "0"


@pytest.mark.slow
def test_a_rerun_reads_pinned_sources_at_their_version(spark: SparkSession, uri: str) -> None:
    pinned = version(uri)
    spark.sql(f"UPDATE {TABLE} SET v = 1000 WHERE id = 1")
    old = spark.read.option("version", pinned).table(TABLE).where("id = 1")
    meanwhile(spark, uri, append(uri, 50))
    source = old.selectExpr("meanwhile(id) AS id", "k", "v + 1 AS v").alias("s")
    source.mergeInto(TABLE, expr("s.id = isolation.id")).whenMatched().updateAll().merge()
    assert _rows(spark)[:3] == [(0, 0), (1, 1), (2, 0)]
    assert (50, 100) in _rows(spark)


@pytest.mark.slow
def test_a_rerun_reads_its_own_table_anew(spark: SparkSession, uri: str) -> None:
    """Source and target are the newest version in the second run."""
    meanwhile(spark, uri, append(uri, 50))
    source = spark.table(TABLE).selectExpr("meanwhile(id) AS id", "k", "v + 1 AS v").alias("s")
    merge = source.mergeInto(TABLE, expr("s.id = isolation.id"))
    merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert _rows(spark) == [*((key, 1) for key in range(10)), (50, 101)]


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
@pytest.mark.slow
def test_a_rerun_brings_columns_in_one_version(spark: SparkSession, uri: str) -> None:
    meanwhile(spark, uri, append(uri, 50))
    before = version(uri)
    spark.sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {TABLE} t
            USING (SELECT meanwhile(id) + 49 AS id, 'a' AS k, 1L AS v, 'w' AS w FROM range(1, 2)) s
            ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    found = [tuple(row) for row in spark.sql(f"SELECT id, v, w FROM {TABLE} WHERE id > 8 ORDER BY id").collect()]
    assert found == [(9, 0, None), (50, 1, "w")]
    assert version(uri) == before + 2 + ALTERS


@pytest.mark.slow
def test_an_error_of_the_rerun_is_the_error_of_the_statement(spark: SparkSession, uri: str) -> None:
    """After the other commit two rows of the source match one row of the target."""
    meanwhile(spark, uri, append(uri, 50))
    source = "(SELECT meanwhile(id) * 0 + 50 AS id, 'a' AS k, id AS v FROM range(1, 3)) s"
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(f"MERGE INTO {TABLE} t USING {source} ON t.id = s.id {UPSERT}")
    assert [row for row in _rows(spark) if row[0] == 50] == [(50, 100)]


@pytest.mark.slow
def test_an_insert_runs_again_if_its_partition_is_emptied(spark: SparkSession, uri: str) -> None:
    meanwhile(spark, uri, delete(uri, "k = 'a'"))
    spark.sql(f"INSERT INTO {TABLE} SELECT meanwhile(id) + 49, 'a', 7L FROM range(1, 2)")
    assert _rows(spark) == [(50, 7)]
    assert unnamed_files(uri) == set()


def test_isolation_level_is_checked(spark: SparkSession, uri: str) -> None:
    assert uri
    with pytest.raises(Exception, match="'serializable' or 'snapshot', not 'none'"):
        spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('isolation-level' = 'none')")
    partitions = "PARTITIONED BY (id)" if "PARTITIONED" in str(spark.sql(f"SHOW CREATE TABLE {TABLE}").head()) else ""
    with pytest.raises(Exception, match="'serializable' or 'snapshot', not 'all'"):
        spark.sql(
            f"CREATE TABLE lance.no_isolation (id INT) USING lance {partitions} TBLPROPERTIES ('isolation-level'='all')"
        )
    spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('isolation-level' = 'serializable')")
    spark.sql(f"ALTER TABLE {TABLE} UNSET TBLPROPERTIES ('isolation-level')")


@pytest.mark.slow
@pytest.mark.parametrize("clauses", [INSERT, UPSERT], ids=["insert", "upsert"])
def test_a_merge_of_pylance_sees_inserted_keys(spark: SparkSession, tmp_path: Path, clauses: str) -> None:
    """With a primary key it takes an update that tells no keys for one that may have inserted the same."""
    place = str(tmp_path / "keyed")
    key = pa.field("id", pa.int64(), False, {b"lance-schema:unenforced-primary-key": b"true"})
    schema = pa.schema([key, pa.field("k", pa.string()), pa.field("v", pa.int64())])
    lance.write_dataset(pa.table({"id": [1], "k": ["a"], "v": [0]}, schema=schema), place)
    stale = lance.dataset(place)
    source = "(SELECT 50L AS id, 'a' AS k, 1L AS v) s"
    spark.sql(f"MERGE INTO lance.`{place}` t USING {source} ON t.id = s.id {clauses}")
    merge = stale.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"id": [50], "k": ["b"], "v": [9]}, schema=schema))
    rows = lance.dataset(place).to_table().sort_by("id").to_pydict()
    assert rows == {"id": [1, 50], "k": ["a", "b"], "v": [0, 9]}


@pytest.mark.slow
@pytest.mark.parametrize("clauses", [INSERT, UPSERT], ids=["insert", "upsert"])
def test_a_merge_sees_keys_that_pylance_inserted(spark: SparkSession, tmp_path: Path, clauses: str) -> None:
    place = str(tmp_path / "keyed")
    lance.write_dataset(pa.table({"id": [1], "k": ["a"], "v": [0]}), place)

    def act() -> None:
        # Not in the worker itself: the library does not survive a fork.
        code = (
            "import lance, pyarrow as pa, sys\n"
            "merge = lance.dataset(sys.argv[1]).merge_insert('id').when_not_matched_insert_all()\n"
            "merge.execute(pa.table({'id': [50], 'k': ['b'], 'v': [9]}))"
        )
        subprocess.run([sys.executable, "-c", code, place], check=True)

    meanwhile(spark, place, act)
    spark.sql(_merge(clauses, 50).replace(TABLE, f"lance.`{place}`"))
    rows = lance.dataset(place).to_table().sort_by("id").to_pydict()
    assert rows == {"id": [1, 50], "k": ["a", "b"], "v": [0, 9 if clauses == INSERT else 10]}


_UNKNOWN = """
import os
from lance_spark.errors import CommitStateUnknownError
from lance_spark.table.commits.commit import Commit

run = Commit.run

def lost_reply(self):
    made = run(self)
    if os.path.exists(os.environ["LOST_REPLIES"]):
        raise CommitStateUnknownError("the store did not say", table_version=made.version)
    return made

Commit.run = lost_reply
"""

_STATEMENTS = """
import sys
from pyspark.sql import SparkSession
from lance_spark import configure

place, lost = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = configure(builder, "lance").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.range(4).selectExpr("id", "0L AS v").coalesce(1).write.format("lance").save(place)
open(lost, "w").close()
for statement in (
    f"UPDATE lance.`{place}` SET v = v + 1 WHERE id < 2",
    f"MERGE INTO lance.`{place}` t USING (SELECT 9L AS id, 1L AS v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
):
    try:
        spark.sql(statement)
    except Exception as error:
        print("LANCE_COMMIT_STATE_UNKNOWN" in str(error))
"""


@pytest.mark.slow
def test_a_commit_of_unknown_outcome_is_not_run_again(jar: Path, tmp_path: Path) -> None:
    """The rows are there, though the statement failed: a second run would bring them twice."""
    assert jar
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(_UNKNOWN)
    place, lost = str(tmp_path / "table"), str(tmp_path / "lost")
    paths = [str(tmp_path / "site"), str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "LOST_REPLIES": lost}
    done = subprocess.run(
        [sys.executable, "-c", _STATEMENTS, place, lost], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]
    dataset = lance.dataset(place)
    assert dataset.version == 3
    assert dataset.to_table().sort_by("id").to_pydict() == {"id": [0, 1, 2, 3, 9], "v": [1, 1, 0, 0, 1]}
