"""WITH SCHEMA EVOLUTION: columns come with the rows, as one version, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.columns import edit_columns
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.schema.evolution import with_added
from tests.partitioned.verbs import delete_rows
from tests.support.connector.row_level import (
    ALTERS,
    file_names,
    forget_sizes,
    make,
    properties,
    seen,
    version,
    wait_for_files,
    words,
)

MERGE = """MERGE WITH SCHEMA EVOLUTION INTO {} t USING wider s ON t.id = s.id
           WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""


@pytest.fixture(params=["addresses", "stable"])
def table(spark: SparkSession, uri: str, request: pytest.FixtureRequest) -> str:
    """Rows 0 to 9; the view `wider` has 8 to 11 with a column and a member of a struct more."""
    frame = spark.range(0, 10, numPartitions=2).selectExpr("id", "struct(id AS a) AS s")
    name = make(frame, uri, enable_stable_row_ids=str(request.param == "stable"))
    spark.sql(
        "SELECT id, struct(-id AS a, concat('b', id) AS b) AS s, concat('n', id) AS word FROM range(8, 12)"
    ).createOrReplaceTempView("wider")
    return name


@pytest.fixture
def stopped(spark: SparkSession, table: str) -> Iterator[None]:
    """The view `stopping`: the rows of `wider`, which the fixture `table` makes, with a failure at row 11."""

    def stops(key: int) -> int:
        if key == 11:
            raise ValueError("no eleven")
        return key

    spark.udf.register("stops", udf(stops, "bigint"))
    spark.sql("SELECT stops(id) AS id, s, word FROM wider").createOrReplaceTempView("stopping")
    yield
    spark.catalog.dropTempView("stopping")


def _old(*keys: int) -> list[tuple[object, ...]]:
    return [(key, {"a": key, "b": None}, None) for key in keys]


def _new(*keys: int) -> list[tuple[object, ...]]:
    return [(key, {"a": -key, "b": f"b{key}"}, f"n{key}") for key in keys]


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
def test_merge_is_one_version(spark: SparkSession, uri: str, table: str) -> None:
    spark.sql(MERGE.format(table))
    assert seen(spark, uri, "id", "s", "word") == [*_old(*range(8)), *_new(8, 9, 10, 11)]
    assert version(uri) == 2 + ALTERS
    assert properties(uri)["spark.operation"] == "MERGE"
    # Everything is there by now, so that nothing evolves.
    spark.sql(MERGE.format(table))
    spark.sql(f"UPDATE {table} SET word = 'u' WHERE id = 0")
    assert seen(spark, uri, "id", "word")[:2] == [(0, "u"), (1, None)]
    assert version(uri) == 4 + ALTERS
    assert spark.sql(f"SELECT * FROM {table} VERSION AS OF 1").columns == ["id", "s"]


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
def test_insert_is_one_version(spark: SparkSession, uri: str, table: str) -> None:
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT word, s, id FROM wider WHERE id > 9")
    assert seen(spark, uri, "id", "s", "word") == [*_old(*range(10)), *_new(10, 11)]
    assert version(uri) == 2
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} SELECT 12L AS id, s, word, 1 AS more FROM wider WHERE id = 8")
    assert lance.dataset(uri).schema.names == ["id", "s", "word", "more"]
    assert version(uri) == 3


