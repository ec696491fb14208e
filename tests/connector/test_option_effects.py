"""Every option that is known has an effect, is refused, or is listed as without effect; none is ignored in silence.

`PROOFS` names for each option what proves it. An option that is added without a proof fails the first test.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark.spark import options as known
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.property_names import OF_ONE_WRITE, TABLE_OPTIONS
from tests.connector import (
    test_misspelt_options,
    test_overwrite_mode,
    test_read_options,
    test_session,
    test_writes,
)

WITHOUT_EFFECT = "without effect"
READ = {
    "path": test_read_options.test_options,
    "branch": test_writes.test_a_branch_is_never_taken_for_the_table,
    "version": test_read_options.test_options,
    "tag": test_read_options.test_options,
    "timestamp": test_read_options.test_the_version_of_a_moment,
    "batch_size": test_read_options.test_how_much_a_task_and_a_batch_get,
    "max_batch_bytes": "test_max_batch_bytes_bounds_batches",
    "columns": test_read_options.test_options,
    "filter": test_read_options.test_options,
    "limit": test_read_options.test_options,
    "with_row_id": test_read_options.test_options,
    "with_row_address": test_read_options.test_options,
    "pushdownfilters": "test_filters_are_always_pushed",
    "topn_push_down": test_read_options.test_top_n_can_be_left_to_spark,
    "target_partition_bytes": test_read_options.test_how_much_a_task_and_a_batch_get,
    "versionasof": "test_time_travel_of_spark",
    "timestampasof": "test_time_travel_of_spark",
}
WRITE = {
    "path": test_writes.test_every_option_of_a_write,
    "branch": test_writes.test_a_branch_is_never_taken_for_the_table,
    "max_row_per_file": test_writes.test_options_shape_the_table,
    "max_rows_per_file": test_writes.test_every_option_of_a_write,
    "max_bytes_per_file": "test_max_bytes_per_file_cuts_files",
    "file_format_version": test_writes.test_the_same_as_properties_of_a_table,
    "data_storage_version": test_writes.test_every_option_of_a_write,
    "enable_stable_row_ids": "test_stable_row_ids_by_option_and_catalog",
    "use_large_var_types": "test_use_large_var_types",
    "commit_message": test_writes.test_every_option_of_a_write,
    "mergeschema": test_writes.test_merge_schema,
    "distribution": "test_distribution_of_the_table_and_of_a_write",
    "partitionoverwritemode": test_overwrite_mode.test_insert_into_dynamic_keeps_the_other_partitions,
    "max_rows_per_group": WITHOUT_EFFECT,
    "use_queued_write_buffer": WITHOUT_EFFECT,
    "queue_depth": WITHOUT_EFFECT,
    "batch_size": WITHOUT_EFFECT,
}
CATALOG = {
    "root": test_session,
    "impl": test_session,
    "uri": test_session,
    "enable_stable_row_ids": "test_stable_row_ids_by_option_and_catalog",
}
PROPERTY = {
    "max_row_per_file": "test_properties_are_defaults_of_later_writes",
    "max_rows_per_file": "test_properties_are_defaults_of_later_writes",
    "max_bytes_per_file": "test_properties_are_defaults_of_later_writes",
    "distribution": "test_distribution_of_the_table_and_of_a_write",
    "use_large_var_types": "test_use_large_var_types",
    "file_format_version": test_writes.test_the_same_as_properties_of_a_table,
    "data_storage_version": test_writes.test_the_same_as_properties_of_a_table,
    "enable_stable_row_ids": "test_stable_row_ids_by_option_and_catalog",
    **dict.fromkeys(OF_ONE_WRITE, test_misspelt_options.test_create_table),
}
PROOFS: dict[str, dict[str, object]] = {
    "_READ": dict(READ),
    "_WRITE": dict(WRITE),
    "_CATALOG": dict(CATALOG),
    "properties": dict(PROPERTY),
}


@pytest.mark.parametrize("group", PROOFS)
def test_every_known_option_has_a_proof(group: str) -> None:
    names = TABLE_OPTIONS | OF_ONE_WRITE if group == "properties" else set(getattr(known, group))
    assert set(PROOFS[group]) == names
    documented = (Path(__file__).parents[2] / "docs" / "options.md").read_text().lower()
    for name, proof in PROOFS[group].items():
        assert f"`{name}`" in documented, name
        if proof == WITHOUT_EFFECT:
            assert name in known._WITHOUT_EFFECT
            row = next(
                line
                for line in documented.splitlines()
                if line.startswith("|") and f"`{name}`" in line and "without effect" in line
            )
            assert row
        elif isinstance(proof, str):
            assert callable(getattr(sys.modules[__name__], proof))
        elif isinstance(proof, ModuleType):
            assert re.search(rf"\b{name}\b", inspect.getsource(proof)), name
        else:
            assert callable(proof)


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    yield "lance.effects"
    spark.sql("DROP TABLE IF EXISTS lance.effects PURGE")


def location(spark: SparkSession, name: str) -> str:
    row = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").first()
    assert row is not None
    return str(row.data_type)


def data_files(spark: SparkSession, name: str) -> int:
    return len(list(Path(location(spark, name)).rglob("*.lance")))


def plain_table(spark: SparkSession, uri: str) -> None:
    lance.write_dataset(pa.table({"id": range(1000), "text": ["x" * 100] * 1000}), uri)


def batches_read(spark: SparkSession, uri: str, **options: str) -> int:
    frame = spark.read.format("lance").options(**options).load(uri)
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(leaf.metrics().apply("batches_read").value())


def test_max_batch_bytes_bounds_batches(spark: SparkSession, uri: str) -> None:
    plain_table(spark, uri)
    assert batches_read(spark, uri, max_batch_bytes="2000") > batches_read(spark, uri)


def test_filters_are_always_pushed(spark: SparkSession, uri: str) -> None:
    """pushDownFilters is for the plug-in (tests/spark/test_pushdown.py); the connector says that it does nothing."""
    plain_table(spark, uri)
    for value in ("true", "false"):
        frame = spark.read.format("lance").option("pushDownFilters", value).load(uri).where("id = 3")
        assert "id = 3" in frame._jdf.queryExecution().executedPlan().toString()


def test_time_travel_of_spark(spark: SparkSession, uri: str) -> None:
    for start in (0, 1):
        spark.range(start, start + 1).write.format("lance").mode("append").save(uri)
    moment = lance.dataset(uri).versions()[0]["timestamp"].isoformat(" ")
    for reader in (lambda r: r.format("lance").load(uri), lambda r: r.table(f"lance.`{uri}`")):
        assert reader(spark.read.option("versionAsOf", "1")).count() == 1
        assert reader(spark.read.option("timestampAsOf", moment)).count() == 1
        assert reader(spark.read).count() == 2


def test_max_bytes_per_file_cuts_files(spark: SparkSession, uri: str) -> None:
    rows = spark.range(0, 40000, numPartitions=1).selectExpr("id", "repeat('x', 300) AS text")
    rows.write.format("lance").option("max_bytes_per_file", "100000").save(uri)
    assert len(lance.dataset(uri).get_fragments()) > 1


@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (k)"])
@pytest.mark.parametrize(
    "entry", ["'max_rows_per_file' = '3'", "'max_row_per_file' = '3'", "'max_bytes_per_file' = '1'"]
)
def test_properties_are_defaults_of_later_writes(spark: SparkSession, name: str, partitioning: str, entry: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k STRING) {partitioning} TBLPROPERTIES ({entry})")
    before = data_files(spark, name)
    many = "SELECT id, 'a' FROM range(0, 100000, 1, 1)" if "bytes" in entry else "SELECT id, 'a' FROM range(0, 9, 1, 1)"
    spark.sql(f"INSERT INTO {name} {many}")
    after = data_files(spark, name)
    assert after - before >= 3
    if "rows" in entry:
        spark.sql(f"INSERT INTO {name} WITH (max_rows_per_file = 100) {many}")
        assert data_files(spark, name) - after == 1


@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (k)"])
def test_use_large_var_types(spark: SparkSession, name: str, uri: str, partitioning: str) -> None:
    expected = ["int64", "large_string", "large_binary", "struct<a: large_string, l: list<item: large_binary>>"]
    columns = "id BIGINT, k STRING, b BINARY, s STRUCT<a: STRING, l: ARRAY<BINARY>>"
    values = "1L AS id, 'a' AS k, X'00' AS b, named_struct('a', 'x', 'l', array(X'01')) AS s"
    spark.sql(f"CREATE TABLE {name} ({columns}) {partitioning} TBLPROPERTIES ('use_large_var_types' = 'true')")
    spark.sql(f"INSERT INTO {name} SELECT {values}")
    row = spark.sql(f"SELECT {values}").first()
    assert spark.table(name).first() == row
    by = ["k"] if partitioning else []
    spark.sql(f"SELECT {values}").write.format("lance").option("use_large_var_types", "true").partitionBy(*by).save(uri)
    assert spark.read.format("lance").load(uri).first() == row
    for where in (location(spark, name), uri):
        (directory,) = {
            path.parent.parent for path in Path(where).rglob("data/*.lance") if "__manifest" not in str(path)
        }
        schema = lance.dataset(str(directory)).schema
        assert [str(schema.field(column).type) for column in ("id", "k", "b", "s")] == expected
    if partitioning:
        writer = spark.sql(f"SELECT {values}").write.option("use_large_var_types", "true").partitionBy("k")
        with pytest.raises(PySparkException, match="made before Spark hands over the options"):
            writer.saveAsTable("lance.never")
        assert not spark.catalog.tableExists("lance.never")
    else:
        spark.sql(f"SELECT {values}").write.option("use_large_var_types", "true").mode("overwrite").saveAsTable(name)
        assert str(lance.dataset(location(spark, name)).schema.field("k").type) == "large_string"


def has_stable_row_ids(spark: SparkSession, name: str) -> bool:
    directories = {path.parent.parent for path in Path(location(spark, name)).rglob("_versions/*.manifest")}
    (directory,) = [path for path in directories if path.name != "__manifest"]
    return bool(lance.dataset(str(directory)).has_stable_row_ids)


@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (k)"])
def test_stable_row_ids_by_option_and_catalog(
    spark: SparkSession, name: str, tmp_path: Path, partitioning: str
) -> None:
    rows = "SELECT 1L AS id, 'a' AS k"
    spark.sql(f"CREATE TABLE {name} {partitioning} TBLPROPERTIES ('enable_stable_row_ids' = 'true') AS {rows}")
    assert has_stable_row_ids(spark, name)
    for kind, values in (("true", "false"), ("false", "true")):
        spark.sql(
            f"CREATE OR REPLACE TABLE lance.contrary_{kind} {partitioning} "
            f"TBLPROPERTIES ('enable_stable_row_ids' = '{kind}') AS {rows}"
        )
        with pytest.raises(PySparkException, match="enable_stable_row_ids"):
            spark.sql(f"INSERT INTO lance.contrary_{kind} WITH (enable_stable_row_ids = {values}) {rows}")
        spark.sql(f"INSERT INTO lance.contrary_{kind} WITH (enable_stable_row_ids = {kind}) {rows}")
        spark.sql(f"DROP TABLE lance.contrary_{kind} PURGE")
    prefix = "spark.sql.catalog.stable"
    spark.conf.set(prefix, "io.lancespark.LanceCatalog")
    spark.conf.set(f"{prefix}.root", str(tmp_path))
    spark.conf.set(f"{prefix}.enable_stable_row_ids", "true")
    spark.sql(f"CREATE TABLE stable.made (id BIGINT, k STRING) {partitioning}")
    spark.sql(f"INSERT INTO stable.made {rows}")
    spark.sql(f"CREATE TABLE stable.queried {partitioning} AS {rows}")
    spark.sql(f"CREATE TABLE stable.without {partitioning} TBLPROPERTIES ('enable_stable_row_ids' = 'false') AS {rows}")
    assert has_stable_row_ids(spark, "stable.made")
    assert has_stable_row_ids(spark, "stable.queried")
    assert not has_stable_row_ids(spark, "stable.without")
    # Tables that are there keep the row ids that they have.
    spark.sql(f"CREATE OR REPLACE TABLE stable.without {partitioning} AS {rows}")
    assert spark.table("stable.without").count() == 1


def test_distribution_of_the_table_and_of_a_write(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k BIGINT) PARTITIONED BY (k) TBLPROPERTIES ('distribution' = 'none')")
    rows = "SELECT id, id % 2 FROM range(0, 100, 1, 4)"
    before = data_files(spark, name)
    spark.sql(f"INSERT INTO {name} {rows}")
    scattered = data_files(spark, name) - before
    spark.sql(f"INSERT INTO {name} WITH (distribution = 'hash') {rows}")
    assert (scattered, data_files(spark, name) - before - scattered) == (8, 2)
    for statement in (
        "CREATE TABLE lance.never (id BIGINT) TBLPROPERTIES ('distribution' = 'hash')",
        "CREATE TABLE lance.never TBLPROPERTIES ('distribution' = 'hash') AS SELECT 1 AS id",
    ):
        with pytest.raises(PySparkException, match="is for partitioned tables"):
            spark.sql(statement)
        assert not spark.catalog.tableExists("lance.never")


def test_file_format_version_of_a_partitioned_table_stays(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT) PARTITIONED BY (id) TBLPROPERTIES ('file_format_version' = '2.1')")
    spark.sql(f"INSERT INTO {name} WITH (file_format_version = '2.1') VALUES (1)")
    with pytest.raises(PySparkException, match="the partitioned table has 2"):
        spark.sql(f"INSERT INTO {name} WITH (file_format_version = '2.2') VALUES (2)")


@pytest.mark.parametrize("option", [name for name, proof in WRITE.items() if proof == WITHOUT_EFFECT])
def test_options_without_effect_are_taken_with_one_log_line(
    spark: SparkSession, uri: str, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    value = "true" if option.startswith("use") else "4"
    spark.range(3).write.format("lance").option(option, value).save(uri)
    spark.range(3).write.format("lance").mode("append").option(option, value).save(uri)
    assert spark.read.format("lance").load(uri).count() == 6
    with caplog.at_level(logging.WARNING):
        WriteOptions.parse({"path": uri, option: value}).log_without_effect()
    assert [record.message.startswith(f"option {option} has no effect: ") for record in caplog.records] == [True]
    bad: Callable[[], None] = lambda: spark.range(3).write.format("lance").mode("append").option(option, "x").save(uri)  # noqa: E731
    with pytest.raises(PySparkException, match=f"option {option} is 'x'"):
        bad()
