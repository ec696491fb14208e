"""Blobs that SQL, DataFrames and streams copy: tasks copy the bytes, and the column stays a blob column."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import blob_field
from tests.support.moto import S3Bucket

VALUES = {1: b"\x01\x02", 2: None, 3: b"x" * 100_000, 4: b"", 5: b"y" * 300_000}
"""Inline, null, packed, empty and dedicated, with the borders below."""
SHAPE = "'img.lance.encoding' = 'blob', 'img.lance.blob.inline-size' = '10', 'img.lance.blob.dedicated-size' = '200000'"
PLAIN_AND_PARTITIONED = pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])


def written(uri: str, version: str = "2.2", first: int = 0) -> str:
    img = blob_field("img", inline_size_threshold=10, dedicated_size_threshold=200_000)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("k", pa.string()), img])
    columns = {
        "id": [first + number for number in VALUES],
        "k": ["ab"[number % 2] for number in VALUES],
        "img": [*VALUES.values()],
    }
    lance_spark.write(pa.table(columns, schema=schema), uri, file_format_version=version)
    return uri


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def of_each_version(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> tuple[Path, str]:
    """The folder of a table with files of a version, and the view of it."""
    return viewed(spark, tmp_path / "source", request.param)


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> tuple[Path, str]:
    """The folder of a table with files of 2.2, and the view of it."""
    return viewed(spark, tmp_path / "source", "2.2")


def viewed(spark: SparkSession, folder: Path, version: str) -> tuple[Path, str]:
    name = f"copied_{uuid.uuid4().hex[:8]}"
    spark.read.format("lance").load(written(str(folder), version)).createOrReplaceTempView(name)
    return folder, name


@pytest.fixture
def names(spark: SparkSession) -> Iterator[list[str]]:
    """Names of tables that are dropped after the test."""
    made = [f"lance.copies_{uuid.uuid4().hex[:8]}_{number}" for number in range(3)]
    yield made
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def created(spark: SparkSession, name: str, by: str = "", *properties: str) -> str:
    shape = ", ".join((SHAPE, *properties))
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k STRING, img BINARY) {by} TBLPROPERTIES ({shape})")
    return name


def bytes_of(frame: DataFrame) -> dict[int, bytes | None]:
    """The values by id. Fails where the column is no blob column, or a row is there twice."""
    rows = frame.selectExpr("id", "lance_read_blob(img) AS data").collect()
    found = {row.id: None if row.data is None else bytes(row.data) for row in rows}
    assert len(found) == len(rows)
    return found


def location(spark: SparkSession, table: str) -> str:
    row = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").first()
    assert row is not None
    return str(row.data_type).removeprefix("file:")


def read_by_reference(uri: str) -> dict[int, bytes | None]:
    rows = lance.dataset(uri).scanner(blob_handling="all_binary").to_table().to_pylist()
    return {row["id"]: row["img"] for row in rows}


@pytest.mark.slow
@PLAIN_AND_PARTITIONED
def test_inserted_copies_outlive_their_source(
    spark: SparkSession, of_each_version: tuple[Path, str], names: list[str], by: str
) -> None:
    folder, view = of_each_version
    table = created(spark, names[0], by)
    spark.sql(f"INSERT INTO {table} SELECT * FROM {view}")
    shutil.rmtree(folder)
    assert bytes_of(spark.table(table)) == VALUES
    kinds = {row.id: row.kind for row in spark.sql(f"SELECT id, img.kind FROM {table}").collect()}
    assert kinds == {1: 0, 2: None, 3: 1, 4: 0, 5: 2}
    if not by:
        assert read_by_reference(location(spark, table)) == VALUES
    # From table to table of one catalog; rows of one partition come to others.
    other = created(spark, names[1], by, "'file_format_version' = '2.0'")
    spark.sql(f"INSERT INTO {other} SELECT id, concat(k, 'z') AS k, img FROM {table}")
    spark.sql(f"DROP TABLE {table}")
    assert bytes_of(spark.table(other)) == VALUES


@pytest.mark.slow
@PLAIN_AND_PARTITIONED
def test_references_travel_with_their_rows(
    spark: SparkSession, source: tuple[Path, str], names: list[str], tmp_path: Path, by: str
) -> None:
    _, view = source
    second = f"{view}_second"
    spark.read.format("lance").load(written(str(tmp_path / "second"), "2.1", first=10)).createTempView(second)
    table = created(spark, names[0], by)
    both = {**VALUES, **{number + 10: value for number, value in VALUES.items()}}
    filled: dict[int, bytes | None] = {number: value for number, value in VALUES.items() if value}
    queries: dict[str, dict[int, bytes | None]] = {
        f"SELECT * FROM {view} UNION ALL SELECT * FROM {second}": both,
        f"SELECT a.id, b.k, b.img FROM {view} a JOIN {second} b ON a.id = b.id - 10": VALUES,
        f"SELECT id, k, p AS img FROM (SELECT img AS p, k, id FROM {view} WHERE img.size > 0 SORT BY id)": filled,
        f"SELECT /*+ REPARTITION(3, id) */ * FROM {view} ORDER BY img.size DESC LIMIT 2": {3: VALUES[3], 5: VALUES[5]},
        f"SELECT max(id) AS id, k, max_by(img, id) AS img FROM {view} GROUP BY k": {4: b"", 5: VALUES[5]},
        f"SELECT id, k, if(id = 3, NULL, coalesce(img, NULL)) AS img FROM {view}": {**VALUES, 3: None},
        f"WITH t AS (SELECT * FROM {view}) SELECT DISTINCT * FROM t": VALUES,
    }
    for query, expected in queries.items():
        spark.sql(f"INSERT OVERWRITE {table} {query}")
        assert bytes_of(spark.table(table)) == expected, query
    frame = spark.table(view).persist()
    frame.writeTo(table).overwritePartitions()
    frame.unpersist()
    spark.createDataFrame(spark.table(second).collect(), spark.table(second).schema).writeTo(table).append()
    assert bytes_of(spark.table(table)) == both


@pytest.mark.slow
@PLAIN_AND_PARTITIONED
def test_columns_of_a_target_take_bytes_or_descriptions(
    spark: SparkSession, source: tuple[Path, str], names: list[str], by: str
) -> None:
    _, view = source
    table = names[0]
    more = f"{SHAPE}, 'other.lance.encoding' = 'blob'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k STRING, img BINARY, other BINARY) {by} TBLPROPERTIES ({more})")
    spark.sql(f"INSERT INTO {table} SELECT id, k, img, X'0A' FROM {view}")
    spark.sql(f"INSERT INTO {table} BY NAME SELECT img AS OTHER, id + 10 AS id FROM {view}")
    spark.sql(f"INSERT INTO {table} (other, id) SELECT img, id + 20 FROM {view}")
    spark.sql(f"INSERT INTO {table} VALUES (31, DEFAULT, X'0B', DEFAULT)")
    spark.sql(f"INSERT INTO {table} SELECT 32, DEFAULT, X'0C', img FROM {view} WHERE id = 1")
    rows = spark.sql(f"SELECT id, lance_read_blob(img) AS img, lance_read_blob(other) AS other FROM {table}").collect()
    found = {row.id: (row.img and bytes(row.img), row.other and bytes(row.other)) for row in rows}
    expected: dict[int, tuple[bytes | None, bytes | None]] = {n: (value, b"\n") for n, value in VALUES.items()}
    expected |= {number + add: (None, value) for number, value in VALUES.items() for add in (10, 20)}
    assert found == expected | {31: (b"\x0b", None), 32: (b"\x0c", VALUES[1])}
    for values in (f"SELECT id, k, img.size, img FROM {view}", f"SELECT img, k, img, img FROM {view}"):
        with pytest.raises(PySparkException, match="CANNOT_SAFELY_CAST"):
            spark.sql(f"INSERT INTO {table} {values}")


@pytest.mark.slow
@PLAIN_AND_PARTITIONED
def test_columns_of_new_tables_are_blobs(
    spark: SparkSession, of_each_version: tuple[Path, str], names: list[str], tmp_path: Path, by: str
) -> None:
    folder, view = of_each_version
    table, second, third = names
    spark.sql(f"CREATE TABLE {table} {by} AS SELECT * FROM {view}")
    frame = spark.table(view)
    writer = frame.writeTo(second)
    (writer.partitionedBy("k") if by else writer).create()
    path = str(tmp_path / "by path")
    saved = frame.write.format("lance")
    (saved.partitionBy("k") if by else saved).save(path)
    frame.write.format("lance").mode("append").save(path)
    shutil.rmtree(folder)
    assert bytes_of(spark.table(table)) == bytes_of(spark.table(second)) == VALUES
    rows = spark.read.format("lance").load(path).selectExpr("id", "lance_read_blob(img) AS data").collect()
    twice = [(number, value) for number, value in VALUES.items() for _ in range(2)]
    found = [(row.id, None if row.data is None else bytes(row.data)) for row in rows]
    assert sorted(found, key=lambda row: row[0]) == twice
    spark.sql(f"CREATE OR REPLACE TABLE {table} {by} AS SELECT id, img, k FROM {table} WHERE id > 2")
    spark.sql(f"CREATE TABLE {third} {by} TBLPROPERTIES ('img.lance.encoding' = 'blob') AS SELECT * FROM {table}")
    spark.sql(f"DROP TABLE {table}")
    assert bytes_of(spark.table(third)) == {number: value for number, value in VALUES.items() if number > 2}


@pytest.mark.slow
@PLAIN_AND_PARTITIONED
def test_rows_are_merged_with_their_blobs(
    spark: SparkSession, of_each_version: tuple[Path, str], names: list[str], by: str
) -> None:
    folder, view = of_each_version
    table = created(spark, names[0], by)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'b', X'FF'), (2, 'a', X'FF'), (7, 'a', X'07'), (8, 'b', NULL)")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM {view} WHERE id < 5) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(f"MERGE INTO {table} t USING {view} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    spark.sql(f"MERGE INTO {table} t USING {view} s ON t.id = s.id + 7 WHEN MATCHED THEN UPDATE SET img = s.img")
    spark.sql(f"UPDATE {table} SET k = concat(k, 'z'), id = id + 20 WHERE id > 2")
    shutil.rmtree(folder)
    expected = {1: VALUES[1], 2: None, 27: b"\x07", 28: VALUES[1], **{n + 20: VALUES[n] for n in (3, 4, 5)}}
    assert bytes_of(spark.table(table)) == expected
    if not by:
        assert read_by_reference(location(spark, table)) == expected


@pytest.mark.slow
@PLAIN_AND_PARTITIONED
def test_streams_copy_blobs(
    spark: SparkSession, of_each_version: tuple[Path, str], names: list[str], tmp_path: Path, by: str
) -> None:
    folder, _ = of_each_version
    tables = [created(spark, name, by) for name in names[:2]]

    def run(to: str, number: int, reading: dict[str, str], writing: dict[str, str]) -> None:
        read = spark.readStream.format("lance").options(**reading).load(str(folder)).select("id", "k", "img")
        write = read.writeStream.options(**writing).option("checkpointLocation", str(tmp_path / f"c{number}"))
        write.trigger(availableNow=True).toTable(to).awaitTermination()

    run(tables[0], 0, {}, {})
    run(tables[0], 1, {}, {"key": "id"})
    run(tables[1], 2, {"readChangeFeed": "true", "startingVersion": "1"}, {})
    run(names[2], 3, {}, {})
    shutil.rmtree(folder)
    for table in names:
        assert bytes_of(spark.table(table)) == VALUES


@pytest.mark.slow
@PLAIN_AND_PARTITIONED
def test_changes_are_copied(spark: SparkSession, names: list[str], by: str) -> None:
    table, other, third = created(spark, names[0], by), created(spark, names[1], by), names[2]
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', X'01'), (2, 'b', CAST(repeat('x', 100) AS BINARY))")
    spark.sql(f"UPDATE {table} SET k = 'c' WHERE id = 2")
    changes = f"SELECT id, k, img FROM lance_changes('{table}', 1) WHERE _change_type IN ('insert', 'update_postimage')"
    spark.sql(f"INSERT INTO {other} SELECT * FROM ({changes}) WHERE k <> 'b'")
    spark.sql(f"CREATE TABLE {third} AS SELECT * FROM ({changes}) WHERE k <> 'c'")
    spark.sql(f"DROP TABLE {table}")
    for copy in (other, third):
        assert bytes_of(spark.table(copy)) == {1: b"\x01", 2: b"x" * 100}


@pytest.mark.slow
def test_bytes_are_copied_between_stores_with_their_own_options(
    spark: SparkSession, source: tuple[Path, str], names: list[str], s3_bucket: S3Bucket
) -> None:
    folder, view = source
    remote, options = s3_bucket.folder(), {f"storage.{key}": item for key, item in s3_bucket.storage_options.items()}
    spark.table(view).write.format("lance").options(**options).save(remote)
    shutil.rmtree(folder)
    frame = spark.read.format("lance").options(**options).load(remote)
    assert bytes_of(frame) == VALUES
    table = created(spark, names[0])
    frame.writeTo(table).append()
    assert bytes_of(spark.table(table)) == VALUES
    frame.limit(0).createOrReplaceTempView("of_s3")
    frame.createOrReplaceTempView("of_s3")
    spark.sql(
        f"MERGE INTO {table} t USING of_s3 s ON t.id = s.id + 10 WHEN NOT MATCHED THEN INSERT (id, img) "
        "VALUES (s.id + 10, s.img)"
    )
    spark.sql("DROP VIEW of_s3")
    assert bytes_of(spark.table(table)) == {**VALUES, **{number + 10: value for number, value in VALUES.items()}}


@pytest.mark.slow
def test_references_are_copied_as_references(spark: SparkSession, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "object").write_bytes(b"0123456789")
    table, other = created(spark, names[0]), created(spark, names[1], "PARTITIONED BY (k)")
    uri = (tmp_path / "object").as_uri()
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', blob_uri('{uri}', 2, 3)), (2, 'b', blob_ingest('{uri}'))")
    spark.sql(f"INSERT INTO {other} SELECT * FROM {table}")
    rows = spark.sql(f"SELECT img.kind, img.position, img.size, img.blob_uri FROM {other} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(3, 2, 3, uri), (0, rows[1].position, 10, "")]


def test_blobs_below_structs_are_copied(spark: SparkSession, source: tuple[Path, str], names: list[str]) -> None:
    folder, view = source
    table, other, _ = names
    spark.sql(f"CREATE TABLE {table} AS SELECT id, named_struct('n', id, 'img', img) AS s FROM {view}")
    spark.sql(f"CREATE TABLE {other} AS SELECT * FROM {table} LIMIT 0")
    spark.sql(f"INSERT INTO {other} SELECT * FROM {table}")
    shutil.rmtree(folder)
    spark.sql(f"DROP TABLE {table}")
    found = lance_spark.open(location(spark, other)).to_table(blob_handling="all_binary").to_pylist()
    assert {row["id"]: row["s"]["img"] for row in found} == VALUES


@pytest.mark.slow
def test_descriptions_without_their_bytes_are_refused(
    spark: SparkSession, source: tuple[Path, str], names: list[str]
) -> None:
    _, view = source
    table = created(spark, names[0])
    for query, problem in {
        "SELECT array(img) AS a": "in arrays or maps",
        "SELECT collect_list(named_struct('img', img)) AS a": "in arrays or maps",
        "SELECT map('m', img) AS a": "in arrays or maps",
        "SELECT named_struct('kind', img.kind, 'position', img.position, 'size', img.size, 'blob_id', img.blob_id, "
        "'blob_uri', img.blob_uri) AS a": "do not say where their bytes are",
    }.items():
        with pytest.raises(PySparkException, match=problem):
            spark.sql(f"CREATE TABLE {names[1]} AS {query} FROM {view}")
        assert not spark.catalog.tableExists(names[1])
    spark.sql(f"CREATE TABLE {names[1]} AS SELECT id, img.size, named_struct('n', img.size) AS s FROM {view}")
    spark.sql(f"CREATE TABLE {names[2]} AS SELECT id FROM {view}")
    spark.sql(
        f"CREATE TEMP VIEW more AS SELECT t._rowaddr, v.img AS more FROM {names[2]} t JOIN {view} v ON t.id = v.id"
    )
    short = names[2].removeprefix("lance.")
    with pytest.raises(PySparkException, match="writes no blob columns"):
        spark.sql(f"CALL lance.system.add_columns_from(table => '{short}', source => 'more', columns => array('more'))")
    spark.sql("DROP VIEW more")
    # Data that looks like a description is none: here for a file of the target's own, and for any other place.
    spark.sql(f"INSERT INTO {table} SELECT * FROM {view}")
    row = spark.sql(f"SELECT img FROM {table} WHERE id = 3").first()
    assert row is not None
    signature, root, folder, plain = row.img.source.split(" ", 3)
    for forged in (
        plain,
        f"{signature} /etc {folder} {plain}",
        f"{signature} {root} /etc {plain}",
        f"{signature} {root} {folder} :../../secret",
        f"@ {root} {folder} {plain}",
        f"@é {root} {folder} {plain}",
        "@",
    ):
        for kind in (0, 3):
            described = (kind, *row.img[1:4], "file:///etc/passwd", forged)
            rows = spark.createDataFrame([(9, "k", described)], spark.table(view).schema)
            with pytest.raises(PySparkException, match=r"(description|source) of a blob"):
                rows.writeTo(table).append()
    assert bytes_of(spark.table(table)) == VALUES