@pytest.mark.since("4.2", "columns that a statement adds to a target that it reads too")
@pytest.mark.slow
def test_merges_that_read_the_table_otherwise(spark: SparkSession, uri: str, table: str) -> None:
    """One that only inserts is a join with the table for Spark; and the table can be its own source."""
    spark.sql(MERGE.format(table).replace("WHEN MATCHED THEN UPDATE SET * ", ""))
    assert seen(spark, uri, "id", "s", "word") == [*_old(*range(10)), *_new(10, 11)]
    assert version(uri) == 2
    for source in (table, f"{table} VERSION AS OF 1"):
        own = f"(SELECT id, id * 2 AS own{version(uri)} FROM {source} WHERE id < 2) s"
        spark.sql(MERGE.format(table).replace("wider s", own).replace("WHEN NOT MATCHED THEN INSERT *", ""))
    assert seen(spark, uri, "id", "own2", "own3")[:3] == [(0, 0, 0), (1, 2, 2), (2, None, None)]
    assert version(uri) == 4


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
def test_overwrites_are_one_version(spark: SparkSession, uri: str, table: str) -> None:
    spark.sql(
        f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME REPLACE WHERE id < 9 SELECT * FROM wider WHERE id <> 9"
    )
    assert seen(spark, uri, "id", "s", "word") == [*_new(8), *_old(9), *_new(10, 11)]
    assert version(uri) == 2
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION OVERWRITE {table} SELECT id, s, word, id AS more FROM wider")
    assert seen(spark, uri, "id", "more") == [(key, key) for key in range(8, 12)]
    assert version(uri) == 3


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
@pytest.mark.slow
@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize(
    "statement",
    [
        MERGE.replace("wider", "stopping"),
        "INSERT WITH SCHEMA EVOLUTION INTO {} SELECT * FROM stopping",
        "INSERT WITH SCHEMA EVOLUTION OVERWRITE {} SELECT * FROM stopping",
        "INSERT WITH SCHEMA EVOLUTION INTO {} BY NAME REPLACE WHERE id < 9 SELECT * FROM stopping",
    ],
)
def test_rows_that_fail_bring_no_columns(spark: SparkSession, uri: str, table: str, statement: str) -> None:
    before = file_names(uri, "*.*")
    with pytest.raises(Exception, match="no eleven"):
        spark.sql(statement.format(table))
    assert version(uri) == 1
    wait_for_files(uri, before, "*.*")
    assert spark.table(table).columns == ["id", "s"]


@pytest.mark.until("4.0", "Spark would leave out the new columns")
def test_merge_with_schema_evolution_is_refused(spark: SparkSession, uri: str, table: str) -> None:
    for statement in (MERGE, f"WITH other AS (SELECT 1) {MERGE}"):
        with pytest.raises(PySparkException, match=r"add them by ALTER TABLE \.\.\. ADD COLUMNS"):
            spark.sql(statement.format(table))
    assert version(uri) == 1


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
def test_columns_come_without_rows(spark: SparkSession, uri: str, table: str) -> None:
    none = "(SELECT * FROM wider WHERE id = 0) s"
    spark.sql(MERGE.format(table).replace("wider s", none))
    assert seen(spark, uri, "id", "s", "word") == _old(*range(10))
    assert version(uri) == 2


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
@pytest.mark.slow
@pytest.mark.parametrize("action", ["id = 1", "id = 9", "add", "append"])
def test_a_rival_is_first(spark: SparkSession, uri: str, table: str, action: str) -> None:
    def rival(key: int) -> int:
        dataset = lance_spark.open(uri)
        if key != 8 or dataset.version != 1 + ALTERS:
            return key
        if action == "add":
            dataset.add_columns(pa.schema([("word", pa.string())]))
        elif action == "append":
            lance_spark.write(pa.table({"id": [50], "s": [{"a": 50}]}), uri, mode="append")
        else:
            dataset.delete(action)
        return key

    spark.udf.register("rival_of_evolution", udf(rival, "bigint"))
    statement = MERGE.format(table).replace("wider s", "(SELECT rival_of_evolution(id) AS id, s, word FROM wider) s")
    if action != "add":
        # It has read all rows, so it is run again on the new version.
        spark.sql(statement)
        deleted = {"id = 1": [1], "id = 9": [9]}.get(action, [])
        old = [key for key in range(8) if key not in deleted]
        late = _old(50) if action == "append" else []
        assert seen(spark, uri, "id", "s", "word") == [*_old(*old), *_new(8, 9, 10, 11), *late]
        assert version(uri) == 3 + ALTERS
        return
    if ALTERS:
        pytest.skip("the column is there before the rows are read")
    before = file_names(uri)
    with pytest.raises(Exception, match="LANCE_COMMIT_CONFLICT"):
        spark.sql(statement)
    assert version(uri) == 2
    wait_for_files(uri, before)
    assert lance.dataset(uri).schema.names == ["id", "s", "word"]


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
def test_new_columns_in_a_condition(spark: SparkSession, uri: str) -> None:
    """Rows that go are looked for by tasks, in a version that does not have the column yet."""
    table = make(words(spark, 40, 1), uri, max_row_per_file="2")
    forget_sizes(uri)
    source = "SELECT 100L AS id, 'new' AS word, 0L AS part, 'x' AS more"
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME REPLACE WHERE word = 'w3' {source}")
    assert [row for row in seen(spark, uri, "id", "more") if row[1] or row[0] == 3] == [(100, "x")]
    assert version(uri) == 3


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
def test_a_branch(spark: SparkSession, root: str) -> None:
    spark.sql("CREATE TABLE lance.evolving_branch AS SELECT 1L AS id")
    spark.sql("ALTER TABLE lance.evolving_branch CREATE BRANCH dev")
    spark.sql("INSERT WITH SCHEMA EVOLUTION INTO lance.evolving_branch.branch_dev SELECT 2L AS id, 'b' AS word")
    assert spark.table("lance.evolving_branch").columns == ["id"]
    assert sorted(spark.table("lance.evolving_branch.branch_dev").collect()) == [(1, None), (2, "b")]
    spark.sql("DROP TABLE lance.evolving_branch PURGE")


