"""df.writeStream into Lance tables: exactly once, columns by name, and what is refused."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tests.support.connector.row_level import file_names, wait_for_files
from tests.support.connector.streams import data_files, forget_commit, run

Names = Callable[[], tuple[str, str]]


@pytest.fixture(scope="module", autouse=True)
def _namespace(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.sink")


@pytest.fixture
def source(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """A table with ids 0 to 9."""
    name = f"lance.sink.s{abs(hash(request.node.name)) % 10**9}"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING) USING lance")
    spark.sql(f"INSERT INTO {name} SELECT id, concat('n', id) FROM range(10)")
    return name


def add(spark: SparkSession, table: str, first: int, last: int) -> None:
    spark.sql(f"INSERT INTO {table} SELECT id, concat('n', id) FROM range({first}, {last})")


def stream(spark: SparkSession, table: str) -> DataFrame:
    return spark.readStream.table(table)


def ids(spark: SparkSession, table: str) -> list[int]:
    frame = spark.read.format("lance").load(table) if "/" in table else spark.table(table)
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.slow
def test_append_makes_the_table_and_goes_on_after_a_restart(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = source + "_copy"
    run(stream(spark, source), target, tmp_path / "c")
    add(spark, source, 10, 13)
    run(stream(spark, source), target, tmp_path / "c")
    assert ids(spark, target) == list(range(13))
    assert spark.sql(f"SHOW TBLPROPERTIES {target}").where("key LIKE 'lance.streaming%'").count() == 0


@pytest.mark.slow
def test_start_with_a_path_makes_the_table_at_the_first_epoch(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c")
    add(spark, source, 10, 13)
    run(stream(spark, source), target, tmp_path / "c")
    assert ids(spark, target) == list(range(13))
    assert lance.dataset(target).count_rows() == 13


@pytest.mark.slow
@pytest.mark.parametrize("by_path", [False, True])
def test_replay_after_a_killed_driver_writes_no_rows_and_no_files(
    spark: SparkSession, source: str, tmp_path: Path, root: str, by_path: bool
) -> None:
    target = str(tmp_path / "table") if by_path else source + "_copy"
    run(stream(spark, source), target, tmp_path / "c")
    for round_ in range(3):
        assert forget_commit(tmp_path / "c") == round_
        before = data_files(tmp_path if by_path else root)
        run(stream(spark, source), target, tmp_path / "c")
        assert data_files(tmp_path if by_path else root) == before
        assert ids(spark, target) == list(range(10 + round_))
        add(spark, source, 10 + round_, 11 + round_)
        run(stream(spark, source), target, tmp_path / "c")
    assert ids(spark, target) == list(range(13))


@pytest.mark.slow
def test_replay_is_recognised_after_a_clean_up_of_versions(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c")
    forget_commit(tmp_path / "c")
    theirs = lance.dataset(target)
    theirs.optimize.compact_files()
    theirs.delete("id = 3")
    lance.dataset(target).cleanup_old_versions(retain_versions=1, delete_unverified=True)
    run(stream(spark, source), target, tmp_path / "c")
    assert ids(spark, target) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.slow
def test_copied_checkpoint_that_is_behind_is_an_error(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "old")
    for last in (11, 12, 13):
        add(spark, source, last - 1, last)
        run(stream(spark, source), target, tmp_path / "c")
    with pytest.raises(StreamingQueryException, match="LANCE_STREAM_BEHIND"):
        run(stream(spark, source), target, tmp_path / "old")
    assert ids(spark, target) == list(range(13))


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["", "PARTITIONED BY (s)"], ids=["plain", "partitioned"])
def test_checkpoint_of_one_epoch_before_is_an_error(
    spark: SparkSession, source: str, tmp_path: Path, parts: str
) -> None:
    target = source + "_copy"
    spark.sql(f"CREATE TABLE {target} (id BIGINT, s STRING) USING lance {parts}")
    run(stream(spark, source), target, tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "old")
    add(spark, source, 10, 11)
    run(stream(spark, source), target, tmp_path / "c")
    # The next epoch of the copy has the number of the one that the table has, and other rows.
    add(spark, source, 11, 12)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=r"LANCE_STREAM_BEHIND.*offers another epoch 1"):
            run(stream(spark, source), target, tmp_path / "old")
    run(stream(spark, source), target, tmp_path / "c")
    assert ids(spark, target) == list(range(12))


@pytest.mark.slow
def test_app_name_of_one_epoch_and_a_deleted_checkpoint(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c", txnAppId="nightly")
    add(spark, source, 10, 12)
    with pytest.raises(StreamingQueryException, match="LANCE_STREAM_BEHIND"):
        run(stream(spark, source), target, tmp_path / "other", txnAppId="nightly")
    assert ids(spark, target) == list(range(10))


@pytest.mark.slow
def test_app_name_outlives_a_deleted_checkpoint(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c", txnAppId="nightly")
    add(spark, source, 10, 12)
    run(stream(spark, source), target, tmp_path / "c", txnAppId="nightly")
    with pytest.raises(StreamingQueryException, match=r"has epoch 1 of the query nightly.*txnAppId"):
        run(stream(spark, source), target, tmp_path / "other", txnAppId="nightly")
    assert ids(spark, target) == list(range(12))


@pytest.mark.slow
def test_epoch_without_rows_makes_no_version(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c")
    add(spark, source, 10, 11)
    run(stream(spark, source).where("id < 5"), target, tmp_path / "c")
    assert lance.dataset(target).version == 1


@pytest.mark.slow
def test_complete_mode_replaces_all_rows(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")

    def counted() -> DataFrame:
        frame = stream(spark, source)
        return frame.selectExpr("id % 2 AS id").groupBy("id").count()

    run(counted(), target, tmp_path / "c", mode="complete")
    add(spark, source, 10, 13)
    run(counted(), target, tmp_path / "c", mode="complete")
    forget_commit(tmp_path / "c")
    run(counted(), target, tmp_path / "c", mode="complete")
    found = spark.read.format("lance").load(target).collect()
    assert sorted((row.id, row["count"]) for row in found) == [(0, 7), (1, 6)]


@pytest.mark.slow
def test_partitioned_tables_get_the_mark_with_their_rows(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = source + "_parts"
    spark.sql(f"CREATE TABLE {target} (id BIGINT, s STRING) USING lance PARTITIONED BY (bucket(3, id))")
    run(stream(spark, source), target, tmp_path / "c")
    for last in (12, 14):
        forget_commit(tmp_path / "c")
        run(stream(spark, source), target, tmp_path / "c")
        add(spark, source, last - 2, last)
        run(stream(spark, source), target, tmp_path / "c")
    assert ids(spark, target) == list(range(14))
    location = spark.sql(f"DESCRIBE EXTENDED {target}").where("col_name = 'Location'").first().data_type
    run(stream(spark, source), location, tmp_path / "by_path")
    assert ids(spark, target) == sorted([*range(14), *range(14)])


@pytest.mark.slow
def test_branches(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c")
    lance.dataset(target).create_branch("dev")
    add(spark, source, 10, 12)
    run(stream(spark, source), target, tmp_path / "c2", branch="dev")
    assert ids(spark, target) == list(range(10))
    branch = spark.read.format("lance").option("branch", "dev").load(target)
    assert branch.count() == 22
    with pytest.raises(AnalysisException, match="nowhere"):
        run(stream(spark, source), target, tmp_path / "c3", branch="nowhere")


@pytest.mark.slow
def test_columns_are_matched_by_name_and_cast(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    spark.sql("SELECT CAST(1 AS INT) AS ID, 'x' AS s, CAST(null AS DOUBLE) AS extra LIMIT 0").write.format(
        "lance"
    ).save(target)
    run(stream(spark, source).selectExpr("s", "id"), target, tmp_path / "c")
    found = spark.read.format("lance").load(target)
    assert found.schema.simpleString() == "struct<ID:int,s:string,extra:double>"
    assert sorted(map(tuple, found.collect())) == [(number, f"n{number}", None) for number in range(10)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("id", "s", "1 AS more"), "more"),
        (("s AS id", "s"), "id"),
        (("id",), "s"),
    ],
)
def test_columns_that_an_insert_would_refuse(
    spark: SparkSession, source: str, tmp_path: Path, columns: tuple[str, ...], message: str
) -> None:
    target = source + "_strict"
    spark.sql(f"CREATE TABLE {target} (id BIGINT NOT NULL, s STRING NOT NULL) USING lance")
    with pytest.raises(StreamingQueryException, match=message):
        run(stream(spark, source).selectExpr(*columns), target, tmp_path / "c")
    assert ids(spark, target) == []


@pytest.mark.slow
def test_nulls_into_a_required_column_are_refused(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = source + "_strict"
    spark.sql(f"CREATE TABLE {target} (id BIGINT NOT NULL, s STRING) USING lance")
    with pytest.raises(StreamingQueryException, match=r"(?i)null"):
        run(stream(spark, source).selectExpr("nullif(id, 3) AS id", "s"), target, tmp_path / "c")
    assert ids(spark, target) == []


@pytest.mark.slow
def test_epoch_with_a_task_that_fails_leaves_no_file(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c")
    before = file_names(target)
    add(spark, source, 10, 13)

    def fails(key: int) -> int:
        if key == 12:
            time.sleep(1)  # The other task has written its file by then, or the test proves less.
            raise ValueError("no twelve")
        return key

    spark.udf.register("fails_at_twelve", udf(fails, "bigint"))
    changed = stream(spark, source).repartition(2, "id").selectExpr("fails_at_twelve(id) AS id", "s")
    with pytest.raises(StreamingQueryException, match="no twelve"):
        run(changed, target, tmp_path / "c")
    wait_for_files(target, before)
    assert ids(spark, target) == list(range(10))
    run(stream(spark, source), target, tmp_path / "c")
    assert ids(spark, target) == list(range(13))


@pytest.mark.slow
def test_merge_schema_brings_new_columns(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "table")
    run(stream(spark, source), target, tmp_path / "c")
    add(spark, source, 10, 12)
    run(stream(spark, source).selectExpr("id", "s", "id * 2 AS twice"), target, tmp_path / "c", mergeSchema="true")
    found = spark.read.format("lance").load(target).where("id > 8").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(9, "n9", None), (10, "n10", 20), (11, "n11", 22)]


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["", "PARTITIONED BY (id)"], ids=["plain", "partitioned"])
def test_merge_schema_of_a_table_by_name_goes_on(spark: SparkSession, source: str, tmp_path: Path, parts: str) -> None:
    add(spark, source, 10, 12)
    target = source + "_grown"
    spark.sql(f"CREATE TABLE {target} (id BIGINT, twice BIGINT) USING lance {parts}")
    rows = spark.readStream.option("maxFilesPerTrigger", 1).table(source)
    # Each epoch looks up the table that it writes to: no row of it comes twice.
    known = spark.table(target).select("id")
    frame = rows.join(known, "id", "left_anti").selectExpr("id", "id * 2 AS twice", "s")
    query = run(frame, target, tmp_path / "c", mergeSchema="true")
    assert len([item for item in query.recentProgress if item["numInputRows"]]) > 1
    found = spark.table(target).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(n, 2 * n, f"n{n}") for n in range(12)]


@pytest.mark.slow
def test_query_by_name_goes_on_after_others_added_columns(spark: SparkSession, source: str, tmp_path: Path) -> None:
    target = source + "_copy"
    spark.sql(f"CREATE TABLE {target} (id BIGINT, s STRING) USING lance")
    writer = stream(spark, source).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    query = writer.toTable(target)
    try:
        query.processAllAvailable()
        spark.sql(f"ALTER TABLE {target} ADD COLUMN more INT")
        add(spark, source, 10, 12)
        query.processAllAvailable()
        assert ids(spark, target) == list(range(12))
        spark.sql(f"ALTER TABLE {target} DROP COLUMN s")
        add(spark, source, 12, 13)
        # Spark before 4.2 compares the columns with those of the rows alone.
        with pytest.raises(StreamingQueryException, match=r"`s` STRING has been removed|extra columns `s`"):
            query.processAllAvailable()
    finally:
        query.stop()
    assert ids(spark, target) == list(range(12))


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True])
def test_auto_compact_joins_small_files_and_keeps_rows_and_mark(
    spark: SparkSession, source: str, tmp_path: Path, partitioned: bool
) -> None:
    target = f"{source}_compacted"
    layout = "PARTITIONED BY (s)" if partitioned else ""
    spark.sql(f"CREATE TABLE {target} (id BIGINT, s STRING) USING lance {layout}")
    options = {"auto_compact": "true", "auto_compact_min_files": "2"}
    frame = stream(spark, source).selectExpr("id", "'all' AS s").coalesce(1)
    for round_, new_versions in enumerate((1, 2)):
        before = versions(spark, target)
        run(frame, target, tmp_path / "c", **options)
        assert versions(spark, target) - before == new_versions
        add(spark, source, 10 + round_, 11 + round_)
    forget_commit(tmp_path / "c")
    run(frame, target, tmp_path / "c", **options)
    assert ids(spark, target) == list(range(12))


def versions(spark: SparkSession, table: str) -> int:
    return spark.sql(f"CALL lance.system.history('{table.removeprefix('lance.')}')").count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txnApId": "x"}, "did you mean txnAppId"),
        ({"version": "3"}, "option version is for batch reads"),
        ({"delete_when": "op = 'd'"}, "option delete_when has no effect without key"),
        ({"auto_compact_min_files": "3"}, "no effect without auto_compact"),
        ({"txnAppId": "x", "streamingQueryId": "y"}, "are the same; keep one"),
    ],
)
def test_wrong_options_are_refused_and_leave_no_table(
    spark: SparkSession, source: str, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    target = tmp_path / "table"
    with pytest.raises((StreamingQueryException, AnalysisException), match=message):
        run(stream(spark, source), str(target), tmp_path / "c", **options)
    assert not target.exists()


def test_continuous_processing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("value AS id")
    writer = frame.writeStream.format("lance").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match="continuous processing"):
        writer.trigger(continuous="1 second").start(str(tmp_path / "table")).awaitTermination(30)
    assert not (tmp_path / "table").exists()


def test_update_mode_is_refused(spark: SparkSession, source: str, tmp_path: Path) -> None:
    frame = stream(spark, source).selectExpr("id % 2 AS id").groupBy("id").count()
    with pytest.raises(StreamingQueryException, match="output mode update"):
        run(frame, str(tmp_path / "table"), tmp_path / "c", mode="update")
    assert not (tmp_path / "table").exists()
