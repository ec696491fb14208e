"""`blob_uri` and `blob_ingest`: values of blob columns that are objects elsewhere, referred to or copied by tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark

SIZES = {"a small.txt": 10, "middle.bin": 100_000, "large.bin": (4 << 20) + 7}


def content(name: str) -> bytes:
    return (name.encode() * (SIZES[name] // len(name) + 1))[: SIZES[name]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "objects").mkdir()
    for name in SIZES:
        (tmp_path / "objects" / name).write_bytes(content(name))
    return tmp_path / "objects"


@pytest.fixture(params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    by = " PARTITIONED BY (p)" if request.param == "partitioned" else ""
    name = f"lance.referred_{request.param}"
    spark.sql(f"CREATE TABLE {name} (id INT, p INT, img BINARY){by} TBLPROPERTIES ('img.lance.encoding' = 'blob')")
    yield name
    spark.sql(f"DROP TABLE {name}")


def uris(folder: Path) -> dict[str, str]:
    return {name: (folder / name).as_uri() for name in SIZES}


@pytest.mark.slow
def test_objects_are_copied(spark: SparkSession, table: str, folder: Path) -> None:
    found = uris(folder)
    rows = ", ".join(f"({number}, {number % 2}, blob_ingest('{uri}'))" for number, uri in enumerate(found.values()))
    spark.sql(f"INSERT INTO {table} VALUES {rows}, (7, 0, X'AB'), (8, 1, NULL)")
    spark.sql(f"INSERT INTO {table} VALUES (9, 0, blob_ingest('{found['middle.bin']}', 5, 20))")
    expected = {number: content(name) for number, name in enumerate(SIZES)}
    expected |= {7: b"\xab", 8: None, 9: content("middle.bin")[5:25]}
    read = spark.sql(f"SELECT id, img.kind, lance_read_blob(img) AS data FROM {table}").collect()
    assert {row.id: None if row.data is None else bytes(row.data) for row in read} == expected
    assert {row.id: row.kind for row in read} == {0: 0, 1: 1, 2: 2, 7: 0, 8: None, 9: 0}
    for path in folder.iterdir():
        path.unlink()  # The table has its own copies.
    assert (
        spark.sql(f"SELECT sum(length(lance_read_blob(img))) FROM {table}").collect()[0][0] == sum(SIZES.values()) + 21
    )


def test_objects_are_referred_to(spark: SparkSession, table: str, folder: Path) -> None:
    found = uris(folder)
    spark.sql(
        f"INSERT INTO {table} VALUES (1, 1, blob_uri('{found['large.bin']}')), "
        f"(2, 1, lance.blob_uri('{found['middle.bin']}', 10, 30L)), (3, 1, X'01')"
    )
    rows = spark.sql(f"SELECT id, img.kind, img.position, img.size, img.blob_uri FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [
        (1, 3, 0, 0, found["large.bin"]),
        (2, 3, 10, 30, found["middle.bin"]),
        (3, 0, 0, 1, ""),
    ]
    if "plain" in table:
        uri = str(spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first().data_type)  # type: ignore[union-attr]
        ours = lance_spark.open(uri).read_blobs("img", indices=[0, 1], allow_external_blobs=True)
        assert sorted(len(value or b"") for _, value in ours) == [30, SIZES["large.bin"]]
        theirs = lance.dataset(uri).to_table(columns=["img"])["img"].to_pylist()
        assert sorted(row["kind"] for row in theirs) == [0, 3, 3]


def test_many_files_of_a_folder(spark: SparkSession, table: str, folder: Path) -> None:
    for number in range(150):
        (folder / f"a b {number}.dat").write_bytes(b"%d" % number * 40)
    files = spark.read.format("binaryFile").option("pathGlobFilter", "*.dat").load(str(folder)).drop("content")
    files.createOrReplaceTempView("files")
    spark.sql(
        f"INSERT INTO {table} SELECT CAST(regexp_extract(path, '([0-9]+).dat', 1) AS INT) AS id, 3, blob_ingest(path) "
        "FROM files"
    )
    read = spark.sql(f"SELECT id, lance_read_blob(img) AS data FROM {table}").collect()
    assert {row.id: bytes(row.data) for row in read} == {number: b"%d" % number * 40 for number in range(150)}


@pytest.mark.slow
def test_objects_are_copied_by_streams(spark: SparkSession, table: str, folder: Path, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE lance.to_copy (id INT, uri STRING)")
    rows = ", ".join(f"({number}, '{uri}')" for number, uri in enumerate(uris(folder).values()))
    spark.sql(f"INSERT INTO lance.to_copy VALUES {rows}")
    read = spark.readStream.table("lance.to_copy").selectExpr("id", "1 AS p", "blob_ingest(uri) AS img")
    for options in ({}, {"key": "id"}):
        write = read.writeStream.options(**options).option("checkpointLocation", str(tmp_path / f"c{len(options)}"))
        write.trigger(availableNow=True).toTable(table).awaitTermination()
        found = spark.sql(f"SELECT id, lance_read_blob(img) AS data FROM {table}").collect()
        assert {row.id: bytes(row.data) for row in found} == {n: content(name) for n, name in enumerate(SIZES)}
        assert len(found) == len(SIZES)
    spark.sql("DROP TABLE lance.to_copy")


@pytest.mark.slow
def test_rows_are_updated_and_merged_from_objects(spark: SparkSession, table: str, folder: Path) -> None:
    found = uris(folder)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lance.blob_handling' = 'binary')")
    # More rows than references are resolved for at once, in two partitions.
    spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), CAST(id % 2 AS INT), X'01' FROM range(200)")
    expected = dict.fromkeys(range(200), b"\x01")
    spark.sql(f"UPDATE {table} SET img = blob_ingest('{found['middle.bin']}', id, 10) WHERE id BETWEEN 20 AND 169")
    expected |= {number: content("middle.bin")[number : number + 10] for number in range(20, 170)}
    spark.sql(f"UPDATE {table} SET img = if(id = 7, blob_ingest('{found['large.bin']}'), X'02') WHERE id < 10")
    expected |= dict.fromkeys(range(10), b"\x02") | {7: content("large.bin")}

    def values() -> dict[int, bytes]:
        rows = spark.table(table).select("id", "img").collect()
        assert len(rows) == len(expected)
        return {row.id: bytes(row.img) for row in rows}

    assert values() == expected
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM VALUES (5, '{found['a small.txt']}'), "
        f"(1000, '{found['middle.bin']}') AS s(id, uri)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET img = blob_ingest(s.uri) "
        "WHEN NOT MATCHED THEN INSERT (id, p, img) VALUES (s.id, 1, blob_ingest(s.uri))"
    )
    expected |= {5: content("a small.txt"), 1000: content("middle.bin")}
    assert values() == expected
    spark.sql(f"UPDATE {table} SET img = blob_uri('{found['middle.bin']}', 3, 4) WHERE id = 1000")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lance.blob_handling' = 'descriptions')")
    (row,) = spark.sql(f"SELECT img.kind, img.position, img.size, img.blob_uri FROM {table} WHERE id = 1000").collect()
    assert tuple(row) == (3, 3, 4, found["middle.bin"])


def test_what_is_refused(spark: SparkSession, table: str, folder: Path) -> None:
    uri = uris(folder)["middle.bin"]
    for value, message in {
        f"blob_ingest('{uri}', 99999, 2)": "has 100000 bytes",
        f"blob_ingest('{uri}', -id, 2) FROM range(1, 2)": "offset of 0 or more",
        "blob_ingest('nothing.txt')": "no absolute URI",
        f"blob_ingest('{uri}.none')": "none",
        "blob_uri('relative')": "no absolute URI",
    }.items():
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"INSERT INTO {table} SELECT 1, 1, {value}")
    for call in ("blob_uri()", "blob_uri(5)", f"blob_uri('{uri}', 1)"):
        with pytest.raises(PySparkException, match="use it as blob_uri"):
            spark.sql(f"INSERT INTO {table} VALUES (1, 1, {call})")
    spark.sql("CREATE TABLE lance.no_blobs (id INT, img BINARY)")
    with pytest.raises(PySparkException, match="is no blob column"):
        spark.sql(f"INSERT INTO lance.no_blobs VALUES (1, blob_uri('{uri}'))")
    with pytest.raises(PySparkException, match="is no blob column"):
        spark.sql(f"CREATE TABLE lance.nested AS SELECT 1 AS id, array(named_struct('b', blob_uri('{uri}'))) AS a")
    spark.sql("INSERT INTO lance.no_blobs VALUES (1, X'00')")
    spark.sql(f"CREATE TEMP VIEW more AS SELECT _rowaddr, blob_uri('{uri}') AS more FROM lance.no_blobs")
    with pytest.raises(PySparkException, match="is no blob column"):
        spark.sql("CALL lance.system.add_columns_from(table => 'no_blobs', source => 'more', columns => array('more'))")
    spark.sql("DROP VIEW more")
    spark.sql("DROP TABLE lance.no_blobs")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lance.blob_handling' = 'binary')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1, X'01')")
    with pytest.raises(PySparkException, match="none"):
        spark.sql(f"UPDATE {table} SET img = blob_ingest('{uri}.none')")
    assert spark.sql(f"SELECT hex(img) FROM {table}").collect() == [("01",)]
