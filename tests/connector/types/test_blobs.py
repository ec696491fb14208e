"""Blob columns in SQL and DataFrames."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

SMALL, BIG = b"\x01\x02", b"x" * 100_000
SHAPE = "'img.lance.encoding' = 'blob', 'img.lance.blob.inline-size' = '10', 'img.lance.blob.dedicated-size' = '200000'"


def values(spark: SparkSession, table: str) -> dict[int, bytes | None]:
    location = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").first()
    assert location is not None
    rows = spark.read.format("lance").option("blob_handling", "binary").load(location.data_type).collect()
    return {row.id: None if row.img is None else bytes(row.img) for row in rows}


def created(spark: SparkSession, by: str, *properties: str) -> str:
    table = f"lance.blobs_{uuid.uuid4().hex[:8]}"
    shape = ", ".join((SHAPE, *properties))
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k STRING, img BINARY) {by} TBLPROPERTIES ({shape})")
    big = "CAST(repeat('x', 100000) AS BINARY)"
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', X'0102'), (2, 'a', NULL), (3, 'b', {big})")
    return table


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def test_descriptions_are_read_filtered_and_moved_with_their_bytes(spark: SparkSession, by: str) -> None:
    table = created(spark, by)
    assert spark.sql(f"SELECT img.size, img.kind FROM {table} WHERE img.size > 10").collect() == [(len(BIG), 1)]
    assert [row.id for row in spark.sql(f"SELECT id FROM {table} WHERE img IS NULL").collect()] == [2]
    spark.sql(f"UPDATE {table} SET k = 'z', id = id + 10 WHERE img IS NOT NULL")
    assert values(spark, table) == {11: SMALL, 2: None, 13: BIG}
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 13 AS id UNION ALL SELECT 20) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET id = 33 WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 'n')"
    )
    spark.sql(f"DELETE FROM {table} WHERE img.size = 2")
    spark.createDataFrame([(7, "a", bytearray(b"frame"))], "id long, k string, img binary").writeTo(table).append()
    spark.sql(f"OPTIMIZE {table}")
    assert values(spark, table) == {2: None, 33: BIG, 20: None, 7: b"frame"}
    # Bytes are no description.
    with pytest.raises(AnalysisException, match="CANNOT_SAFELY_CAST"):
        spark.sql(f"UPDATE {table} SET img = X'01'")
    with pytest.raises(PySparkException, match=r"property lance\.blob_handling"):
        spark.read.option("blob_handling", "binary").table(table).collect()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def test_columns_shown_as_binary(spark: SparkSession, by: str) -> None:
    table = created(spark, by, "'lance.blob_handling' = 'binary'")
    assert spark.table(table).schema["img"].dataType.simpleString() == "binary"
    spark.sql(f"UPDATE {table} SET img = concat(img, X'ff') WHERE id = 1")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 2 AS id, 'a' AS k, X'0a' AS img UNION ALL SELECT 9, 'c', X'0b') s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    expected = {1: SMALL + b"\xff", 2: b"\x0a", 3: BIG, 9: b"\x0b"}
    assert {row.id: bytes(row.img) for row in spark.table(table).collect()} == expected
    found = spark.sql(f"SELECT id, img FROM {table} WHERE length(img) < 100000 ORDER BY id DESC LIMIT 2").collect()
    assert [(row.id, bytes(row.img)) for row in found] == [(9, b"\x0b"), (2, b"\x0a")]
    assert spark.sql(f"SELECT id FROM {table} WHERE img = X'0b'").collect() == [(9,)]
    assert spark.sql(f"SELECT count(img), max(length(img)) FROM {table}").collect() == [(4, len(BIG))]
    copy = created(spark, by)
    spark.sql(f"INSERT OVERWRITE {copy} SELECT * FROM {table}")
    assert values(spark, copy) == expected


def test_tables_by_path_are_read_by_pylance(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rows = spark.sql("SELECT 1L AS id, X'0102' AS img UNION ALL SELECT 2L, CAST(repeat('x', 100000) AS BINARY)")
    rows.write.format("lance").option("img.lance.encoding", "blob").save(uri)
    rows.write.format("lance").mode("append").save(uri)
    found = lance.dataset(uri).scanner(blob_handling="all_binary").to_table().to_pylist()
    assert sorted((row["id"], row["img"]) for row in found) == [(1, SMALL), (1, SMALL), (2, BIG), (2, BIG)]
    # The column keeps its form when its rows are replaced.
    rows.write.format("lance").mode("overwrite").save(uri)
    assert sorted(row["img"]["kind"] for row in lance.dataset(uri).to_table().to_pylist()) == [0, 1]
    with pytest.raises(AnalysisException, match="descriptions or binary"):
        spark.read.format("lance").option("blob_handling", "bytes").load(uri)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def test_bytes_are_read_by_a_function_and_by_a_metadata_column(spark: SparkSession, by: str) -> None:
    table = created(spark, by)
    found = spark.sql(f"SELECT id, img.size, lance_read_blob(img) AS bytes FROM {table} ORDER BY id").collect()
    assert [(row.id, row.size, row.bytes and bytes(row.bytes)) for row in found] == [
        (1, 2, SMALL),
        (2, None, None),
        (3, len(BIG), BIG),
    ]
    # Of values that a filter leaves, through joins, aggregates and metadata columns of other kinds.
    joined = spark.sql(
        f"SELECT t.id, t._rowaddr, t.img.kind, lance_read_blob(t.img, 0, 3) AS head FROM {table} t JOIN {table} o "
        "ON t.id = o.id WHERE o.img.size > 2"
    ).collect()
    assert [(row.id, row.kind, bytes(row.head)) for row in joined] == [(3, 1, b"xxx")]
    assert spark.sql(f"SELECT max(length(lance_read_blob(img))) FROM {table}").collect() == [(len(BIG),)]
    assert spark.sql(f"SELECT id FROM {table} WHERE lance_read_blob(img) = X'0102'").collect() == [(1,)]
    assert bytes(spark.sql(f"SELECT img__blob_bytes FROM {table} WHERE id = 1").collect()[0][0]) == SMALL
    assert "img__blob_bytes" not in spark.table(table).columns
    parts = f"lance_read_blob(img, {{}}, 2) FROM {table} WHERE id = 1"
    assert [spark.sql(f"SELECT {parts.format(offset)}").collect()[0][0] for offset in (0, 1, 2)] == [
        SMALL,
        SMALL[1:],
        b"",
    ]
    large = f"SELECT id FROM {table} WHERE length(lance_read_blob(img)) > 2"
    spark.sql(f"UPDATE {table} SET k = 'u' WHERE id IN ({large})")
    assert values(spark, table) == {1: SMALL, 2: None, 3: BIG}
    assert spark.sql(f"SELECT id FROM {table} WHERE k = 'u'").collect() == [(3,)]
    copy = created(spark, by)
    spark.sql(f"INSERT OVERWRITE {copy} SELECT id, k, lance_read_blob(img) AS img FROM {table}")
    assert values(spark, copy) == {1: SMALL, 2: None, 3: BIG}
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lance.blob_handling' = 'binary')")
    assert bytes(spark.sql(f"SELECT lance_read_blob(img, 1, 9) FROM {table} WHERE id = 1").collect()[0][0]) == SMALL[1:]
    assert spark.sql("SHOW FUNCTIONS LIKE 'lance_read_blob'").count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def test_offset_and_length_are_columns(spark: SparkSession, by: str) -> None:
    table = created(spark, by)
    for call in ("lance_read_blob(img, id - 1, 2 * id)", "lance_read_blob(t.img, t.id - 1, 2 * t.id)"):
        rows = spark.sql(f"SELECT id, {call} AS part FROM {table} t").collect()
        assert {row.id: row.part and bytes(row.part) for row in rows} == {1: SMALL[:2], 2: None, 3: BIG[2:8]}
    boxes = "(VALUES (1, 0, 1), (3, 2, 6)) AS box(id, first, size)"
    rows = spark.sql(
        f"SELECT t.id, lance_read_blob(t.img, box.first, box.size) AS part FROM {table} t JOIN {boxes} ON t.id = box.id"
    ).collect()
    assert {row.id: bytes(row.part) for row in rows} == {1: SMALL[:1], 3: BIG[2:8]}


@pytest.mark.slow
def test_read_blob_refuses_other_columns_and_negative_offsets(spark: SparkSession) -> None:
    table = created(spark, "")
    for arguments, problem in (
        ("id", "takes a blob column of a Lance table"),
        ("img.size", "takes a blob column of a Lance table"),
        ("img, 3", "takes a blob column, or a blob column, an offset and a length"),
        ("img, -1, 3", "takes an offset and a length of 0 or more"),
        ("img, 0, -3", "takes an offset and a length of 0 or more"),
    ):
        with pytest.raises(PySparkException, match=problem):
            spark.sql(f"SELECT lance_read_blob({arguments}) FROM {table}").collect()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def test_only_the_used_part_of_a_blob_is_read(spark: SparkSession, tmp_path: Path, by: str) -> None:
    table = created(spark, by)
    location = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").first()
    assert location is not None
    parts = f"SELECT substring(img__blob_bytes, 2, 2) AS v FROM {table} ORDER BY id"
    mixed = f"SELECT id FROM {table} WHERE substring(img__blob_bytes, 2, 2) = 'xx' AND img__blob_bytes > X'00'"
    for enabled in ("false", "true"):
        spark.conf.set("spark.sql.lance.binaryRanges.enabled", enabled)
        assert spark.sql(parts).collect() == [(b"\x02",), (None,), (b"xx",)]
        assert spark.sql(mixed).collect() == [(3,)]
    spark.conf.unset("spark.sql.lance.binaryRanges.enabled")
    (sidecar,) = Path(location.data_type.removeprefix("file:")).rglob("*.blob")
    os.truncate(sidecar, 5000)  # A read of more than the first 5000 bytes of the value fails.
    queries: dict[str, list[object]] = {
        "SELECT hex(lance_read_blob(img, 0, 2)) AS v FROM {t} WHERE id = 3": ["7878"],
        "SELECT substring(lance_read_blob(img), 4000, 3) AS v FROM {t} WHERE id = 3": [b"xxx"],
        "SELECT concat(lance_read_blob(img, 1, 7), lance_read_blob(img, 990, 4)) AS v FROM {t} ORDER BY id": [
            b"\x02",
            None,
            b"x" * 11,
        ],
        "SELECT lance_read_blob(t.img, 1, 4) AS v FROM {t} t JOIN {t} o ON t.id = o.id "
        "WHERE lance_read_blob(o.img, 0, 1) > X'00' ORDER BY t.id": [b"\x02", b"xxxx"],
        "SELECT max(length(lance_read_blob(img, 3, 40))) AS v FROM {t}": [40],
        "SELECT count(*) AS v FROM {t} GROUP BY lance_read_blob(img, 1, 1) ORDER BY 1": [1, 1, 1],
    }
    for query, expected in queries.items():
        assert [row.v for row in spark.sql(query.format(t=table)).collect()] == expected, query
    for whole in (
        "lance_read_blob(img)",
        "lance_read_blob(img, 0, 2), lance_read_blob(img)",
        "lance_read_blob(img, 0, id)",
    ):
        with pytest.raises(PySparkException, match="blob"):
            spark.sql(f"SELECT {whole} FROM {table} WHERE id = 3").collect()
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lance.blob_handling' = 'binary')")
    found = spark.sql(f"SELECT substring(img, 2, 2) AS v FROM {table} ORDER BY id").collect()
    assert found == [(b"\x02",), (None,), (b"xx",)]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_in_files_of_old_versions(spark: SparkSession, version: str, by: str) -> None:
    table = f"lance.old_blobs_{version.replace('.', '_')}{'_p' if by else ''}"
    spark.sql(
        f"CREATE TABLE {table} (id INT, k INT, img BINARY) {by} "
        f"TBLPROPERTIES ('img.lance.encoding' = 'blob', 'file_format_version' = '{version}')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 0, X'0102'), (2, 1, NULL), (3, 0, CAST(repeat('x', 70000) AS BINARY))")
    where = spark.sql(f"SELECT id, img__blob_size, img__blob_pos FROM {table} ORDER BY id").collect()
    assert [row.img__blob_size for row in where] == [2, None, 70000]
    assert [row.img__blob_pos is None for row in where] == [False, True, False]
    spark.sql(f"UPDATE {table} SET id = id + 10 WHERE img.size > 10")
    here = Path(__file__)
    spark.sql(f"INSERT INTO {table} SELECT 4, 0, blob_ingest('{here.as_uri()}')")
    expected = [(1, b"\x01\x02"), (2, None), (4, here.read_bytes()), (13, b"x" * 70000)]
    query = f"SELECT id, lance_read_blob(img) AS v FROM {table} ORDER BY id"
    assert [tuple(row) for row in spark.sql(query).collect()] == expected
    spark.sql(f"CALL lance.system.upgrade_files('{table.removeprefix('lance.')}', '2.2')")
    assert [tuple(row) for row in spark.sql(query).collect()] == expected
    assert "img__blob_size" not in spark.table(table).columns
    spark.sql(f"INSERT INTO {table} VALUES (5, 3, X'05')")
    assert spark.sql(f"SELECT hex(lance_read_blob(img)) FROM {table} WHERE id = 5").collect() == [("05",)]
    spark.sql(f"DROP TABLE {table}")
