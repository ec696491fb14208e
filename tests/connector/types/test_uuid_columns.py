"""UUIDs: STRING in Spark by option or property, 16 bytes with `arrow.uuid` in the table."""

from __future__ import annotations

import random
import re
from uuid import UUID

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import lance_spark
from tests.support.connector.plans import plan

RANDOM = random.Random(3)
IDS = [str(UUID(int=RANDOM.getrandbits(128))) for _ in range(40)]
LOW = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def theirs(uri: str) -> str:
    """A table of the reference library."""
    values = [UUID(text).bytes for text in IDS] + [None]
    columns = {"n": range(len(values)), "u": pa.array(values, pa.uuid())}
    lance.write_dataset(pa.table(columns), uri)
    return uri


def test_uuids_are_bytes_unless_text_is_asked_for(spark: SparkSession, theirs: str) -> None:
    read = spark.read.format("lance")
    assert read.load(theirs).schema["u"].dataType == st.BinaryType()
    found = read.option("uuid_as", "string").load(theirs)
    assert found.schema["u"].dataType == st.StringType()
    assert [row.u for row in found.orderBy("n").collect()] == [*IDS, None]
    with pytest.raises(PySparkException, match="uuid_as is 'text'; it is binary or string"):
        read.option("uuid_as", "text").load(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [False, True])
def test_comparisons_are_those_of_texts(spark: SparkSession, theirs: str, indexed: bool) -> None:
    if indexed:
        lance_spark.open(theirs).create_scalar_index("u", "btree")
    found = spark.read.format("lance").option("uuid_as", "string").load(theirs)
    some = IDS[7]
    for condition, expected in {
        f"u = '{some}'": [some],
        f"u <=> '{some}'": [some],
        f"u <> '{some}'": [text for text in IDS if text != some],
        f"u < '{some}'": [text for text in IDS if text < some],
        f"u >= '{some}'": [text for text in IDS if text >= some],
        f"u IN ('{some}', '{IDS[3]}', '{LOW}')": [IDS[3], some],
        f"u NOT IN ('{some}')": [text for text in IDS if text != some],
        f"u = '{some.upper()}'": [],
        f"u > '{some.upper()}'": [text for text in IDS if text > some.upper()],
        "u < '8'": [text for text in IDS if text < "8"],
        f"u IN ('{some}', 'x')": [some],
        f"u LIKE '{some[:4]}%'": [text for text in IDS if text.startswith(some[:4])],
        "u IS NULL": [None],
        "u = concat(u, '')": IDS,
    }.items():
        assert [row.u for row in found.where(condition).orderBy("n").collect()] == expected, condition
    assert not re.search(r"\bFilter\b", plan(found.where(f"u = '{some}' OR u < '{LOW}'")))
    assert found.selectExpr("min(u)", "max(u)", "count(DISTINCT u)").first()[:] == (min(IDS), max(IDS), 40)
    assert [row.u for row in found.where("u IS NOT NULL").orderBy("u").limit(3).collect()] == sorted(IDS)[:3]
    assert found.groupBy("u").count().count() == 41
    assert found.join(found.where("n < 5").selectExpr("u", "n AS other"), "u").count() == 5


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", " PARTITIONED BY (bucket(3, u))"])
def test_tables_of_uuids(spark: SparkSession, by: str) -> None:
    name = f"lance.uuids{len(by)}"
    properties = "'u.arrow.uuid' = 'true', 'lance.uuid_as' = 'string'"
    spark.sql(f"CREATE TABLE {name} (n INT, u STRING){by} TBLPROPERTIES ({properties})")
    spark.createDataFrame(list(enumerate(IDS)), "n INT, u STRING").writeTo(name).append()
    spark.sql(f"UPDATE {name} SET n = n + 100 WHERE u = '{IDS[0]}'")
    spark.sql(f"DELETE FROM {name} WHERE u IN ('{IDS[1]}')")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT u, 7 AS m FROM {name} WHERE n < 4 UNION ALL SELECT '{LOW.upper()}', 8) s "
        "ON t.u = s.u WHEN MATCHED THEN UPDATE SET n = m WHEN NOT MATCHED THEN INSERT (n, u) VALUES (m, s.u)"
    )
    expected = {IDS[0]: 100, IDS[2]: 7, IDS[3]: 7, LOW: 8, **{IDS[number]: number for number in range(4, 40)}}
    assert {row.u: row.n for row in spark.table(name).collect()} == expected
    joined = spark.sql(f"SELECT count(*) FROM {name} a JOIN {name} b ON a.u = b.u WHERE a.u <> '{LOW}'")
    assert joined.collect() == [(39,)]
    with pytest.raises(PySparkException, match="'none' is no UUID"):
        spark.sql(f"INSERT INTO {name} VALUES (1, 'none')")
    assert spark.table(name).count() == 40
