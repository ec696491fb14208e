"""CALL lance.system.import_table and CONVERT TO LANCE: every row of the source is there once, or no table is."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

_NUMBERS = itertools.count()


@pytest.fixture
def name(spark: SparkSession) -> str:
    """The name of a table that is not there, in a namespace of its own."""
    namespace = f"imp_{next(_NUMBERS)}"
    spark.sql(f"CREATE NAMESPACE lance.{namespace}")
    return f"{namespace}.t"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "source")


def call(spark: SparkSession, source: str, name: str, *more: str) -> Row:
    arguments = ", ".join([f"source => '{source}'", f"table => '{name}'", *more])
    return spark.sql(f"CALL lance.system.import_table({arguments})").collect()[0]


def check_same(spark: SparkSession, source: str, name: str) -> None:
    there, here = (_comparable(spark.table(table)) for table in (source, f"lance.{name}"))
    assert here.columns == there.columns
    assert [item.dataType for item in here.schema] == [item.dataType for item in there.schema]
    assert there.exceptAll(here).collect() == []
    assert here.exceptAll(there).collect() == []


def _comparable(rows: DataFrame) -> DataFrame:
    """Rows with arrays in place of maps, which Spark does not compare."""
    kinds = {item.name: item.dataType.typeName() for item in rows.schema}
    return rows.selectExpr(
        *(f"map_entries(`{name}`) `{name}`" if kinds[name] == "map" else f"`{name}`" for name in kinds)
    )


def place(spark: SparkSession, name: str) -> Path:
    rows = spark.sql(f"DESCRIBE EXTENDED lance.{name}").where("col_name = 'Location'").collect()
    return Path(rows[0].data_type.removeprefix("file://"))


def files(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("part-*"))


def tables(spark: SparkSession, name: str) -> list[str]:
    return [row.tableName for row in spark.sql(f"SHOW TABLES IN lance.{name.partition('.')[0]}").collect()]


class Damage:
    """A file that cannot be read until it is repaired; its size and its time stay."""

    def __init__(self, path: Path) -> None:
        self.path, self.content, self.times = path, path.read_bytes(), path.stat()
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        self._write(b"\0" * len(self.content))

    def repair(self) -> None:
        self._write(self.content)

    def _write(self, content: bytes) -> None:
        self.path.write_bytes(content)
        os.utime(self.path, ns=(self.times.st_atime_ns, self.times.st_mtime_ns))


def staged(root: str, name: str) -> list[Path]:
    """The places of imports to `name` that have not ended."""
    return [path.parent for path in Path(root).glob("*/_import.json") if name.replace(".", "$") in path.parent.name]


@pytest.fixture
def half(spark: SparkSession, root: str, name: str, folder: str) -> Iterator[Damage]:
    """A folder of six files whose import has failed at the fourth."""
    spark.range(0, 60, 1, 6).selectExpr("id", "cast(id % 7 AS FLOAT) AS x", "concat('n', id) AS s").write.parquet(
        folder
    )
    damage = Damage(files(folder)[3])
    with pytest.raises((PySparkException, Py4JJavaError), match=r"part-00003"):
        call(spark, f"parquet.`{folder}`", name, "max_files_per_step => 1")
    assert tables(spark, name) == []
    (at,) = staged(root, name)
    assert lance.dataset(str(at)).count_rows() == 30
    yield damage
    for path in staged(root, name):
        shutil.rmtree(path)


def test_a_folder_becomes_a_table(spark: SparkSession, root: str, name: str, folder: str) -> None:
    spark.range(0, 100, 1, 5).selectExpr("id", "concat('n', id) AS `a b`", "id / 4 AS x").write.parquet(folder)
    row = call(spark, f"parquet.`{folder}`", name, "max_files_per_step => 2")
    sizes = [path.stat().st_size for path in files(folder)]
    assert (row.rows_imported, row.files_read, row.bytes_read, row.dry_run) == (100, 5, sum(sizes), False)
    check_same(spark, f"parquet.`{folder}`", name)
    at = place(spark, name)
    copy = lance.dataset(str(at))
    assert copy.to_table().sort_by("id").to_pylist() == [{"id": n, "a b": f"n{n}", "x": n / 4} for n in range(100)]
    assert row.bytes_written == sum(path.stat().st_size for path in (at / "data").iterdir())
    assert [version["version"] for version in copy.versions()] == [1, 2, 3, 4, 5]
    assert copy.config() == {}
    assert staged(root, name) == []


def test_a_dry_run_makes_nothing(spark: SparkSession, root: str, name: str, folder: str) -> None:
    spark.range(30).selectExpr("id", "id % 3 AS k").write.partitionBy("k").parquet(folder)
    before = sorted(Path(root).rglob("*"))
    row = call(spark, f"parquet.`{folder}`", name, "dry_run => true")
    assert (row.rows_imported, row.files_read, row.bytes_written, row.dry_run) == (30, len(files(folder)), None, True)
    assert row.definition == f"CREATE TABLE lance.{name} (id BIGINT, k INT) USING lance PARTITIONED BY (`k`)"
    assert sorted(Path(root).rglob("*")) == before


def test_the_statement_is_the_call(spark: SparkSession, name: str, folder: str) -> None:
    spark.range(10).write.orc(folder)
    statement = f"CONVERT TO LANCE orc.`{folder}` AS lance.{name}"
    assert spark.sql(f"{statement} WITH (dry_run = true)").collect()[0].rows_imported == 10
    assert tables(spark, name) == []
    assert spark.sql(statement).collect()[0].rows_imported == 10
    check_same(spark, f"orc.`{folder}`", name)
    with pytest.raises(AnalysisException, match="exists; import makes new tables only"):
        spark.sql(statement)


TYPES = """
    CAST(id % 2 = 0 AS BOOLEAN) AS b, CAST(id AS TINYINT) AS i8, CAST(id AS SMALLINT) AS i16, CAST(id AS INT) AS i32,
    id AS i64, CAST(id / 4 AS DECIMAL(9, 2)) AS m, CAST(id AS DECIMAL(38, 6)) AS mm,
    CASE id WHEN 1 THEN CAST('NaN' AS FLOAT) WHEN 2 THEN CAST('-0.0' AS FLOAT) ELSE CAST(id AS FLOAT) END AS f,
    CASE id WHEN 1 THEN CAST('NaN' AS DOUBLE) WHEN 2 THEN CAST('-0.0' AS DOUBLE) ELSE CAST(id AS DOUBLE) END AS d,
    concat('ü', id) AS s, CAST(concat('x', id) AS BINARY) AS y, date_add(DATE '1969-12-30', CAST(id AS INT)) AS dt,
    TIMESTAMP '1969-12-31 23:59:59.999999' + make_dt_interval(id) AS ts,
    TIMESTAMP_NTZ '2026-03-29 02:30:00' + make_dt_interval(id) AS tn,
    array(id, NULL) AS a, array(CAST('-0.0' AS DOUBLE)) AS ad, map(concat('k', id), array(id)) AS mp,
    named_struct('x', id, 'y', array(named_struct('z', concat('s', id)))) AS st,
    array(map('k', CAST(id AS FLOAT))) AS am,
    make_dt_interval(id) AS di, make_ym_interval(CAST(id AS INT)) AS ym
