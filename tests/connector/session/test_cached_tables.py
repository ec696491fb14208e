"""Cached tables show what the application has written, by whatever name the plan and the write know the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from tests.support.connector.streams import run
from tests.support.history_seeds import FIRST_SEED

pytestmark = pytest.mark.since("4.1", "cached plans that read the newest version")

PATHS = {
    "path": "{}",
    "slash": "{}/",
    "file:": "file:{}",
    "file://": "file://{}",
    "link": "{}_link",
}
NAMES = ("name", "sql path", *PATHS)


class Table:
    """A table with a name, a path and a link to it; its rows are `id`, `p`."""

    def __init__(self, spark: SparkSession, root: str, *, partitioned: bool) -> None:
        self.spark = spark
        self.path = f"{root}/cached_{'parts' if partitioned else 'plain'}"
        clause = "PARTITIONED BY (p)" if partitioned else ""
        self.name = f"lance.{Path(self.path).name}"
        spark.sql(f"CREATE TABLE {self.name} (id BIGINT, p BIGINT) {clause} LOCATION '{self.path}'")
        spark.sql(f"INSERT INTO {self.name} VALUES (1, 1), (2, 2), (3, 1)")
        Path(f"{self.path}_link").symlink_to(self.path)

    def text(self, form: str) -> str:
        """The table in a statement."""
        return {"name": self.name, "sql path": f"lance.`{self.path}`"}.get(form) or f"lance.`{self.uri(form)}`"

    def uri(self, form: str) -> str:
        """The table in `load` and `save`."""
        return PATHS.get(form, "{}").format(self.path)

    def frame(self, form: str) -> DataFrame:
        """A new read of the table."""
        if form in PATHS:
            return self.spark.read.format("lance").load(self.uri(form))
        return self.spark.table(self.text(form))

    def rows(self) -> list[tuple[object, ...]]:
        """The rows that the table has."""
        stored = lance_spark.open(self.path).to_table().to_pylist()
        return sorted(tuple(row.values()) for row in stored)


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select(*frame.columns).collect())


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession, root: str) -> Iterator[Table]:
    made = Table(spark, root, partitioned=request.param)
    yield made
    spark.catalog.clearCache()
    spark.sql(f"DROP TABLE IF EXISTS {made.name} PURGE")


@pytest.fixture(autouse=True)
def _nothing_cached(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


def cached(table: Table, form: str) -> DataFrame:
    """A cached read of the table whose rows are in memory."""
    frame = table.frame(form).cache()
    assert rows_of(frame) == table.rows()
    return frame


def seeded_pairs(few: int) -> list[tuple[str, str]]:
    pairs = [(cached, written) for cached, written in product(NAMES, NAMES) if cached != written]
    return Random(FIRST_SEED).sample(pairs, few)


@pytest.mark.parametrize(("kept", "written"), seeded_pairs(12))
def test_a_write_by_one_name_refreshes_what_is_cached_by_another(table: Table, kept: str, written: str) -> None:
    frame = cached(table, kept)
    new = table.spark.sql("SELECT 10L AS id, 2L AS p")
    if written in PATHS:
        new.write.format("lance").mode("append").save(table.uri(written))
    else:
        new.writeTo(table.text(written)).append()
    expected = table.rows()
    assert rows_of(frame) == expected
    assert rows_of(table.frame(kept)) == expected
    assert rows_of(table.frame(written)) == expected


def _stream(table: Table, form: str, tmp_path: Path) -> None:
    source = str(tmp_path / "source")
    lance_spark.write(pa.table({"id": [30], "p": [1]}), source)
    target = table.name if form == "name" else table.uri(form)
    run(table.spark.readStream.format("lance").load(source), target, tmp_path / "checkpoint")


def _overwrite(table: Table, form: str, _tmp_path: Path) -> None:
    rows = table.spark.sql("SELECT 40L AS id, 1L AS p UNION ALL SELECT 41L, 2L")
    rows.write.format("lance").mode("overwrite").save(table.uri(form))


def _statement(text: str) -> Callable[[Table, str, Path], None]:
    def change(table: Table, form: str, _tmp_path: Path) -> None:
        table.spark.sql(text.format(t=table.text(form)))

    return change


CHANGES = {
    "insert": _statement("INSERT INTO {t} VALUES (20, 1), (21, 2), (22, 2)"),
    "insert overwrite": _statement("INSERT OVERWRITE {t} VALUES (23, 1), (24, 2)"),
    "replace where": _statement("INSERT INTO {t} REPLACE WHERE p = 1 VALUES (25, 1)"),
    "stream": _stream,
    "delete": _statement("DELETE FROM {t} WHERE id % 2 = 0"),
    "delete partition": _statement("DELETE FROM {t} WHERE p = 2"),
    "update": _statement("UPDATE {t} SET id = id + 100 WHERE id < 1000"),
    "merge": _statement(
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (1L, 1L), (50L, 2L) AS v(id, p)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    ),
    "optimize": _statement("OPTIMIZE {t}"),
    "restore": _statement("RESTORE {t} TO VERSION AS OF 2"),
    "overwrite by path": _overwrite,
    "rename column": _statement("ALTER TABLE {t} RENAME COLUMN id TO key"),
    "rename back": _statement("ALTER TABLE {t} RENAME COLUMN key TO id"),
    "add column": _statement("ALTER TABLE {t} ADD COLUMN extra INT"),
    "drop column": _statement("ALTER TABLE {t} DROP COLUMN extra"),
    "truncate": _statement("TRUNCATE TABLE {t}"),
    "insert again": _statement("INSERT INTO {t} VALUES (60, 1)"),
}


@pytest.mark.slow
def test_every_change_refreshes_what_is_cached_by_other_names(table: Table, tmp_path: Path) -> None:
    pick = Random(FIRST_SEED + 1)
    for verb, change in CHANGES.items():
        form, *kept = pick.sample(NAMES, 3)
        for other in kept:
            cached(table, other)
        change(table, form, tmp_path)
        for other in (*kept, form):
            assert rows_of(table.frame(other)) == table.rows(), f"{verb} by {form}, cached by {kept}, read by {other}"
        table.spark.catalog.clearCache()


@pytest.mark.slow
def test_procedures_refresh_metadata_tables(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    name = f"lance.`{uri}`"
    for kind, change in {
        "versions": f"INSERT INTO {name} VALUES (7)",
        "refs": f"ALTER TABLE {name} CREATE TAG first AS OF VERSION 1",
        "indexes": f"CREATE INDEX by_id ON {name} (id)",
        "fragments": f"CALL lance.system.optimize('{uri}')",
    }.items():
        spark.table(f"{name}.{kind}").cache().collect()
        spark.sql(change)
        uncached = spark.newSession().sql(f"SELECT * FROM {name}.{kind} LIMIT 1000").collect()
        assert spark.table(f"{name}.{kind}").collect() == uncached, kind


def test_branches_are_refreshed_by_themselves(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    spark.sql(f"ALTER TABLE lance.`{uri}` CREATE BRANCH side")
    reader = spark.read.format("lance").option("branch", "side")
    side, main = reader.load(f"file:{uri}").cache(), spark.read.format("lance").load(f"file:{uri}").cache()
    assert side.count() == main.count() == 3
    spark.sql(f"INSERT INTO lance.`{uri}`.branch_side VALUES (4), (5)")
    assert side.count() == reader.load(uri).count() == 5
    assert main.count() == 3
    assert _is_in_memory(spark, main), "a write to another branch keeps what is cached"
    spark.range(1).write.format("lance").mode("append").save(uri)
    assert (side.count(), main.count()) == (5, 4)


def _is_in_memory(spark: SparkSession, frame: DataFrame) -> bool:
    """Whether the rows of a cached frame have been read."""
    manager = spark._jsparkSession.sharedState().cacheManager()
    found = manager.lookupCachedData(frame._jdf)
    return bool(found.isDefined() and found.get().cachedRepresentation().cacheBuilder().isCachedColumnBuffersLoaded())


def test_fixed_versions_and_other_tables_stay_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    uri, other = str(tmp_path / "t"), str(tmp_path / "t2")
    for each in (uri, other):
        spark.range(3).write.format("lance").save(each)
    now = spark.sql("SELECT current_timestamp()").first()[0]
    frames = [
        spark.read.format("lance").option("version", 1).load(uri),
        spark.read.format("lance").option("timestampAsOf", str(now)).load(uri),
        spark.sql(f"SELECT * FROM lance.`{uri}` VERSION AS OF 1"),
        spark.read.format("lance").load(other),
    ]
    for frame in frames:
        assert frame.cache().count() == 3
    spark.range(3, 5).write.format("lance").mode("append").save(f"file:{uri}")
    spark.sql(f"OPTIMIZE lance.`{uri}`")
    assert [frame.count() for frame in frames] == [3, 3, 3, 3]
    assert all(_is_in_memory(spark, frame) for frame in frames)
    assert spark.read.format("lance").load(uri).count() == 5


def test_plans_over_a_cached_table_are_refreshed_with_it(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    table = spark.read.format("lance").load(uri).cache()
    table.createOrReplaceTempView("cached_rows")
    spark.sql("CACHE TABLE cached_sum AS SELECT sum(id) AS total FROM cached_rows")
    inside = f"SELECT (SELECT max(id) FROM lance.`file:{uri}`) AS top"
    spark.sql(inside).cache().collect()
    assert spark.table("cached_sum").first()[0] == 3
    spark.sql(f"INSERT INTO lance.`{uri}` VALUES (100)")
    assert spark.table("cached_sum").first()[0] == 103
    assert spark.sql(inside).first()[0] == 100
    spark.sql("DROP VIEW cached_sum")


def test_other_sessions_see_the_write(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    other = spark.newSession()
    assert other.read.format("lance").load(f"file:{uri}").cache().count() == 3
    spark.sql(f"INSERT INTO lance.`{uri}` VALUES (7)")
    assert other.read.format("lance").load(f"file:{uri}").count() == 4


def test_tables_of_the_session_catalog(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    spark.sql(f"CREATE TABLE of_session USING lance LOCATION '{uri}'")
    try:
        spark.sql("CACHE TABLE of_session")
        spark.sql(f"DELETE FROM lance.`{uri}` WHERE id = 0")
        assert spark.table("of_session").count() == 2
    finally:
        spark.sql("DROP TABLE of_session")


def test_tables_that_are_dropped_and_made_again(spark: SparkSession, root: str) -> None:
    path = f"{root}/made_again"
    create = f"CREATE TABLE lance.made_again LOCATION '{path}' AS SELECT id FROM range({{}})"
    spark.sql(create.format(3))
    assert spark.read.format("lance").load(path).cache().count() == 3
    spark.sql("DROP TABLE lance.made_again PURGE")
    with pytest.raises(PySparkException, match="there is no Lance table"):
        spark.read.format("lance").load(path).count()
    spark.sql(create.format(5))
    assert spark.read.format("lance").load(path).cache().count() == 5
    spark.sql("CREATE OR REPLACE TABLE lance.made_again AS SELECT id FROM range(4)")
    assert spark.read.format("lance").load(path).count() == 4
    spark.sql("CREATE NAMESPACE lance.cached_space")
    spark.sql(f"CREATE TABLE lance.cached_space.t LOCATION '{root}/in_space' AS SELECT id FROM range(3)")
    assert spark.read.format("lance").load(f"{root}/in_space").cache().count() == 3
    spark.sql("DROP NAMESPACE lance.cached_space CASCADE")
    with pytest.raises(PySparkException, match="there is no Lance table"):
        spark.read.format("lance").load(f"{root}/in_space").count()


@pytest.mark.parametrize("form", ["name", "sql path"])
def test_refresh_table_shows_what_other_programs_wrote(table: Table, form: str) -> None:
    frames = [cached(table, other) for other in ("path", "link", "name")]
    lance_spark.open(table.path).append(pa.table({"id": [77], "p": [1]}))
    table.spark.sql(f"REFRESH TABLE {table.text(form)}")
    assert all(rows_of(frame) == table.rows() for frame in frames)
    lance_spark.open(table.path).append(pa.table({"id": [78], "p": [1]}))
    table.spark.catalog.refreshTable(table.text(form))
    assert all(rows_of(frame) == table.rows() for frame in frames)


def test_a_cached_search_is_not_taken_for_the_table(spark: SparkSession, uri: str) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0, 0, 1, 1], pa.float32()), 2)
    lance_spark.write(pa.table({"id": [1, 2], "v": vectors}), uri)
    search = f"FROM vector_search('lance.`{uri}`', array(0.0, 0.0), 1)"
    assert spark.sql(search).cache().count() == 1
    assert spark.table(f"lance.`{uri}`").count() == 2
    spark.sql(f"INSERT INTO lance.`{uri}` VALUES (3, array(0.0, 0.0))")
    assert spark.table(f"lance.`{uri}`").columns == ["id", "v"]
    assert spark.table(f"lance.`{uri}`").count() == 3
