"""Names of tables and namespaces fold case as the session says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


@pytest.fixture
def exact(spark: SparkSession) -> Iterator[None]:
    """A session that tells names apart that differ in case only."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.fixture
def namespace(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    name = f"lance.Case_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE NAMESPACE {name}")
    return name


def tables(spark: SparkSession, namespace: str) -> list[str]:
    return sorted(row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect())


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (part)"])
def test_statements_find_a_table_in_any_case(spark: SparkSession, namespace: str, partitioning: str) -> None:
    table = f"{namespace}.Orders"
    other = table.replace("Case", "CASE").replace("Orders", "ORDERS")
    spark.sql(f"CREATE TABLE {table} (id INT, part STRING) {partitioning}")
    spark.sql(f"INSERT INTO {other} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE {other} SET id = 3 WHERE id = 2")
    spark.sql(f"DELETE FROM {other} WHERE id = 1")
    spark.sql(
        f"MERGE INTO {other} t USING (SELECT 4 AS id, 'c' AS part) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(f"ALTER TABLE {other} ADD COLUMNS (more INT)")
    assert sorted(row.id for row in spark.table(other.lower()).collect()) == [3, 4]
    assert spark.sql(f"SELECT count(*) AS n FROM {other} VERSION AS OF 2").first().n == 2
    assert spark.table(f"{other}.VERSIONS").count() == spark.table(f"{table}.versions").count()
    assert spark.sql(f"DESCRIBE HISTORY {other} LIMIT 1").count() == 1
    spark.sql(f"OPTIMIZE {other}")
    spark.sql(f"CREATE OR REPLACE TABLE {other} {partitioning} AS SELECT 7 AS id, 'x' AS part")
    assert tables(spark, namespace) == ["Orders"]
    assert [row.id for row in spark.table(table).collect()] == [7]
    spark.sql(f"DROP TABLE {other} PURGE")
    assert tables(spark, namespace) == []


def test_branches_in_any_case(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 AS id")
    spark.sql(f"ALTER TABLE {namespace}.t CREATE BRANCH Trial")
    spark.sql(f"INSERT INTO {namespace}.T.BRANCH_TRIAL VALUES (2)")
    assert spark.table(f"{namespace}.t.branch_Trial").count() == 2
    assert spark.table(f"{namespace}.t.Branch_trial.FILES").count() == 2
    with pytest.raises(AnalysisException, match="nothing"):
        spark.table(f"{namespace}.t.branch_nothing").collect()


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (id)"])
def test_two_names_that_differ_in_case_only_cannot_both_be_made(
    spark: SparkSession, namespace: str, partitioning: str
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT)")
    spark.sql(f"CREATE TABLE {namespace}.u (id INT)")
    for statement in (
        f"CREATE TABLE {namespace}.T (id INT) {partitioning}",
        f"CREATE TABLE {namespace}.T {partitioning} AS SELECT 1 AS id",
        f"ALTER TABLE {namespace}.u RENAME TO {namespace}.T",
        f"CREATE NAMESPACE {namespace.upper().replace('LANCE', 'lance')}",
    ):
        with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
            spark.sql(statement)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {namespace}.T (id INT)")
    assert tables(spark, namespace) == ["t", "u"]
    spark.sql(f"ALTER TABLE {namespace}.U RENAME TO {namespace}.W")
    spark.sql(f"ALTER TABLE {namespace}.w RENAME TO {namespace}.w")
    assert tables(spark, namespace) == ["t", "w"]


def test_names_of_the_root_namespace(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.RootCase AS SELECT 1 AS id")
    assert spark.table("lance.rootcase").count() == 1
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE lance.ROOTCASE (id INT)")
    spark.sql("DROP TABLE lance.ROOTCASE PURGE")
    assert "RootCase" not in tables(spark, "lance")


def test_of_concurrent_creators_of_one_folded_name_one_succeeds(spark: SparkSession, namespace: str) -> None:
    names = ["race", "RACE", "Race", "rAce"]

    def create(name: str) -> bool:
        try:
            spark.sql(f"CREATE TABLE {namespace}.{name} (id INT)")
        except AnalysisException as error:
            if error.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS":
                return False
            raise
        return True

    with ThreadPoolExecutor(len(names)) as pool:
        assert sum(pool.map(create, names)) == 1
    assert len(tables(spark, namespace)) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
def test_a_session_that_tells_cases_apart(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 AS id")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(f"{namespace}.T")
    spark.sql(f"CREATE TABLE {namespace}.T AS SELECT 2 AS id")
    assert [row.id for row in spark.table(f"{namespace}.T").collect()] == [2]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(f"{namespace}.t.FILES")
    spark.sql(f"CREATE TABLE {namespace}.Tt (id INT)")
    spark.sql(f"CREATE TABLE {namespace}.tT (id INT)")
    spark.conf.set("spark.sql.caseSensitive", "false")
    # What is written as the catalog has it is that one; another spelling may be two.
    assert [row.id for row in spark.table(f"{namespace}.t").collect()] == [1]
    assert [row.id for row in spark.table(f"{namespace}.T").collect()] == [2]
    with pytest.raises(AnalysisException, match=r"TT may be .*\.Tt and .*\.tT, which differ in case only"):
        spark.table(f"{namespace}.TT")
