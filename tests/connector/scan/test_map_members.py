"""Members of structs in maps: ALTER TABLE adds, renames, widens and drops them, and new rows can bring more."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.row_level import ALTERS

COLUMNS = "id INT, p INT, m MAP<STRING, STRUCT<f: INT, g: STRING>>, k MAP<STRUCT<a: INT, b: INT>, INT>"


@pytest.fixture(params=["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    name = f"lance.map_members_{'parts' if request.param else 'plain'}"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {request.param}")
    spark.sql(
        f"INSERT INTO {name} VALUES (2, 2, NULL, NULL),"
        " (1, 1, map('x', named_struct('f', 1, 'g', 'one'), 'y', NULL), map(named_struct('a', 1, 'b', 2), 3))"
    )
    yield name
    spark.sql(f"DROP TABLE {name} PURGE")


def maps_of(spark: SparkSession, table: str) -> list[dict[str, object] | None]:
    """The map `m` of each row, its structs as dicts; the reference library reads plain tables too."""
    found = [row.asDict(recursive=True)["m"] for row in spark.table(table).orderBy("id").collect()]
    if "plain" in table:
        location = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").first()[1]
        stored = lance.dataset(location).to_table().sort_by("id").column("m").to_pylist()
        assert [None if pairs is None else dict(pairs) for pairs in stored] == found
    return found


@pytest.mark.slow
def test_alter_table(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ADD COLUMN m.value.h INT")
    assert maps_of(spark, table) == [{"x": {"f": 1, "g": "one", "h": None}, "y": None}, None]
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (m.value.i STRING COMMENT 'c' FIRST, k.key.c INT AFTER a)")
    assert spark.table(table).schema["k"].simpleString() == "k:map<struct<a:int,c:int,b:int>,int>"
    assert list(maps_of(spark, table)[0]["x"]) == ["i", "f", "g", "h"]  # type: ignore[index]
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN m.value.f TO ff")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN m.value.ff TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN k.key.a TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN k.value TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN m.value.h AFTER ff")
    spark.sql(f"ALTER TABLE {table} DROP COLUMNS (m.value.i, m.value.g, k.key.b)")
    assert maps_of(spark, table) == [{"x": {"ff": 1, "h": None}, "y": None}, None]
    assert spark.table(table).schema["k"].simpleString() == "k:map<struct<a:bigint,c:int>,bigint>"
    assert spark.table(table).where("id = 1").first().k == {(1, None): 3}
    spark.sql(f"UPDATE {table} SET m = map('z', named_struct('ff', 5L, 'h', 6)) WHERE id = 2")
    assert maps_of(spark, table) == [{"x": {"ff": 1, "h": None}, "y": None}, {"z": {"ff": 5, "h": 6}}]


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
def test_rows_with_more_members(spark: SparkSession, table: str) -> None:
    version = f"SELECT max(version) FROM {table}.versions"
    before = spark.sql(version).first()[0]
    wider = (
        "map('n', named_struct('f', 9, 'g', 'n', 'h', {})) AS m, CAST(NULL AS MAP<STRUCT<a: INT, b: INT>, INT>) AS k"
    )
    row = spark.sql(f"SELECT 3 AS id, 3 AS p, {wider.format(1)}")
    row.writeTo(table).option("mergeSchema", "true").append()
    old = {"x": {"f": 1, "g": "one", "h": None}, "y": None}
    assert maps_of(spark, table) == [old, None, {"n": {"f": 9, "g": "n", "h": 1}}]
    assert spark.sql(version).first()[0] == before + 1
    widest = wider.format("1, 'i', true")
    source = f"SELECT 2 AS id, 2 AS p, {widest} UNION ALL SELECT 4, 4, NULL, NULL"
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING ({source}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert maps_of(spark, table) == [
        {"x": {"f": 1, "g": "one", "h": None, "i": None}, "y": None},
        {"n": {"f": 9, "g": "n", "h": 1, "i": True}},
        {"n": {"f": 9, "g": "n", "h": 1, "i": None}},
        None,
    ]
    assert spark.sql(version).first()[0] == before + 2 + ALTERS


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP COLUMN m.value", "'m.value' is no column or field of a struct"),
        ("DROP COLUMNS (m.value.f, m.value.g)", "nothing would be left of"),
        ("ALTER COLUMN m.value.f TYPE STRING", "column 'm.value.f' of type int32 cannot become"),
        ("ADD COLUMN m.value.h INT NOT NULL", "column 'm.value.h' would be null"),
    ],
)
def test_messages_name_the_member_as_the_statement_does(
    spark: SparkSession, table: str, statement: str, message: str
) -> None:
    before = maps_of(spark, table)
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"ALTER TABLE {table} {statement}")
    assert maps_of(spark, table) == before