@pytest.fixture
def parted(spark: SparkSession) -> Iterator[str]:
    """Rows 0 to 8 in three partitions, version 2; the view `wider` has 6 to 10 with a column more, in five."""
    spark.sql("CREATE TABLE lance.evolving_parts (id bigint, k string) PARTITIONED BY (k)")
    spark.sql("INSERT INTO lance.evolving_parts SELECT id, concat('k', id % 3) FROM range(9)")
    spark.sql("SELECT id, concat('k', id % 5) AS k, id * 2 AS more FROM range(6, 11)").createOrReplaceTempView("wider")
    yield "lance.evolving_parts"
    spark.sql("DROP TABLE lance.evolving_parts PURGE")


def _whole(root: str) -> PartitionedTable:
    return open_partitioned(DirectoryNamespace(root).table_location(("evolving_parts",)).uri)


def _parts(root: str) -> set[tuple[object, ...]]:
    """The rows, as both libraries see them."""
    table = _whole(root)
    rows: list[tuple[object, ...]] = []
    for opened in table.open_all(table.partitions()):
        dataset = lance.dataset(opened.table.store.uri, version=opened.manifest.version)
        rows += [tuple(row.values()) for row in dataset.to_table(columns=["id", "k", "more"]).to_pylist()]
    ours = [tuple(row.values()) for batch in table.scan(["id", "k", "more"]) for row in batch.to_pylist()]
    assert sorted(rows, key=str) == sorted(ours, key=str)
    assert len(set(rows)) == len(rows)
    return set(rows)


_PARTS = [(key, f"k{key % 3}", None) for key in range(9)]
_WIDER = [(key, f"k{key % 5}", key * 2) for key in range(6, 11)]


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        (MERGE, range(6)),
        ("INSERT WITH SCHEMA EVOLUTION INTO {} BY NAME SELECT more, id, k FROM wider", range(9)),
        ("INSERT WITH SCHEMA EVOLUTION OVERWRITE {} SELECT * FROM wider", ()),
        ("INSERT WITH SCHEMA EVOLUTION INTO {} REPLACE WHERE k = 'k2' SELECT * FROM wider", (0, 1, 3, 4, 6, 7)),
        ("INSERT WITH SCHEMA EVOLUTION INTO {} REPLACE WHERE id IN (1, 2, 5, 8) SELECT * FROM wider", (0, 3, 4, 6, 7)),
    ],
)
def test_partitions_get_the_columns_with_the_rows(
    spark: SparkSession, root: str, parted: str, statement: str, kept: Sequence[int]
) -> None:
    spark.sql(statement.format(parted))
    assert _parts(root) == {*(_PARTS[key] for key in kept), *_WIDER}
    assert _whole(root).version == 3
    assert spark.table(parted).count() == len(kept) + len(_WIDER)
    spark.sql(f"UPDATE {parted} SET more = -1 WHERE id = 9")
    assert (9, "k4", -1) in _parts(root)


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
def test_partitions_are_overwritten_dynamically(spark: SparkSession, root: str, parted: str) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION OVERWRITE {parted} SELECT * FROM wider WHERE k IN ('k1', 'k3')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert _parts(root) == {
        *(row for row in _PARTS if row[1] != "k1"),
        *(row for row in _WIDER if row[1] in ("k1", "k3")),
    }
    assert _whole(root).version == 3


