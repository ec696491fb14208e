"""Strings with a collation: Spark answers as on tables of its own, because nothing that compares bytes sees them."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan

COLUMNS = """id INT, k INT, c STRING COLLATE UTF8_LCASE, u STRING COLLATE UNICODE_CI, b STRING,
    s STRUCT<x: STRING COLLATE UTF8_LCASE, y: INT>, l ARRAY<STRING COLLATE UTF8_LCASE>,
    m MAP<STRING, STRING COLLATE UNICODE_CI>, r STRING COLLATE UNICODE_CI NOT NULL"""
VALUES = ("a", "A", "ä", "Ä", None, "", "b", "aB", "Ab", "zz")
CONDITIONS = [
    "c = 'A'",
    "'A' = c",
    "u = 'Ä'",
    "c <=> 'A'",
    "c <> 'a'",
    "NOT (u = 'a')",
    "c IN ('A', 'B', '')",
    "c > 'A' AND k < 3",
    "c <= 'AB' OR k = 1",
    "u BETWEEN 'A' AND 'ab'",
    "c LIKE 'A%'",
    "startswith(c, 'AB')",
    "contains(u, 'B')",
    "endswith(c, 'B')",
    "c IS NULL",
    "c IS NOT NULL AND k = 2",
    "c = b COLLATE UTF8_LCASE",
    "upper(c) = 'ä'",
    "s.x = 'A'",
    "s.y = 3 AND s.x = 'A'",
    "l[0] = 'A'",
    "array_contains(l, 'A')",
    "m['key'] = 'A'",
    "b = 'A' COLLATE UTF8_LCASE",
    "b COLLATE UNICODE_CI IN ('A', 'Ä')",
    "c COLLATE UTF8_BINARY = 'A'",
    "CAST(c AS STRING) = 'A' COLLATE UTF8_BINARY",
]
QUERIES = [
    "SELECT min(c), max(c), min(u), max(u), count(c), count(*) FROM {t}",
    "SELECT count(DISTINCT c), count(DISTINCT u), count(DISTINCT b) FROM {t}",
    "SELECT lower(c), count(*), min(id), max(k) FROM {t} GROUP BY c",
    "SELECT k, lower(u), sum(id) FROM {t} GROUP BY k, u",
    "SELECT lower(c) FROM (SELECT DISTINCT c FROM {t})",
    "SELECT lower(c), k FROM {t} ORDER BY c, k, id LIMIT 7",
    "SELECT id FROM {t} ORDER BY u DESC NULLS FIRST, id LIMIT 12",
    "SELECT id FROM {t} ORDER BY s.x, id LIMIT 5",
    "SELECT x.id, y.id FROM {t} x JOIN {t} y ON x.c = y.c",
    "SELECT x.id, y.id FROM {t} x JOIN {t} y ON x.k = y.k AND x.u = y.u WHERE y.b = 'a'",
    "SELECT x.id FROM {t} x LEFT SEMI JOIN (SELECT * FROM {t} WHERE id < 2) y ON x.c = y.c",
    "SELECT x.id FROM {t} x LEFT ANTI JOIN (SELECT * FROM {t} WHERE id < 2) y ON x.u = y.u",
    "SELECT id FROM {t} WHERE c IN (SELECT u COLLATE UTF8_LCASE FROM {t} WHERE k = 1)",
    "SELECT id FROM {t} WHERE c = (SELECT max(b) FROM {t} WHERE b = 'A') COLLATE UTF8_LCASE",
]
CHANGES = [
    ("DELETE FROM {t} WHERE c = 'A'", "SELECT * FROM {t} WHERE NOT coalesce(c = 'A', false)"),
    (
        "DELETE FROM {t} WHERE u IN ('Ä', 'zZ') AND k = 1",
        "SELECT * FROM {t} WHERE NOT coalesce(u IN ('Ä', 'zZ') AND k = 1, false)",
    ),
    (
        "UPDATE {t} SET b = 'changed', c = 'NEW' WHERE c = 'AB'",
        "SELECT id, k, if(c = 'AB', 'NEW', c) c, u, if(c = 'AB', 'changed', b) b FROM {t}",
    ),
    (
        """MERGE INTO {t} USING (SELECT 'ZZ' COLLATE UTF8_LCASE AS c, 77 AS id
        UNION ALL SELECT 'fresh' COLLATE UTF8_LCASE, 78) n
        ON {t}.c = n.c WHEN MATCHED THEN UPDATE SET b = concat(b, '!')
        WHEN NOT MATCHED THEN INSERT (id, k, c) VALUES (n.id, 1, n.c)""",
        """SELECT id, k, c, u, if(c = 'ZZ', concat(b, '!'), b) b FROM {t}
        UNION ALL SELECT 78, 1, 'fresh' COLLATE UTF8_LCASE, NULL, NULL""",
    ),
    (
        "DELETE FROM {t} WHERE EXISTS (SELECT 1 FROM {t} o WHERE o.b = 'b' AND o.u = {t}.u)",
        "SELECT * FROM {t} WHERE NOT coalesce(u = 'B', false)",
    ),
]
"""A statement, and the rows after it."""

REFUSED = [
    "CREATE TABLE {n} (id INT, c STRING COLLATE UTF8_LCASE) PARTITIONED BY (c)",
    "CREATE TABLE {n} (id INT, c STRING COLLATE UTF8_LCASE) PARTITIONED BY (bucket(4, c))",
    "CREATE TABLE {n} (c STRING COLLATE UTF8_LCASE, CONSTRAINT x CHECK (c = 'a'))",
    "CREATE TABLE {n} (c VARCHAR(3) COLLATE UTF8_LCASE)",
    "CREATE TABLE {n} (c ARRAY<STRUCT<x: CHAR(3) COLLATE UTF8_LCASE>>)",
    "ALTER TABLE {t} ADD COLUMN n VARCHAR(3) COLLATE UNICODE_CI",
    "CREATE TABLE {n} (c STRING) DEFAULT COLLATION UTF8_LCASE",
    "ALTER TABLE {t} ADD CONSTRAINT x CHECK (c <> 'other')",
    "ALTER TABLE {t} ALTER COLUMN c TYPE STRING COLLATE UNICODE_CI",
    "ALTER TABLE {t} ALTER COLUMN b TYPE STRING COLLATE UNICODE_CI",
    "ALTER TABLE {t} ALTER COLUMN id TYPE STRING COLLATE UNICODE_CI",
    "ALTER TABLE {t} SET UNENFORCED PRIMARY KEY (r)",
    "INSERT INTO {t} REPLACE WHERE c = 'A' SELECT * FROM {t}",
]

PLAIN, PARTS = TABLES = ("lance.collations.plain", "lance.collations.parts")
"""The second is partitioned by another column."""

SPARKS_OWN = "own"


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[None]:
    """The same rows in Lance tables, with an index, and in Parquet files."""
    spark.sql("CREATE NAMESPACE lance.collations")
    spark.sql(f"CREATE TABLE {PLAIN} ({COLUMNS})")
    spark.sql(f"CREATE TABLE {PARTS} ({COLUMNS}) PARTITIONED BY (k)")
    rows = [(number * 10 + place, number, text) for number in range(1, 4) for place, text in enumerate(VALUES)]
    frame = spark.createDataFrame(rows, "id INT, k INT, c STRING")
    frame = frame.selectExpr(
        "id", "k", "c", "c u", "c b", "struct(c AS x, k AS y) s", "array(c) l", "map('key', c) m", "'r' r"
    )
    frame.createOrReplaceTempView("given")
    spark.sql(f"CREATE TABLE {SPARKS_OWN} ({COLUMNS}) USING parquet")
    for table in (*TABLES, SPARKS_OWN):
        spark.sql(f"INSERT INTO {table} SELECT * FROM given")
    arguments = f"table => '{PLAIN}', name => 'n', kind => 'BTREE', columns => array('c')"
    spark.sql(f"CALL lance.system.create_index({arguments})")
    yield
    spark.sql(f"DROP TABLE {SPARKS_OWN}")


def answers(spark: SparkSession, queries: list[str], table: str) -> list[list[str]]:
    """The rows of each query, all by one statement."""
    parts = [
        f"SELECT {number} AS query, to_json(struct(*)) AS row FROM ({query.format(t=table)})"
        for number, query in enumerate(queries)
    ]
    found: list[list[str]] = [[] for _ in queries]
    for query, row in spark.sql(" UNION ALL ".join(parts)).collect():
        found[query].append(row)
    return [sorted(rows) for rows in found]


@pytest.mark.usefixtures("tables")
class TestCollations:
    @pytest.mark.slow
    def test_types_are_kept(self, spark: SparkSession) -> None:
        own = spark.table(SPARKS_OWN).schema
        for table in TABLES:
            assert [field.dataType for field in spark.table(table).schema][:-1] == [f.dataType for f in own][:-1]
        described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {PLAIN}").collect()}
        assert described["c"] == "string collate UTF8_LCASE"
        assert described["l"] == "array<string collate UTF8_LCASE>"
        assert "u STRING COLLATE UNICODE_CI" in spark.sql(f"SHOW CREATE TABLE {PLAIN}").collect()[0][0]
        spark.sql(f"ALTER TABLE {PLAIN} ADD COLUMN n ARRAY<STRING COLLATE UNICODE>")
        assert spark.table(PLAIN).schema["n"].dataType.simpleString() == "array<string collate UNICODE>"
        spark.sql(f"ALTER TABLE {PLAIN} DROP COLUMN n")
        other = lance.dataset(described["Location"])
        assert other.schema.field("c").type == pa.string()
        assert other.to_table(filter="c = 'A'").num_rows == 3

    @pytest.mark.since("4.2", "BETWEEN of collated strings")
    @pytest.mark.slow
    @pytest.mark.parametrize("table", TABLES)
    def test_queries(self, spark: SparkSession, table: str) -> None:
        queries = [*QUERIES, *(f"SELECT id FROM {{t}} WHERE {condition}" for condition in CONDITIONS)]
        wanted = answers(spark, queries, SPARKS_OWN)
        for query, found, rows in zip(queries, answers(spark, queries, table), wanted, strict=True):
            assert found == rows, query
        assert len(wanted[len(QUERIES)]) == 6

    def test_other_columns_are_pushed(self, spark: SparkSession) -> None:
        shown = plan(spark.sql(f"SELECT id FROM {PLAIN} WHERE id = 11 AND c = 'A' AND b = 'a'"))
        (scan,) = (line for line in shown.splitlines() if "BatchScan" in line)
        assert "id = 11" in scan
        assert "b = 'a'" in scan
        assert "'A'" not in scan

    @pytest.mark.slow
    @pytest.mark.since("4.2", "the types that are refused in its grammar")
    def test_refused(self, spark: SparkSession) -> None:
        for statement in REFUSED:
            with pytest.raises(PySparkException) as raised:
                spark.sql(statement.format(t=PLAIN, n="lance.collations.refused"))
            assert (raised.value.getCondition() or "").startswith("LANCE_"), statement

    @pytest.mark.slow
    @pytest.mark.parametrize("table", TABLES)
    def test_changes(self, spark: SparkSession, table: str) -> None:
        made = f"{table}_changed"
        partitioned = "PARTITIONED BY (k)" if table == PARTS else ""
        columns = "id INT, k INT, c STRING COLLATE UTF8_LCASE, u STRING COLLATE UNICODE_CI, b STRING"
        spark.sql(f"CREATE TABLE {made} ({columns}) {partitioned}")
        spark.sql(f"INSERT INTO {made} SELECT id, k, c, u, b FROM given")
        wanted = f"(SELECT id, k, c, u, b FROM {SPARKS_OWN})"
        for change, after in CHANGES:
            spark.sql(change.format(t=made))
            wanted = f"({after.format(t=wanted)})"
            assert answers(spark, ["SELECT * FROM {t}"], made) == answers(spark, ["SELECT * FROM {t}"], wanted), change
