"""Statements on tables of other formats: the same with the session catalog of Lance as without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark

STATEMENTS = """
CREATE TABLE p (id BIGINT, v STRING COMMENT 'c') USING parquet COMMENT 'd' TBLPROPERTIES ('k' = 'w')
CREATE TABLE p (id BIGINT) USING parquet
CREATE TABLE IF NOT EXISTS p (id BIGINT) USING parquet
INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, NULL)
INSERT INTO p (v) VALUES ('c')
INSERT INTO p VALUES (1)
SELECT * FROM p ORDER BY id
SELECT count(*), max(v) FROM p WHERE id > 1
CREATE TABLE q USING parquet PARTITIONED BY (k) AS SELECT id, id % 2 AS k FROM range(6)
CREATE TABLE IF NOT EXISTS q USING parquet AS SELECT 1 AS id
CREATE TABLE q USING parquet AS SELECT 1 AS id
SHOW PARTITIONS q
ALTER TABLE q DROP PARTITION (k = 0)
ALTER TABLE q ADD PARTITION (k = 7)
SELECT * FROM q ORDER BY id
INSERT OVERWRITE q PARTITION (k = 1) VALUES (11)
SELECT * FROM q ORDER BY id
MSCK REPAIR TABLE q
CREATE TABLE r (id INT, d INT DEFAULT 5) USING parquet
INSERT INTO r (id) VALUES (1)
SELECT * FROM r
CREATE TABLE plain (id INT)
DESCRIBE TABLE plain
SHOW CREATE TABLE q
CREATE TABLE o USING orc AS SELECT 1 AS id
CREATE TABLE c USING csv OPTIONS (header 'true') AS SELECT 1 AS id, 'x' AS v
CREATE TABLE j USING json AS SELECT named_struct('a', 1) AS s
SELECT * FROM o JOIN c USING (id) JOIN j ON j.s.a = id
CREATE TABLE wrong USING nothing AS SELECT 1 AS id
CREATE TABLE generated (id INT, k INT GENERATED ALWAYS AS (id + 1)) USING parquet
CREATE TABLE counted (id BIGINT GENERATED ALWAYS AS IDENTITY) USING parquet
CREATE TABLE checked (id INT, CHECK (id > 0)) USING parquet
ALTER TABLE p ADD CONSTRAINT positive CHECK (id > 0)
CREATE TABLE bucketed (id INT, v STRING) USING parquet CLUSTERED BY (id) INTO 4 BUCKETS
CREATE TABLE transformed (id INT) USING parquet PARTITIONED BY (bucket(4, id))
CREATE TABLE alike LIKE p
CREATE TABLE alike LIKE p
CREATE TABLE IF NOT EXISTS alike LIKE p USING parquet
CREATE TABLE alike2 LIKE missing
REPLACE TABLE p (id INT) USING parquet
CREATE OR REPLACE TABLE p USING parquet AS SELECT 1 AS id
CREATE VIEW v AS SELECT id, upper(v) AS u FROM p
CREATE VIEW v AS SELECT 1 AS one
CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one
CREATE OR REPLACE VIEW v AS SELECT id FROM p
CREATE OR REPLACE VIEW p AS SELECT 1 AS one
CREATE TEMPORARY VIEW passing AS SELECT 1 AS one
SELECT * FROM v ORDER BY id
SELECT * FROM passing
SHOW VIEWS
SHOW TABLES
SHOW TABLES LIKE 'p*'
SHOW TABLE EXTENDED LIKE 'p'
SHOW COLUMNS IN p
SHOW TBLPROPERTIES p
DESCRIBE TABLE EXTENDED p
DESCRIBE TABLE p v
DESCRIBE TABLE v
DESCRIBE DATABASE {db}
SHOW CREATE TABLE v
ALTER VIEW v AS SELECT id + 1 AS id FROM p
ALTER VIEW v RENAME TO w
ALTER VIEW w RENAME TO p
ALTER TABLE p RENAME TO w
ALTER TABLE p RENAME TO renamed
SELECT count(*) FROM p
SELECT count(*) FROM renamed
ALTER TABLE renamed RENAME TO p
ALTER TABLE p ADD COLUMNS (more INT)
ALTER TABLE p DROP COLUMN more
ALTER TABLE p ALTER COLUMN v COMMENT 'other'
ALTER TABLE p SET TBLPROPERTIES ('k' = 'x')
ALTER TABLE p UNSET TBLPROPERTIES ('k')
COMMENT ON TABLE p IS 'new'
UPDATE p SET id = 1
DELETE FROM p WHERE id = 1
MERGE INTO p USING o ON p.id = o.id WHEN MATCHED THEN DELETE
TRUNCATE TABLE p
SELECT count(*) FROM p
ANALYZE TABLE q COMPUTE STATISTICS FOR ALL COLUMNS
ANALYZE TABLE missing COMPUTE STATISTICS
CACHE TABLE q
UNCACHE TABLE q
REFRESH TABLE q
EXPLAIN SELECT * FROM q WHERE k = 1
SELECT * FROM q VERSION AS OF 1
SELECT * FROM q TIMESTAMP AS OF '2024-01-01'
SELECT * FROM {db}.q.versions
SELECT * FROM missing
SELECT * FROM {db}.missing.more
SELECT * FROM nowhere.missing
INSERT INTO missing VALUES (1)
OPTIMIZE q
VACUUM q
DESCRIBE HISTORY q
CREATE INDEX i ON q (id)
ALTER TABLE q CREATE BRANCH b
CREATE FUNCTION {db}.f(x INT) RETURNS INT RETURN x + 1
SELECT {db}.f(2)
DESCRIBE FUNCTION {db}.f
DESCRIBE FUNCTION bucket
SELECT bucket(4, 1)
SELECT spark_catalog.nothing(4, 1)
SHOW USER FUNCTIONS LIKE 'f'
DROP FUNCTION {db}.f
CREATE TABLE with_location USING parquet LOCATION '{path}' AS SELECT 1 AS id
SELECT * FROM parquet.`{path}`
SELECT * FROM parquet.`{path}/missing`
DROP VIEW q
DROP TABLE w
DROP VIEW w
DROP TABLE missing
DROP TABLE IF EXISTS missing
DROP TABLE p
DROP TABLE j PURGE
DROP DATABASE {db}
DROP DATABASE default
CREATE DATABASE {db}
CREATE DATABASE IF NOT EXISTS {db}
DROP DATABASE missing
DROP DATABASE IF EXISTS missing CASCADE
SHOW DATABASES LIKE '{db}'
DROP DATABASE {db} CASCADE
SHOW TABLES IN {db}
"""
"""One statement a line, in a database of its own."""

CHANGING = re.compile(
    r"Created Time[^\n]*|Last Access[^\n]*|Created By[^\n]*|#\d+L?|plan_id=\d+|\d+ bytes|[0-9a-f]{7,}"
)
"""What no two runs have in common."""

KEPT_SETTING = re.compile(r'"sqlConfig\.spark\.sql\.catalog\.spark_catalog":"[^"]*",')
"""A function keeps the settings with which it was made."""


@pytest.fixture
def sessions(spark: SparkSession, tmp_path: Path) -> Iterator[list[SparkSession]]:
    """A session without the class, and one with it, over the same catalog of Spark."""
    plain, extended = spark.newSession(), spark.newSession()
    lance_spark.install(extended, "spark_catalog", root=tmp_path / "root")
    assert plain.conf.get("spark.sql.catalog.spark_catalog") == "builtin"
    for session in (plain, extended):
        session.sql("USE spark_catalog.default")
    yield [plain, extended]
    for name in ("plain_side", "other_side"):
        plain.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def outcome(session: SparkSession, statement: str, database: str) -> object:
    """The rows of a statement, or the condition and the text of its error, without what differs from run to run."""
    try:
        text = repr([tuple(row) for row in session.sql(statement).collect()])
    except PySparkException as error:
        text = f"{error.getCondition()}: {str(error).splitlines()[:2]}"
    except Py4JJavaError as error:  # An error of Java without a class in Python.
        text = f"{error.java_exception.toString()}"
    return CHANGING.sub("*", KEPT_SETTING.sub("", text.replace(database, "DATABASE")))


@pytest.mark.slow
def test_statements_on_other_formats_have_the_same_results(sessions: list[SparkSession], tmp_path: Path) -> None:
    outcomes: list[list[object]] = []
    for session, database in zip(sessions, ("plain_side", "other_side"), strict=True):
        session.sql(f"CREATE DATABASE {database}")
        session.sql(f"USE {database}")
        path = tmp_path / database / "files"
        lines = [line.format(db=database, path=path) for line in STATEMENTS.strip().splitlines()]
        outcomes.append([outcome(session, line, database) for line in lines])
    assert len(outcomes[0]) > 100
    assert sum("None: " not in str(each) and not str(each).startswith("[") for each in outcomes[0]) > 20  # Errors.
    different = [
        (line, plain, extended)
        for line, plain, extended in zip(STATEMENTS.strip().splitlines(), *outcomes, strict=True)
        if plain != extended
    ]
    assert different == []
