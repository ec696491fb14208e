"""GEOMETRY and GEOGRAPHY columns: `geoarrow.wkb` in the table, the same values and types back in Spark."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import lance_spark

pytestmark = pytest.mark.since("4.3", "columns of GEOMETRY and GEOGRAPHY")


def point(x: float, y: float) -> bytes:
    return struct.pack("<BIdd", 1, 1, x, y)


def sql_point(x: float, y: float, srid: int = 4326) -> str:
    return f"st_geomfromwkb(X'{point(x, y).hex()}', {srid})"


COLUMNS = (
    "id BIGINT, g GEOMETRY(4326), m GEOMETRY(3857), z GEOMETRY(0), w GEOGRAPHY(4326), "
    "s STRUCT<g: GEOMETRY(4326), x: INT>, a ARRAY<GEOMETRY(4326)>, p MAP<STRING, GEOGRAPHY(4326)>"
)
ROW = (
    f"1L AS id, {sql_point(1, 2)} AS g, {sql_point(3, 4, 3857)} AS m, {sql_point(5, 6, 0)} AS z, "
    f"st_geogfromwkb(X'{point(7, 8).hex()}') AS w, named_struct('g', {sql_point(1, 2)}, 'x', 1) AS s, "
    f"array({sql_point(1, 2)}, NULL) AS a, map('k', st_geogfromwkb(X'{point(7, 8).hex()}')) AS p"
)
READ = (
    "SELECT hex(st_asbinary(g)) AS g, st_srid(m) AS m, hex(st_asbinary(z)) AS z, hex(st_asbinary(w)) AS w, "
    "hex(st_asbinary(s.g)) AS sg, hex(st_asbinary(a[0])) AS a, a[1] IS NULL AS b, st_srid(p['k']) AS p "
    "FROM {} WHERE id = 1"
)
EXPECTED = (
    point(1, 2).hex(),
    3857,
    point(5, 6).hex(),
    point(7, 8).hex(),
    point(1, 2).hex(),
    point(1, 2).hex(),
    True,
    4326,
)


def shown(spark: SparkSession, name: str) -> tuple[object, ...]:
    (row,) = spark.sql(READ.format(name)).collect()
    return tuple(value.lower() if isinstance(value, str) else value for value in row)


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", " PARTITIONED BY (id)"])
def test_geometries_come_back_from_tables_and_statements(spark: SparkSession, partitioned: str) -> None:
    name = f"lance.geo{len(partitioned)}"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}){partitioned}")
    declared = spark.table(name).schema
    assert declared["g"].dataType == st.GeometryType(4326)
    assert declared["m"].dataType == st.GeometryType(3857)
    assert declared["z"].dataType == st.GeometryType(0)
    assert declared["w"].dataType == st.GeographyType(4326)
    assert declared["a"].dataType == st.ArrayType(st.GeometryType(4326))
    spark.sql(f"INSERT INTO {name} SELECT {ROW}")
    spark.sql(f"INSERT INTO {name} (id) VALUES (2), (3)")
    assert shown(spark, name) == EXPECTED
    spark.sql(f"UPDATE {name} SET g = {sql_point(9, 9)}, a = array({sql_point(8, 8)}) WHERE id = 2")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id + 2 AS id, g, a FROM {name} WHERE id < 3) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET g = s.g WHEN NOT MATCHED THEN INSERT (id, g, a) VALUES (s.id, s.g, s.a)"
    )
    rows = spark.sql(f"SELECT id, hex(st_asbinary(g)), size(a) FROM {name} ORDER BY id").collect()
    one, nine = point(1, 2).hex().upper(), point(9, 9).hex().upper()
    assert [tuple(row) for row in rows] == [(1, one, 2), (2, nine, 1), (3, one, None), (4, nine, 1)]
    assert spark.sql(f"SELECT count(g), count(w), count_if(m IS NULL) FROM {name}").first()[:] == (4, 1, 3)
    assert spark.table(name).where("z IS NOT NULL").count() == 1
    spark.sql(f"ALTER TABLE {name} CREATE INDEX by_place USING rtree (g)")
    condition = "st_intersects(g, st_geomfromtext('POINT(9 9)'))"
    assert sorted(row.id for row in spark.table(name).where(condition).collect()) == [2, 4]
    assert spark.table(name).where(f"{condition} AND id = 2").count() == 1
    if not partitioned:
        query = "st_intersects(g, st_geomfromtext('POINT(9 9)'))"
        dataset = lance_spark.open(
            spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").first().data_type
        )
        assert dataset.to_table(filter=query, columns=["id"])["id"].to_pylist() == [2, 4]
        assert "index: by_place " in dataset.explain(query)
    spark.sql(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")
    assert spark.table(f"{name}_copy").schema == declared
    assert shown(spark, f"{name}_copy") == EXPECTED


@pytest.mark.slow
def test_geometries_by_path_are_geoarrow_for_others(spark: SparkSession, uri: str) -> None:
    frame = spark.sql(f"SELECT {ROW}")
    frame.write.format("lance").save(uri)
    frame.write.format("lance").mode("append").save(uri)
    found = spark.read.format("lance").load(uri)
    assert found.schema["s"].dataType["g"].dataType == st.GeometryType(4326)
    assert [row.g.wkb if hasattr(row.g, "wkb") else row.g.getBytes() for row in found.collect()] == [point(1, 2)] * 2
    schema = lance.dataset(uri).schema
    expected = {
        "g": {"crs": "OGC:CRS84", "crs_type": "authority_code"},
        "m": {"crs": "EPSG:3857", "crs_type": "authority_code"},
        "z": {},
        "w": {"crs": "OGC:CRS84", "crs_type": "authority_code", "edges": "spherical"},
    }
    fields = {**{name: schema.field(name) for name in expected}, "s.g": schema.field("s").type.field("g")}
    for name, field in fields.items():
        assert field.type == pa.binary()
        assert field.metadata[b"ARROW:extension:name"] == b"geoarrow.wkb"
        assert json.loads(field.metadata[b"ARROW:extension:metadata"]) == expected[name.split(".")[-1]]
    query = "st_intersects(g, st_geomfromtext('POLYGON((0 0, 2 0, 2 2, 0 2, 0 0))'))"
    assert lance.dataset(uri).count_rows(filter=query) == 2


PROJJSON = {"type": "GeographicCRS", "name": "WGS 84", "id": {"authority": "EPSG", "code": 4326}}


def test_foreign_geoarrow_columns(spark: SparkSession, tmp_path: Path) -> None:
    cases = {
        "epsg": ({"crs": "EPSG:4326"}, st.GeometryType(4326)),
        "projjson": ({"crs": PROJJSON, "crs_type": "projjson"}, st.GeometryType(4326)),
        "srid": ({"crs": "3857", "crs_type": "srid"}, st.GeometryType(3857)),
        "none": ({}, st.GeometryType(0)),
        "sphere": ({"crs": "OGC:CRS84", "edges": "spherical"}, st.GeographyType(4326)),
        "unknown": ({"crs": "EPSG:27700"}, st.BinaryType()),
        "edges": ({"crs": "OGC:CRS84", "edges": "vincenty"}, st.BinaryType()),
        "list": ([1], st.BinaryType()),
    }
    fields = [
        pa.field(
            name,
            pa.large_binary() if name == "srid" else pa.binary(),
            metadata={"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": json.dumps(parameters)},
        )
        for name, (parameters, _) in cases.items()
    ]
    uri = str(tmp_path / "foreign")
    lance.write_dataset(
        pa.table([pa.array([point(1, 2), None], f.type) for f in fields], schema=pa.schema(fields)), uri
    )
    found = spark.read.format("lance").load(uri)
    assert {field.name: field.dataType for field in found.schema} == {name: kind for name, (_, kind) in cases.items()}
    read = found.selectExpr(
        "hex(st_asbinary(epsg))", "hex(st_asbinary(srid))", "st_srid(sphere)", "hex(unknown)"
    ).collect()
    text = point(1, 2).hex().upper()
    assert {tuple(row) for row in read} == {(None,) * 4, (text, text, 4326, text)}
    # Rewritten rows keep what the column's metadata says.
    found.limit(1).write.format("lance").mode("append").save(uri)
    schema = lance.dataset(uri).schema
    assert json.loads(schema.field("projjson").metadata[b"ARROW:extension:metadata"])["crs"] == PROJJSON
    assert lance.dataset(uri).count_rows() == 3


@pytest.mark.slow
def test_geometries_that_a_column_cannot_hold(spark: SparkSession, uri: str) -> None:
    for kind in ("GEOMETRY(ANY)", "GEOGRAPHY(ANY)", "STRUCT<x: ARRAY<GEOMETRY(ANY)>>"):
        with pytest.raises(PySparkException, match=r"a column in Lance has one SRID of 0, 3857 and 4326"):
            spark.sql(f"CREATE TABLE lance.mixed (g {kind})")
    with pytest.raises(PySparkException, match=r"LANCE_UNSUPPORTED_FEATURE.*EPSG:27700.*is not known to Python"):
        spark.sql("CREATE TABLE lance.mixed (g GEOMETRY(27700))")
    spark.sql(f"CREATE TABLE lance.one_srid AS SELECT {sql_point(1, 2)} AS g")
    with pytest.raises(PySparkException):
        spark.sql(f"INSERT INTO lance.one_srid SELECT {sql_point(1, 2, 3857)}")
    with pytest.raises(PySparkException):
        spark.sql("INSERT INTO lance.one_srid VALUES (X'0102')")
    with pytest.raises(PySparkException):
        spark.sql("ALTER TABLE lance.one_srid ALTER COLUMN g TYPE GEOMETRY(3857)")
    spark.sql("ALTER TABLE lance.one_srid ADD COLUMN h GEOGRAPHY(4326)")
    spark.sql(f"INSERT INTO lance.one_srid SELECT NULL, st_geogfromwkb(X'{point(7, 8).hex()}')")
    assert spark.table("lance.one_srid").schema["h"].dataType == st.GeographyType(4326)
    assert spark.sql("SELECT count(g), count(h), max(st_srid(h)) FROM lance.one_srid").first()[:] == (1, 1, 4326)
    broken = pa.field("g", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})
    lance_spark.write(pa.table([pa.array([b"\x01\x02"])], schema=pa.schema([broken])), uri)
    with pytest.raises(PySparkException, match="WKB_PARSE_ERROR"):
        spark.read.format("lance").load(uri).collect()