@pytest.mark.since("4.2", "INSERT WITH SCHEMA EVOLUTION")
@pytest.mark.parametrize(
    "statement", [MERGE, "INSERT WITH SCHEMA EVOLUTION INTO {} REPLACE WHERE id < 3 SELECT * FROM wider"]
)
def test_rows_of_partitions_that_fail_bring_no_columns(
    spark: SparkSession, root: str, parted: str, statement: str
) -> None:
    spark.sql("SELECT id, k, if(id = 10, raise_error('no ten'), more) AS more FROM wider").createOrReplaceTempView(
        "wide"
    )
    before = file_names(_whole(root).root)
    with pytest.raises(Exception, match="no ten"):
        spark.sql(statement.format(parted).replace("wider", "wide"))
    assert _whole(root).version == 2
    assert spark.table(parted).columns == ["id", "k"]
    wait_for_files(_whole(root).root, before)


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
@pytest.mark.slow
@pytest.mark.parametrize("action", ["id = 7", "id = 1", "add"])
def test_rivals_in_partitions(spark: SparkSession, root: str, parted: str, action: str) -> None:
    """A statement that has read rows which others change is run again; one whose columns change fails."""
    uri = _whole(root).root

    def rival(key: int) -> int:
        table = open_partitioned(uri)
        if key != 8 or table.version != 2 + ALTERS:
            return key
        if action == "add":
            edit_columns(table, lambda schema, first: with_added(schema, pa.schema([("o", pa.int8())]), first).schema)
        else:
            delete_rows(table, action)
        return key

    spark.udf.register("rival_in_partitions", udf(rival, "bigint"))
    source = "(SELECT rival_in_partitions(id) AS id, k, more FROM wider) s"
    statement = MERGE.format(parted).replace("wider s", source)
    if action != "add":
        spark.sql(statement)
        deleted = int(action.split()[-1])
        assert _parts(root) == {*(_PARTS[key] for key in range(6) if key != deleted), *_WIDER}
        assert _whole(root).version == 4 + ALTERS
        return
    if ALTERS:
        pytest.skip("the column is there before the rows are read")
    with pytest.raises(Exception, match="LANCE_COMMIT_CONFLICT"):
        spark.sql(statement)
    assert _whole(root).version == 3
    assert "more" not in spark.table(parted).columns
    # What is left of the version that failed is in nobody's way.
    spark.sql(MERGE.format(parted))
    assert {row for row in _parts(root) if row[2] is not None} == set(_WIDER)


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
@pytest.mark.slow
def test_statements_read_what_they_read_before(spark: SparkSession, root: str) -> None:
    """Spark resolves tables once more for a statement that writes: versions, caches and other catalogs stay."""
    spark.sql("CREATE TABLE lance.first AS SELECT 1L AS id")
    spark.sql("INSERT INTO lance.first VALUES (2)")
    spark.sql("CREATE TABLE lance.second (id bigint)")
    spark.sql("SELECT * FROM lance.first VERSION AS OF 1").writeTo("lance.second").append()
    spark.read.option("version", 1).table("lance.first").writeTo("lance.second").append()
    spark.sql("CREATE TABLE of_another_catalog USING parquet AS SELECT 7L AS id")
    try:
        spark.sql("INSERT INTO lance.second SELECT id FROM of_another_catalog")
        assert sorted(spark.table("lance.second").collect()) == [(1,), (1,), (7,)]
        spark.sql("CACHE TABLE lance.second")
        spark.sql("DELETE FROM lance.second WHERE id IN (SELECT id FROM lance.first)")
        assert spark.table("lance.second").collect() == [(7,)]
        spark.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO lance.second t USING (SELECT id, 'w' AS word FROM of_another_catalog) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
        )
        assert spark.table("lance.second").collect() == [(7, "w")]
    finally:
        spark.sql("DROP TABLE of_another_catalog")
    for name in ("first", "second"):
        spark.sql(f"DROP TABLE lance.{name} PURGE")