"""


def test_values_of_all_types(spark: SparkSession, name: str, folder: str) -> None:
    nulls = "SELECT " + ", ".join(f"IF(id = 5, NULL, `{column}`) AS `{column}`" for column in _type_names(spark))
    spark.sql(f"{nulls} FROM (SELECT id, {TYPES} FROM range(8))").write.parquet(folder)
    call(spark, f"parquet.`{folder}`", name)
    there, here = spark.table(f"parquet.`{folder}`"), spark.table(f"lance.{name}")
    assert here.schema.simpleString() == there.schema.simpleString()
    texts = [
        {tuple(map(str, row)) for row in rows.selectExpr("CAST(struct(*) AS STRING)").collect()}
        for rows in (there, here)
    ]
    assert len(texts[0]) == 8
    assert texts[0] == texts[1]
    values = lance.dataset(str(place(spark, name))).to_table(columns=["d", "i64"]).to_pydict()
    assert str(values["d"][values["i64"].index(2)]) == "-0.0"


def _type_names(spark: SparkSession) -> list[str]:
    return spark.sql(f"SELECT {TYPES} FROM range(0)").columns


def test_partitions_keep_nulls_and_escaped_values(spark: SparkSession, name: str, folder: str) -> None:
    values = "VALUES (1, 'a/b'), (2, NULL), (3, 'x=y %2F'), (4, 'b+c'), (5, 'ü:*?'), (6, 'a/b') AS t(id, k)"
    spark.sql(f"SELECT id, k FROM {values}").write.partitionBy("k").parquet(folder)
    row = call(spark, f"parquet.`{folder}`", name, "max_files_per_step => 1")
    assert row.rows_imported == 6
    check_same(spark, f"parquet.`{folder}`", name)
    parts = [path.parent for path in place(spark, name).rglob("_versions") if path.parent.name != "__manifest"]
    assert sum(lance.dataset(str(path)).count_rows() for path in parts) == 6
    values = {row.k for row in spark.sql(f"SELECT DISTINCT k FROM parquet.`{folder}`").collect()}
    assert (len(values), spark.table(f"lance.{name}.partitions").count()) == (5, 5)
    assert values >= {"a/b", None, "x=y %2F", "ü:*?"}


def test_a_catalog_table_keeps_its_definition(spark: SparkSession, name: str) -> None:
    table = f"spark_catalog.default.src_{next(_NUMBERS)}"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT COMMENT 'the key', c CHAR(3), n INT DEFAULT 7, day DATE) USING parquet "
        "PARTITIONED BY (day) CLUSTERED BY (id) INTO 2 BUCKETS COMMENT 'a table' "
        "TBLPROPERTIES ('team' = 'x', 'parquet.compression' = 'gzip')"
    )
    try:
        spark.sql(f"INSERT INTO {table} VALUES (1, 'a', NULL, DATE '2026-01-01'), (2, NULL, 3, NULL)")
        row = call(spark, table, name)
        check_same(spark, table, name)
        assert [text.partition(":")[0] for text in row.not_imported] == ["bucketing", "property parquet.compression"]
        described = {item.col_name: item for item in spark.sql(f"DESCRIBE lance.{name}").collect()}
        assert (described["id"].comment, described["c"].data_type) == ("the key", "char(3)")
        properties = {item.key: item.value for item in spark.sql(f"SHOW TBLPROPERTIES lance.{name}").collect()}
        assert (properties["team"], "parquet.compression" in properties) == ("x", False)
        assert "a table" in {item.data_type for item in spark.sql(f"DESCRIBE EXTENDED lance.{name}").collect()}
        spark.sql(f"INSERT INTO lance.{name} (id, day) VALUES (3, DATE '2026-01-02')")
        assert spark.sql(f"SELECT n FROM lance.{name} WHERE id = 3").collect() == [Row(n=7)]
    finally:
        spark.sql(f"DROP TABLE {table}")


def test_no_files_and_no_rows(spark: SparkSession, name: str, folder: str) -> None:
    table = f"spark_catalog.default.src_{next(_NUMBERS)}"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING) USING csv")
    try:
        assert call(spark, table, name).rows_imported == 0
        check_same(spark, table, name)
    finally:
        spark.sql(f"DROP TABLE {table}")
    spark.range(3).where("id < 0").write.parquet(folder)
    assert call(spark, f"parquet.`{folder}`", f"{name}_empty").rows_imported == 0
    assert spark.table(f"lance.{name}_empty").count() == 0


def test_a_view_comes_as_a_whole(spark: SparkSession, name: str) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW imported AS SELECT id, id % 3 AS k FROM range(20) WHERE id > 4")
    row = call(spark, "imported", name)
    assert (row.rows_imported, row.files_read, row.bytes_read) == (15, None, None)
    check_same(spark, "imported", name)


def test_an_import_that_failed_goes_on(spark: SparkSession, half: Damage, root: str, name: str, folder: str) -> None:
    (at,) = staged(root, name)
    begun = lance.dataset(str(at)).version
    half.repair()
    row = call(spark, f"parquet.`{folder}`", name)
    assert (row.rows_imported, row.files_read) == (60, 6)
    check_same(spark, f"parquet.`{folder}`", name)
    copy = lance.dataset(str(place(spark, name)))
    assert sorted(copy.to_table()["id"].to_pylist()) == list(range(60))
    assert copy.version == begun + 3 + 1  # Three more steps, and the mark is taken away.


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ({"updates": {"x": "x + 1"}, "where": "id = 13"}, "column 'x' differs"),
        ({"updates": {"s": "cast(NULL as string)"}, "where": "id = 13"}, "column 's' differs"),
        (None, "the source has 60 rows and the copy 59"),
    ],
)
def test_a_wrong_copy_is_noticed(
    spark: SparkSession,
    half: Damage,
    root: str,
    name: str,
    folder: str,
    harm: dict[str, object] | None,
    message: str,
) -> None:
    (at,) = staged(root, name)
    copy = lance.dataset(str(at))
    copy.delete("id = 13") if harm is None else copy.update(**harm)  # type: ignore[arg-type]
    half.repair()
    with pytest.raises(AnalysisException, match=message):
        call(spark, f"parquet.`{folder}`", name)
    assert (tables(spark, name), staged(root, name)) == ([], [])
    assert call(spark, f"parquet.`{folder}`", name).rows_imported == 60
    check_same(spark, f"parquet.`{folder}`", name)


def test_a_source_that_changes_is_refused(spark: SparkSession, half: Damage, root: str, name: str, folder: str) -> None:
    half.repair()
    added = Path(folder) / "part-zzz.parquet"
    shutil.copy(files(folder)[0], added)
    with pytest.raises(AnalysisException, match=r"has changed since its import .*part-zzz.parquet is new"):
        call(spark, f"parquet.`{folder}`", name)
    added.unlink()
    moved = files(folder)[5]
    moved.rename(Path(folder) / f".{moved.name}.hidden")
    with pytest.raises(AnalysisException, match=f"{moved.name} was removed"):
        call(spark, f"parquet.`{folder}`", name)
    other = f"{folder}_other"
    spark.range(3).write.parquet(other)
    with pytest.raises(AnalysisException, match="has begun; go on with it, or give restart"):
        call(spark, f"parquet.`{other}`", name)
    assert tables(spark, name) == []
    assert call(spark, f"parquet.`{folder}`", name, "restart => true").rows_imported == 50
    check_same(spark, f"parquet.`{folder}`", name)


def test_a_name_can_be_imported_to_again(spark: SparkSession, name: str, folder: str) -> None:
    """The second table does not come to the place of the first one, which has another name by then, or is dropped."""
    spark.range(5).write.parquet(folder)
    call(spark, f"parquet.`{folder}`", name)
    spark.sql(f"ALTER TABLE lance.{name} RENAME TO lance.{name}_old")
    call(spark, f"parquet.`{folder}`", name)
    spark.sql(f"DELETE FROM lance.{name} WHERE id < 3")
    spark.sql(f"DROP TABLE lance.{name}")
    assert call(spark, f"parquet.`{folder}`", name).rows_imported == 5
    assert spark.table(f"lance.{name}").count() == spark.table(f"lance.{name}_old").count() == 5


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("csv.`/data/x`", "files of csv do not say the types of their columns"),
        ("delta.`/data/x`", "this session cannot read delta"),
        ("iceberg.`/data/x`", "this session cannot read iceberg"),
        ("/data/x", "is a path; write its format before it"),
        ("lance.{namespace}.there", "is a Lance table; CREATE TABLE ... AS SELECT copies it"),
    ],
)
def test_sources_that_are_refused(spark: SparkSession, name: str, source: str, message: str) -> None:
    namespace = name.partition(".")[0]
    spark.sql(f"CREATE TABLE lance.{namespace}.there (id INT)")
    with pytest.raises(AnalysisException, match=message):
        call(spark, source.format(namespace=namespace), name)
    assert tables(spark, name) == ["there"]


def test_a_setting_that_loses_files_is_refused(spark: SparkSession, name: str, folder: str) -> None:
    spark.range(5).write.parquet(folder)
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(AnalysisException, match=r"with spark.sql.files.ignoreCorruptFiles Spark leaves out files"):
            call(spark, f"parquet.`{folder}`", name)
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
