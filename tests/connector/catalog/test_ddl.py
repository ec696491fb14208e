"""ALTER TABLE and what shows tables: one version a statement, as the reference library sees it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from tests.partitioned.verbs import save_rows


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """A table of two rows; its version is 2."""
    namespace = f"lance.ddl_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'the key', small INT, "
        "point STRUCT<x: INT, y: INT>, items ARRAY<STRUCT<a: INT>>) USING lance COMMENT 'a table'"
    )
    spark.sql(
        f"INSERT INTO {name} VALUES (1, 10, struct(1, 2), array(struct(5))), (2, NULL, NULL, array(struct(6), NULL))"
    )
    return name


def location(spark: SparkSession, table: str) -> str:
    rows = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()
    return str(rows[0].data_type)


def dataset(spark: SparkSession, table: str) -> lance.LanceDataset:
    return lance.dataset(location(spark, table))


def comments(spark: SparkSession, table: str) -> dict[str, str | None]:
    return {row.col_name: row.comment for row in spark.sql(f"DESCRIBE {table}").collect()}


@pytest.mark.slow
def test_columns_that_are_added_are_null(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (name STRING COMMENT 'a name' FIRST, extra DOUBLE AFTER small)")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN point.z STRING AFTER x")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN items.element.b BIGINT")
    now = dataset(spark, table)
    assert now.version == 5
    assert now.schema.names == ["name", "id", "small", "extra", "point", "items"]
    assert [field.name for field in now.schema.field("point").type] == ["x", "z", "y"]
    assert now.to_table().to_pylist() == [
        {"name": None, "id": 1, "small": 10, "extra": None, "point": {"x": 1, "z": None, "y": 2},
         "items": [{"a": 5, "b": None}]},
        {"name": None, "id": 2, "small": None, "extra": None, "point": None, "items": [{"a": 6, "b": None}, None]},
    ]  # fmt: skip
    assert comments(spark, table)["name"] == "a name"
    spark.sql(f"INSERT INTO {table} VALUES ('n', 3, 1, 0.5, struct(7, 'z', 8), array(struct(1, 2)))")
    rows = [tuple(row) for row in spark.sql(f"SELECT name, extra, point.z, items FROM {table} ORDER BY id").collect()]
    assert rows == [
        (None, None, None, [(5, None)]),
        (None, None, None, [(6, None), None]),
        ("n", 0.5, "z", [(1, 2)]),
    ]
    with pytest.raises(AnalysisException, match=r"FIELD_ALREADY_EXISTS|FIELDS_ALREADY_EXISTS"):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN name STRING")
    with pytest.raises(AnalysisException, match="NOT NULL"):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN never INT NOT NULL")
    assert dataset(spark, table).version == 6


@pytest.mark.slow
def test_columns_are_dropped_and_renamed_in_place(spark: SparkSession, table: str) -> None:
    files = [file.path for fragment in dataset(spark, table).get_fragments() for file in fragment.data_files()]
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN small TO tiny")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN point.y TO why")
    spark.sql(f"ALTER TABLE {table} DROP COLUMNS (point.x, items)")
    now = dataset(spark, table)
    assert now.version == 5
    assert now.to_table().to_pylist() == [
        {"id": 1, "tiny": 10, "point": {"why": 2}},
        {"id": 2, "tiny": None, "point": None},
    ]
    assert [file.path for fragment in now.get_fragments() for file in fragment.data_files()] == files
    spark.sql(f"ALTER TABLE {table} DROP COLUMN IF EXISTS missing")
    assert dataset(spark, table).version == 5
    with pytest.raises(AnalysisException, match=r"FIELD_NOT_FOUND|UNRESOLVED_COLUMN"):
        spark.sql(f"ALTER TABLE {table} DROP COLUMN missing")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN items STRING")
    assert [row.items for row in spark.table(table).collect()] == [None, None]


@pytest.mark.slow
def test_a_column_gets_a_wider_type(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN small TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN point.x TYPE BIGINT")
    now = dataset(spark, table)
    assert now.version == 4
    assert now.schema.field("small").type == pa.int64()
    assert now.to_table(columns=["small", "point"]).to_pylist() == [
        {"small": 10, "point": {"x": 1, "y": 2}},
        {"small": None, "point": None},
    ]
    assert [tuple(row) for row in spark.sql(f"SELECT small, point.x FROM {table} ORDER BY id").collect()] == [
        (10, 1),
        (None, None),
    ]
    with pytest.raises(AnalysisException, match=r"NOT_SUPPORTED_CHANGE_COLUMN|cannot"):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN small TYPE INT")


@pytest.mark.parametrize("kind", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_replaced_table_has_only_the_comments_of_the_statement(spark: SparkSession, kind: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.replaced_comments")
    table = f"lance.replaced_comments.t{len(kind)}"
    spark.sql(f"CREATE TABLE {table} (a INT COMMENT 'old', b INT COMMENT 'old', p INT COMMENT 'old') {kind}")
    spark.sql(f"CREATE OR REPLACE TABLE {table} (a INT, b INT COMMENT 'new', p INT) {kind}")
    found = comments(spark, table)
    assert (found["a"], found["b"]) == (None, "new")
    # The columns of a query bring their comments, as those of Parquet tables do.
    spark.sql(f"CREATE OR REPLACE TABLE {table} {kind} AS SELECT 1 AS a, b, 2 AS p FROM {table}")
    found = comments(spark, table)
    assert (found["a"], found["b"]) == (None, "new")


@pytest.mark.slow
def test_nullability_comment_and_order(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id DROP NOT NULL")
    assert dataset(spark, table).schema.field("id").nullable
    with pytest.raises(AnalysisException, match="Cannot change nullable column to non-nullable"):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN id SET NOT NULL")
    assert comments(spark, table)["id"] == "the key"
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id COMMENT 'another', small COMMENT 'small one'")
    assert comments(spark, table)["id"] == "another"
    assert dataset(spark, table).schema.field("small").metadata[b"comment"] == b"small one"
    assert dataset(spark, table).version == 4
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id AFTER small")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN point.y FIRST")
    now = dataset(spark, table)
    assert now.schema.names == ["small", "id", "point", "items"]
    assert now.to_table(columns=["point"]).to_pylist()[0] == {"point": {"y": 2, "x": 1}}
    assert spark.table(table).select("point.*").first().asDict() == {"y": 2, "x": 1}
    assert now.version == 6


def test_properties_are_config(spark: SparkSession, table: str) -> None:
    def shown() -> dict[str, str]:
        return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}

    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'blue', 'lance.auto_cleanup.interval' = '20')")
    now = dataset(spark, table)
    assert (now.version, now.config()["team"], shown()["team"]) == (3, "blue", "blue")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'blue')")
    assert dataset(spark, table).version == 3
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('team', 'lance.auto_cleanup.interval')")
    assert dataset(spark, table).version == 4
    assert "team" not in dataset(spark, table).config()
    assert "team" not in shown()
    spark.sql(f"COMMENT ON TABLE {table} IS 'better'")
    assert dataset(spark, table).config()["comment"] == "better"
    assert dataset(spark, table).version == 5


def test_properties_of_columns_are_their_metadata(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('small.lance.compression' = 'zstd')")
    now = dataset(spark, table)
    assert now.schema.field("small").metadata == {b"lance-encoding:compression": b"zstd"}
    assert now.version == 3
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('small.lance.compression')")
    assert not dataset(spark, table).schema.field("small").metadata
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('vec.arrow.fixed-size-list.size' = '3')")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN vec ARRAY<FLOAT>")
    assert dataset(spark, table).schema.field("vec").type == pa.list_(pa.float32(), 3)
    with pytest.raises(AnalysisException, match="new columns only"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('vec.arrow.fixed-size-list.size' = '4')")


@pytest.mark.slow
def test_a_table_gets_another_name(spark: SparkSession, table: str) -> None:
    rows = spark.table(table).orderBy("id").collect()
    spark.sql(f"ALTER TABLE {table} RENAME TO {table.removeprefix('lance.')}_new")
    assert spark.table(f"{table}_new").orderBy("id").collect() == rows
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(table)


@pytest.mark.slow
def test_show_create_table_makes_the_same_table(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'blue')")
    text = spark.sql(f"SHOW CREATE TABLE {table}").first().createtab_stmt
    assert "USING lance" in text
    for part in ("'team' = 'blue'", "COMMENT 'a table'", "COMMENT 'the key'"):
        assert part in text, text
    again = "\n".join(line for line in text.splitlines() if not line.startswith("LOCATION"))
    spark.sql(again.replace(table.removeprefix("lance."), table.removeprefix("lance.") + "_again"))
    assert dataset(spark, f"{table}_again").schema == dataset(spark, table).schema
    assert dataset(spark, f"{table}_again").config() == dataset(spark, table).config()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "ADD COLUMN extra INT DEFAULT 7 FIRST",
            "column extra: ADD COLUMN with a DEFAULT adds columns after the others",
        ),
        ("SET LOCATION '/elsewhere'", "a table stays where it is"),
        ("REPLACE COLUMNS (id BIGINT, other INT)", "REPLACE COLUMNS would drop the values of all columns"),
    ],
)
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (bucket(2, id))"])
def test_changes_that_tables_do_not_know(spark: SparkSession, change: str, message: str, partitioning: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.unknown_changes")
    table = "lance.unknown_changes.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, small INT) {partitioning}")
    with pytest.raises(AnalysisException, match=message) as raised:
        spark.sql(f"ALTER TABLE {table} {change}")
    assert raised.value.getCondition() == "LANCE_UNSUPPORTED_FEATURE"
    assert spark.table(table).columns == ["id", "small"]
    assert spark.sql(f"SELECT * FROM {table}.versions").count() == 1
    spark.sql(f"DROP TABLE {table}")


def test_properties_of_columns_that_writers_would_not_understand(spark: SparkSession, table: str) -> None:
    with pytest.raises(AnalysisException, match=r"small\.lance\.compression is 'lz5', which is none of zstd"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('small.lance.compression' = 'lz5')")
    with pytest.raises(AnalysisException, match="is 'much', which is not a number"):
        spark.sql(f"CREATE TABLE {table}_new (s STRING) TBLPROPERTIES ('s.lance.compression-level' = 'much')")
    assert dataset(spark, table).version == 2


def test_a_table_is_renamed_with_the_catalogs_name(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} RENAME TO {table}_new")
    assert spark.table(f"{table}_new").count() == 2


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
@pytest.mark.parametrize("by_path", [True, False])
def test_create_table_like_partitioned_table(spark: SparkSession, table: str, tmp_path: Path, by_path: bool) -> None:
    """Types that Spark does not have, the partitioning, and no rows."""
    types = [("k", pa.string()), ("v", pa.list_(pa.float32(), 2)), ("u", pa.uint8()), ("t", pa.large_string())]
    schema = pa.schema(types)
    root = str(tmp_path / "source")
    rows = pa.table({"k": ["a", "b"], "v": [[1, 2], None], "u": [1, 255], "t": ["x", None]}, schema)
    save_rows(create_partitioned(root, schema, [PartitionBy("by_k", ("k",), Identity())]), rows)
    source = f"lance.`{root}`"
    if not by_path:
        spark.sql(f"CREATE TABLE {table}_first LIKE {source}")
        source = f"{table}_first"
    spark.sql(f"CREATE TABLE {table}_like LIKE {source} TBLPROPERTIES ('team' = 'blue')")
    uri = spark.sql(f"DESCRIBE EXTENDED {table}_like").where("col_name = 'Location'").first().data_type
    made = lance_spark.open(uri)
    assert {field.name: field.type for field in made.schema} == dict(types)
    assert (made.num_partitions, made.count_rows(), made.config["team"]) == (0, 0, "blue")
    spark.sql(f"INSERT INTO {table}_like SELECT * FROM lance.`{root}`")
    assert sorted(map(str, lance_spark.open(uri).to_table().to_pylist())) == sorted(map(str, rows.to_pylist()))
    assert lance_spark.open(uri).num_partitions == 2


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
def test_create_table_like(spark: SparkSession, table: str, uri: str) -> None:
    types = {"v": pa.list_(pa.float32(), 2), "u": pa.uint8(), "d": pa.dictionary(pa.int32(), pa.string())}
    lance.write_dataset(pa.schema(list(types.items())).empty_table(), uri)
    spark.sql(f"CREATE TABLE {table}_like LIKE lance.`{uri}` TBLPROPERTIES ('team' = 'blue')")
    made = dataset(spark, f"{table}_like")
    assert {field.name: field.type for field in made.schema} == types
    assert (made.version, made.count_rows(), made.config()["team"]) == (1, 0, "blue")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('small.lance.compression' = 'zstd')")
    spark.sql(f"CREATE TABLE {table}_other LIKE {table}")
    assert dataset(spark, f"{table}_other").schema == dataset(spark, table).schema
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {table}_other LIKE {table}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table}_other LIKE lance.`{uri}`")
    spark.sql(
        f"CREATE TABLE {table}_parts (id BIGINT, k STRING, at TIMESTAMP) PARTITIONED BY (k, bucket(2, id), days(at))"
    )
    spark.sql(f"CREATE TABLE {table}_parts_too LIKE {table}_parts")
    texts = [spark.sql(f"SHOW CREATE TABLE {table}_parts{end}").first().createtab_stmt for end in ("", "_too")]
    assert len({line for text in texts for line in text.splitlines() if line.startswith("PARTITIONED BY")}) == 1
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW one_and_a AS SELECT 1 AS one, 'a' AS a")
    spark.sql(f"CREATE TABLE {table}_view LIKE one_and_a")
    assert spark.table(f"{table}_view").columns == ["one", "a"]
