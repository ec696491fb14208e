"""Every known option and property has an effect, is refused, or is documented and logged as without effect.

`proves` registers the check of a name. The names come from the registries of the package, so an option that is added
without a check fails `test_every_option`. Each check gets a plain and a partitioned table.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import lance
import pytest
from lance.namespace import RestAdapter
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from lance_spark.spark import catalog_options, options, property_names
from lance_spark.spark import option_names as known
from lance_spark.spark.column_properties import SUFFIXES, metadata_key
from lance_spark.spark.session import CATALOG_CLASS

KNOWN: Mapping[str, frozenset[str]] = {
    "read": frozenset(known.READ),
    "write": frozenset(known.WRITE),
    "catalog": frozenset(catalog_options.CATALOG),
    "property": property_names.TABLE_OPTIONS | property_names.OF_ONE_WRITE | property_names._OTHERS,
    "column": frozenset(SUFFIXES),
    "refused": frozenset(known.OF_JVM_CONNECTOR) | known.OF_STREAMS,
}


@dataclass(frozen=True)
class Tables:
    """The tables of one check.

    Attributes:
        by: the clause PARTITIONED BY, empty for plain tables.
        read: a table with the ids 0 to 199, the later half of which came after the version `first`, named by the tag
            `one`.
        new: a name that is free, in a catalog of the session.
        path: a path without a table.
    """

    spark: SparkSession
    by: str
    read: str
    first: int
    new: str
    path: str

    def frames(self, **options: str) -> list[DataFrame]:
        """The table `read` with options, by path and by name."""
        reader = self.spark.read.options(**options)
        return [reader.format("lance").load(location(self.spark, self.read)), reader.table(self.read)]

    def create(self, *properties: str, columns: str = "id BIGINT, k STRING") -> None:
        """Makes the table `new`."""
        clause = f"TBLPROPERTIES ({', '.join(properties)})" if properties else ""
        self.spark.sql(f"CREATE TABLE {self.new} ({columns}) {self.by} {clause}")

    def save(self, rows: str, mode: str = "errorifexists", **options: str) -> None:
        """Writes the rows of a query to `path`, which makes the table unless `mode` says otherwise."""
        writer = self.spark.sql(rows).write.format("lance").mode(mode).options(**options)
        (writer.partitionBy("k") if self.by else writer).save(self.path)


Check = Callable[[Tables, str], None]
CHECKS: dict[tuple[str, str], Check] = {}


def proves(group: str, *names: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        for name in names:
            assert (group, name) not in CHECKS
            CHECKS[group, name] = check
        return check

    return register


def location(spark: SparkSession, name: str) -> str:
    row = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").first()
    assert row is not None
    return str(row.data_type)


def data_files(where: str) -> set[Path]:
    return {path for path in Path(where).rglob("*.lance") if path.is_file() and "__manifest" not in path.parts}


def datasets(where: str) -> list[lance.LanceDataset]:
    """The table, or its partitions, as the reference library sees them."""
    folders = {path.parent.parent for path in Path(where).rglob("_versions/*.manifest")}
    return [lance.dataset(str(path)) for path in sorted(folders) if path.name != "__manifest"]


def batches_read(frame: DataFrame) -> int:
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return int(leaves.head().metrics().apply("batches_read").value())


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture(scope="module", params=["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def read_table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[tuple[str, str, int]]:
    name = "lance.effects_read"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k STRING) {request.param}")
    rows = "SELECT id, if(id % 2 = 0, 'a', 'b') FROM range({}, {}, 1, 1)"
    spark.sql(f"INSERT INTO {name} {rows.format(0, 100)}")
    first = max(row.version for row in spark.sql(f"DESCRIBE HISTORY {name}").collect())
    spark.sql(f"ALTER TABLE {name} CREATE TAG one AS OF VERSION {first}")
    if not request.param:
        spark.sql(f"ALTER TABLE {name} CREATE BRANCH dev AS OF VERSION {first}")
    spark.sql(f"INSERT INTO {name} {rows.format(100, 200)}")
    yield request.param, name, first
    spark.sql(f"DROP TABLE {name} PURGE")


@pytest.fixture
def tables(spark: SparkSession, read_table: tuple[str, str, int], tmp_path: Path) -> Tables:
    # Spark keeps a catalog as it was when it was first asked for.
    catalog = re.sub(r"\W", "_", f"e_{tmp_path.name}")
    spark.conf.set(f"spark.sql.catalog.{catalog}", CATALOG_CLASS)
    spark.conf.set(f"spark.sql.catalog.{catalog}.root", str(tmp_path / "root"))
    return Tables(spark, *read_table, f"{catalog}.t", str(tmp_path / "path"))


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in KNOWN for name in sorted(KNOWN[group])])
def test_every_option(tables: Tables, group: str, name: str) -> None:
    assert (group, name) in CHECKS, f"{group} option {name} has no check"
    CHECKS[group, name](tables, name)


def test_the_registries_and_the_documentation_know_the_same() -> None:
    assert set(CHECKS) == {(group, name) for group, names in KNOWN.items() for name in names}
    text = (Path(__file__).parents[2] / "docs" / "options.md").read_text().lower()
    for group in ("read", "write", "catalog", "property"):
        for name in KNOWN[group]:
            assert name.startswith("lance.auto_cleanup.") or re.search(rf"[`.]{re.escape(name)}`", text), (group, name)
    for suffix in KNOWN["column"]:
        assert f".{suffix.rpartition('.')[2]}`" in text, suffix
    without = [line for line in text.splitlines() if "without effect" in line]
    for name in (*known.WITHOUT_EFFECT, *known.WITHOUT_EFFECT_IN_CONNECTOR):
        assert any(f"`{name}`" in line for line in without), name


def test_every_field_of_the_dataclasses_is_set_by_an_option() -> None:
    collected = {"column_properties", "storage_options", "without_effect", "headers"}
    for kind, registry in (
        (options.ReadOptions, known.READ),
        (options.WriteOptions, known.WRITE),
        (catalog_options.CatalogOptions, catalog_options.CATALOG),
    ):
        named = {option.attribute for option in registry.values()} - {None}
        assert {item.name for item in fields(kind)} - collected == named


# Reading


@proves("read", "path")
def _path_of_a_read(tables: Tables, name: str) -> None:
    uri = location(tables.spark, tables.read)
    assert tables.spark.read.format("lance").option(name, uri).load().count() == 200
    with pytest.raises(AnalysisException, match="no path is given"):
        tables.spark.read.format("lance").load()
    assert tables.spark.read.option(name, uri).table(tables.read).count() == 200
    with pytest.raises(AnalysisException, match=r"option path has no effect on lance\.effects_read"):
        tables.spark.read.option(name, tables.path).table(tables.read).collect()


@proves("read", "branch")
def _branch_of_a_read(tables: Tables, name: str) -> None:
    if not tables.by:
        assert [frame.count() for frame in tables.frames(branch="dev")] == [100, 100]
        return
    with pytest.raises(AnalysisException, match="branch"):
        tables.spark.read.format("lance").option(name, "dev").load(location(tables.spark, tables.read)).collect()
    with pytest.raises(AnalysisException, match="branch"):
        tables.spark.read.option(name, "dev").table(tables.read).collect()


@proves("read", "version", "tag", "versionasof")
def _version(tables: Tables, name: str) -> None:
    value = "one" if name == "tag" else str(tables.first)
    assert [frame.count() for frame in tables.frames(**{name: value})] == [100, 100]


@proves("read", "timestamp", "timestampasof")
def _moment(tables: Tables, name: str) -> None:
    history = tables.spark.sql(f"DESCRIBE HISTORY {tables.read}").where(f"version = {tables.first}")
    row = history.selectExpr("cast(timestamp AS STRING) AS text").first()
    assert row is not None
    value = row.text if name == "timestampasof" else f"{row.text.replace(' ', 'T')}+00:00"
    assert [frame.count() for frame in tables.frames(**{name: value})] == [100, 100]


@proves("read", "batch_size", "max_batch_bytes")
def _batches(tables: Tables, name: str) -> None:
    usual = [batches_read(frame) for frame in tables.frames()]
    for frame, most in zip(tables.frames(**{name: "10"}), usual, strict=True):
        assert batches_read(frame) > most


@proves("read", "columns", "with_row_id", "with_row_address")
def _columns(tables: Tables, name: str) -> None:
    options = {name: "id" if name == "columns" else "true"}
    if tables.by:
        for read in (
            lambda: tables.frames(**options)[0],
            lambda: tables.spark.read.options(**options).table(tables.read),
        ):
            with pytest.raises(AnalysisException, match="chosen by SELECT, not by options"):
                read()
        return
    expected = {"columns": ["id"], "with_row_id": ["id", "k", "_rowid"], "with_row_address": ["id", "k", "_rowaddr"]}
    assert [frame.columns for frame in tables.frames(**options)] == [expected[name]] * 2


@proves("read", "zone_maps")
def _zone_maps(tables: Tables, name: str) -> None:
    tables.create()
    tables.spark.sql(f"INSERT INTO {tables.new} SELECT id, 'a' FROM range(0, 20000, 1, 1)")

    def planned_bytes(value: str) -> int:
        frame = tables.spark.read.option(name, value).table(tables.new).where("id = 7").select("id")
        assert [row.id for row in frame.collect()] == [7]
        return int(str(frame._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats().sizeInBytes()))

    assert planned_bytes("true") < planned_bytes("false")
    with pytest.raises(AnalysisException, match=name):
        planned_bytes("perhaps")


@proves("read", "use_scalar_index")
def _index_of_a_read(tables: Tables, name: str) -> None:
    tables.create()
    tables.spark.sql(f"INSERT INTO {tables.new} SELECT id, if(id % 2 = 0, 'a', 'b') FROM range(0, 20000, 1, 1)")
    tables.spark.sql(f"ALTER TABLE {tables.new} CREATE INDEX by_id USING btree (id)")

    def plan_with(value: str) -> str:
        frame = tables.spark.read.option(name, value).table(tables.new).where("id = 7").select("id")
        assert [row.id for row in frame.collect()] == [7]
        return plan_of(frame)

    assert "indexes=[by_id" in plan_with("true")
    assert "indexes=" not in plan_with("false")
    with pytest.raises(AnalysisException, match=name):
        plan_with("perhaps")


@proves("read", "filter", "limit")
def _rows(tables: Tables, name: str) -> None:
    options = {name: "id < 7" if name == "filter" else "7"}
    for frame in tables.frames(**options):
        assert len(frame.collect()) == frame.count() == 7


@proves("read", "pushdownfilters")
def _filters_are_always_pushed(tables: Tables, name: str) -> None:
    """The option is for the plug-in (tests/spark/test_pushdown.py)."""
    for value in ("true", "false"):
        for frame in tables.frames(**{name: value}):
            assert "id = 3" in plan_of(frame.where("id = 3"))


@proves("read", "topn_push_down")
def _top_n(tables: Tables, name: str) -> None:
    for value in ("true", "false"):
        for frame in tables.frames(**{name: value}):
            top = frame.orderBy("id").limit(2)
            assert ("top=2" in plan_of(top)) is (value == "true")
            assert [row.id for row in top.collect()] == [0, 1]


@proves("read", "target_partition_bytes")
def _tasks(tables: Tables, name: str) -> None:
    usual = [frame.rdd.getNumPartitions() for frame in tables.frames()]
    for frame, most in zip(tables.frames(**{name: "1"}), usual, strict=True):
        assert frame.rdd.getNumPartitions() > most


# Writing

ONE = "SELECT 1L AS id, 'a' AS k"
TEN = "SELECT id, 'a' AS k FROM range(0, 10, 1, 1)"
LARGE = (
    "SELECT id, 'a' AS k, concat_ws('', transform(sequence(1, 8), i -> sha2(concat(id, '-', i), 512))) AS text "
    "FROM range(0, 30000, 1, 1)"
)
"""Random text, about 30 MB; writers look at the size of a file after each batch and flush pages of about 8 MB."""


@proves("write", "path")
def _path_of_a_write(tables: Tables, name: str) -> None:
    tables.spark.sql(TEN).write.format("lance").option(name, tables.path).save()
    assert lance.dataset(tables.path).count_rows() == 10
    with pytest.raises(AnalysisException, match="no path is given"):
        tables.spark.sql(TEN).write.format("lance").save()
    tables.create()
    with pytest.raises(AnalysisException, match="option path has no effect on"):
        tables.spark.sql(TEN).writeTo(tables.new).option(name, tables.path).append()
    assert tables.spark.table(tables.new).count() == 0


@proves("write", "branch")
def _branch_of_a_write(tables: Tables, name: str) -> None:
    tables.create()
    if tables.by:
        with pytest.raises(AnalysisException, match="branch"):
            tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 'dev') {TEN}")
        return
    tables.spark.sql(f"ALTER TABLE {tables.new} CREATE BRANCH dev")
    tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 'dev') {TEN}")
    counts = [tables.spark.table(table).count() for table in (tables.new, f"{tables.new}.branch_dev")]
    assert counts == [0, 10]


@proves("write", "max_row_per_file", "max_rows_per_file")
def _rows_of_a_file(tables: Tables, name: str) -> None:
    tables.save(TEN, **{name: "3"})
    assert len(data_files(tables.path)) == 4
    tables.create()
    tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 3) {TEN}")
    assert len(data_files(location(tables.spark, tables.new))) == 4


@proves("write", "max_bytes_per_file")
def _bytes_of_a_file(tables: Tables, name: str) -> None:
    tables.save(LARGE, **{name: "1"})
    assert len(data_files(tables.path)) > 1
    tables.save(LARGE, mode="overwrite")
    assert sum(len(part.get_fragments()) for part in datasets(tables.path)) == 1


@proves("write", "file_format_version", "data_storage_version")
def _file_version(tables: Tables, name: str) -> None:
    tables.save(ONE, **{name: "2.1"})
    assert [part.data_storage_version for part in datasets(tables.path)] == ["2.1"]


@proves("write", "enable_stable_row_ids")
def _stable_row_ids(tables: Tables, name: str) -> None:
    tables.save(ONE, **{name: "true"})
    assert [part.has_stable_row_ids for part in datasets(tables.path)] == [True]
    with pytest.raises(AnalysisException, match="enable_stable_row_ids"):
        tables.save(ONE, "append", **{name: "false"})
    assert tables.spark.read.format("lance").load(tables.path).count() == 1


NESTED = "1L AS id, 'a' AS k, X'00' AS b, named_struct('a', 'x', 'l', array(X'01')) AS s"
LARGE_TYPES = ["int64", "large_string", "large_binary", "struct<a: large_string, l: list<item: large_binary>>"]


def types_of(where: str) -> list[str]:
    (part,) = datasets(where)
    return [str(part.schema.field(name).type) for name in ("id", "k", "b", "s")]


@proves("write", "use_large_var_types")
def _large_types(tables: Tables, name: str) -> None:
    row = tables.spark.sql(f"SELECT {NESTED}").first()
    tables.save(f"SELECT {NESTED}", **{name: "true"})
    assert types_of(tables.path) == LARGE_TYPES
    assert tables.spark.read.format("lance").load(tables.path).first() == row
    if tables.by:
        rows = tables.spark.sql(f"SELECT {NESTED}").write.option(name, "true").partitionBy("k")
        with pytest.raises(AnalysisException, match="made before Spark hands over the options"):
            rows.saveAsTable(tables.new)
        assert not tables.spark.catalog.tableExists(tables.new)
        return
    tables.spark.sql(f"SELECT {NESTED}").write.option(name, "true").saveAsTable(tables.new)
    assert types_of(location(tables.spark, tables.new)) == LARGE_TYPES


@proves("write", "commit_message")
def _message(tables: Tables, name: str) -> None:
    tables.create()
    tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 'why') {ONE}")
    history = tables.spark.sql(f"DESCRIBE HISTORY {tables.new}").collect()
    assert max(history, key=lambda row: row.version).message == "why"


@proves("write", "mergeschema")
def _new_columns(tables: Tables, name: str) -> None:
    tables.create()
    wider = tables.spark.sql("SELECT 1L AS id, 'a' AS k, 2 AS more").writeTo(tables.new)
    with pytest.raises(AnalysisException):
        wider.append()
    wider.option(name, "true").append()
    assert tables.spark.table(tables.new).columns == ["id", "k", "more"]


SCATTERED = "SELECT id, if(id % 2 = 0, 'a', 'b') AS k FROM range(0, 100, 1, 4)"


@proves("write", "distribution")
def _distribution(tables: Tables, name: str) -> None:
    tables.create()
    if not tables.by:
        with pytest.raises(AnalysisException, match="distribution is for partitioned tables"):
            tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 'hash') {SCATTERED}")
        return
    counts = [0]
    for value in ("none", "hash"):
        tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = '{value}') {SCATTERED}")
        counts.append(len(data_files(location(tables.spark, tables.new))))
    assert counts == [0, 8, 10]


@proves("write", "partitionoverwritemode")
def _overwrite_mode(tables: Tables, name: str) -> None:
    """A plain table is replaced in both modes, as with Parquet."""
    rows = "VALUES (1L, 'a'), (2L, 'b')"
    tables.create()
    for value, left in (("dynamic", [2, 3] if tables.by else [3]), ("static", [3])):
        tables.spark.sql(f"INSERT OVERWRITE {tables.new} {rows}")
        tables.spark.sql(f"INSERT OVERWRITE {tables.new} WITH ({name} = '{value}') VALUES (3L, 'a')")
        assert sorted(row.id for row in tables.spark.table(tables.new).collect()) == left


@proves("write", *known.WITHOUT_EFFECT)
def _taken_without_effect(tables: Tables, name: str) -> None:
    value = "true" if name.startswith("use") else "4"
    tables.save(TEN, **{name: value})
    tables.save(TEN, "append", **{name: value})
    assert tables.spark.read.format("lance").load(tables.path).count() == 20
    with pytest.raises(AnalysisException, match=f"option {name} is 'x'"):
        tables.save(TEN, "append", **{name: "x"})


def test_options_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for name in known.WITHOUT_EFFECT:
            value = "true" if name.startswith("use") else "4"
            options.WriteOptions.parse({"path": "x", name.upper(): value}).log_without_effect()
        options.log_read_options_without_effect(["pushDownFilters", "limit"])
    names = [*(name.upper() for name in known.WITHOUT_EFFECT), "pushDownFilters"]
    found = [record.message.partition(" has no effect: ") for record in caplog.records]
    assert [head for head, _, _ in found] == [f"option {name}" for name in names]
    assert all(reason for _, _, reason in found)


# Properties of tables


@proves("property", "max_row_per_file", "max_rows_per_file")
def _rows_of_files(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = '3'")
    where = location(tables.spark, tables.new)
    tables.spark.sql(f"INSERT INTO {tables.new} {TEN}")
    assert len(data_files(where)) == 4
    tables.spark.sql(f"INSERT INTO {tables.new} WITH (max_rows_per_file = 100) {TEN}")
    assert len(data_files(where)) == 5


@proves("property", "max_bytes_per_file")
def _bytes_of_files(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = '1'", columns="id BIGINT, k STRING, text STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} {LARGE}")
    assert len(data_files(location(tables.spark, tables.new))) > 1


@proves("property", "lance.auto_zonemap")
def _zone_maps_of_writes(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'id'")
    tables.spark.sql(f"INSERT INTO {tables.new} {TEN}")
    indexes = [index for part in datasets(location(tables.spark, tables.new)) for index in part.list_indices()]
    assert [index["fields"] for index in indexes] == [["id"]]


@proves("property", *property_names._AUTO_COMPACT)
def _compaction_after_writes(tables: Tables, name: str) -> None:
    """Writes by SQL, by `save` to the path, and by `UPDATE` all compact; an invalid value is refused."""
    tables.create("'lance.auto_compact' = 'true'", "'lance.auto_compact.min_fragments' = '3'")
    where = location(tables.spark, tables.new)

    def num_fragments() -> int:
        return sum(len(part.get_fragments()) for part in datasets(where))

    for expected in (1, 2, 1):
        tables.spark.sql(f"INSERT INTO {tables.new} {ONE}")
        assert num_fragments() == expected
    row = tables.spark.sql(ONE)
    row.write.format("lance").mode("append").save(where)
    row.write.format("lance").mode("append").option("mergeSchema", "true").save(where)
    assert num_fragments() == 1
    assert tables.spark.table(tables.new).count() == 5
    with pytest.raises(AnalysisException, match="'x'"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'x')")


@proves("property", "distribution")
def _distribution_of_all_writes(tables: Tables, name: str) -> None:
    if not tables.by:
        with pytest.raises(AnalysisException, match="distribution is for partitioned tables"):
            tables.create(f"'{name}' = 'hash'")
        assert not tables.spark.catalog.tableExists(tables.new)
        return
    tables.create(f"'{name}' = 'none'")
    where = location(tables.spark, tables.new)
    tables.spark.sql(f"INSERT INTO {tables.new} {SCATTERED}")
    assert len(data_files(where)) == 8
    tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 'hash') {SCATTERED}")
    assert len(data_files(where)) == 10


@proves("property", "use_large_var_types")
def _large_types_of_a_table(tables: Tables, name: str) -> None:
    columns = "id BIGINT, k STRING, b BINARY, s STRUCT<a: STRING, l: ARRAY<BINARY>>"
    tables.create(f"'{name}' = 'true'", columns=columns)
    tables.spark.sql(f"INSERT INTO {tables.new} SELECT {NESTED}")
    assert types_of(location(tables.spark, tables.new)) == LARGE_TYPES
    assert tables.spark.table(tables.new).first() == tables.spark.sql(f"SELECT {NESTED}").first()


@proves("property", "file_format_version", "data_storage_version")
def _file_version_of_a_table(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = '2.1'")
    tables.spark.sql(f"INSERT INTO {tables.new} WITH (file_format_version = '2.1') {ONE}")
    assert [part.data_storage_version for part in datasets(location(tables.spark, tables.new))] == ["2.1"]
    newer = f"INSERT INTO {tables.new} WITH (file_format_version = '2.2') {ONE}"
    if tables.by:
        with pytest.raises(AnalysisException, match=r"the partitioned table has 2\.1"):
            tables.spark.sql(newer)
        return
    tables.spark.sql(newer)
    (part,) = datasets(location(tables.spark, tables.new))
    assert [fragment.metadata.files[0].file_minor_version for fragment in part.get_fragments()] == [1, 2]


@proves("property", "enable_stable_row_ids")
def _stable_row_ids_of_a_table(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'true'")
    tables.spark.sql(f"INSERT INTO {tables.new} {ONE}")
    assert [part.has_stable_row_ids for part in datasets(location(tables.spark, tables.new))] == [True]


@proves("property", *property_names.OF_ONE_WRITE)
def _options_of_one_write(tables: Tables, name: str) -> None:
    with pytest.raises(AnalysisException, match=f"property {name} is an option of one write"):
        tables.create(f"'{name}' = 'static'")
    assert not tables.spark.catalog.tableExists(tables.new)


@proves("property", "isolation-level")
def _isolation_level(tables: Tables, name: str) -> None:
    """What the levels do is in tests/connector/test_isolation.py."""
    tables.create(f"'{name}' = 'snapshot'")
    properties = {row.key: row.value for row in tables.spark.sql(f"SHOW TBLPROPERTIES {tables.new}").collect()}
    assert properties[name] == "snapshot"
    with pytest.raises(AnalysisException, match="is 'serializable' or 'snapshot'"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'x')")


@proves("property", *property_names._AUTO_CLEANUP)
def _auto_cleanup(tables: Tables, name: str) -> None:
    keep = "'lance.auto_cleanup.retain_versions' = '2'"
    age = "'lance.auto_cleanup.older_than' = '0s'"
    tables.create("'lance.auto_cleanup.interval' = '1'", keep if name.endswith("retain_versions") else age)
    for _ in range(4):
        tables.spark.sql(f"INSERT INTO {tables.new} {ONE}")
    left = len(tables.spark.sql(f"DESCRIBE HISTORY {tables.new}").collect())
    assert left == (2 if name.endswith("retain_versions") else 1)
    assert tables.spark.table(tables.new).count() == 4
    with pytest.raises(AnalysisException, match=r"'x'"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'x')")


# Options of columns

COLUMNS = {"vec": "ARRAY<FLOAT>", "half": "FLOAT", "text": "STRING", "number": "INT", "both": "STRUCT<a: INT, b: INT>"}
BLOBS = {"lance.encoding", "lance.blob.inline-size", "lance.blob.dedicated-size", "lance.blob.pack-size"}
OF_COLUMN = {
    "arrow.fixed-size-list.size": ("vec", "2", "fixed_size_list<item: float>[2]"),
    "arrow.float16": ("half", "true", "halffloat"),
    "arrow.large_var_char": ("text", "true", "large_string"),
    "lance.compression": ("text", "zstd", None),
    "lance.compression-level": ("text", "3", None),
    "lance.structural-encoding": ("text", "fullzip", None),
    "lance.rle-threshold": ("number", "0.5", None),
    "lance.bss": ("half", "on", None),
    "lance.dict-divisor": ("text", "2", None),
    "lance.dict-size-ratio": ("text", "0.9", None),
    "lance.dict-values-compression": ("text", "lz4", None),
    "lance.minichunk-size": ("number", "1024", None),
    "lance.packed": ("both", "true", None),
}


@proves("column", *(set(SUFFIXES) - BLOBS))
def _shape_of_a_column(tables: Tables, name: str) -> None:
    column, value, dtype = OF_COLUMN[name]
    rows = "SELECT 'a' AS k, array(1F, 2F) AS vec, 1F AS half, 'x' AS text, 1 AS number, struct(1 AS a, 2 AS b) AS both"
    columns = ", ".join(["k STRING", *(f"{key} {kind}" for key, kind in COLUMNS.items())])
    tables.create(f"'{column}.{name}' = '{value}'", columns=columns)
    tables.spark.sql(f"INSERT INTO {tables.new} {rows}")
    places = [location(tables.spark, tables.new)]
    if not tables.by:
        tables.save(rows, **{f"{column}.{name}": value})
        places.append(tables.path)
    for place in places:
        (part,) = datasets(place)
        field = part.schema.field(column)
        if dtype is not None:
            assert str(field.type) == dtype
        else:
            assert (field.metadata or {})[str(metadata_key(name)).encode()] == value.encode()
        assert part.count_rows() == 1


@proves("column", *BLOBS)
def _blobs(tables: Tables, name: str) -> None:
    sizes = {"inline-size": "3", "dedicated-size": "4", "pack-size": "1"}
    shape = {"lance.encoding": "blob", name: sizes.get(name.rpartition(".")[2], "blob")}
    tables.create(", ".join(f"'b.{key}' = '{value}'" for key, value in shape.items()), columns="b BINARY, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} VALUES (X'01020304', 'a'), (X'0102030405', 'a')")
    kinds = sorted(row.kind for row in tables.spark.sql(f"SELECT b.kind FROM {tables.new}").collect())
    assert kinds == {"inline-size": [1, 1], "dedicated-size": [0, 2]}.get(name.rpartition(".")[2], [0, 0])


@proves("property", "lance.blob_handling")
def _blobs_as_binary(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'binary', 'b.lance.encoding' = 'blob'", columns="b BINARY, k STRING")
    assert tables.spark.table(tables.new).schema["b"].dataType.simpleString() == "binary"


@proves("read", "blob_handling")
def _blobs_of_a_read(tables: Tables, name: str) -> None:
    tables.create("'b.lance.encoding' = 'blob'", columns="b BINARY, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} VALUES (X'01', 'a')")
    read = tables.spark.read.format("lance").option(name, "binary")
    assert [bytes(row.b) for row in read.load(location(tables.spark, tables.new)).collect()] == [b"\x01"]
    with pytest.raises(AnalysisException, match=f"option {name} has no effect"):
        tables.spark.read.option(name, "binary").table(tables.new).collect()


# Settings of catalogs


def catalog(tables: Tables, suffix: str, **settings: str) -> str:
    name = f"{tables.new.partition('.')[0]}_{suffix}"
    tables.spark.conf.set(f"spark.sql.catalog.{name}", CATALOG_CLASS)
    for key, value in settings.items():
        tables.spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return name


@proves("catalog", "root")
def _root(tables: Tables, name: str) -> None:
    made = catalog(tables, "here", root=tables.path)
    tables.spark.sql(f"CREATE TABLE {made}.t {tables.by} AS {ONE}")
    assert location(tables.spark, f"{made}.t").startswith(tables.path)


@proves("catalog", "impl", "uri")
def _server(tables: Tables, name: str) -> None:
    with RestAdapter("dir", {"root": tables.path}, host="127.0.0.1", port=0) as server:
        made = catalog(tables, "remote", impl="rest", uri=f"http://127.0.0.1:{server.port}")
        tables.spark.sql(f"CREATE TABLE {made}.t AS {ONE}")
        assert location(tables.spark, f"{made}.t").removeprefix("file://").startswith(tables.path)
    for settings, message in (
        ({"impl": "rest"}, "has the setting uri"),
        ({"impl": "other"}, "not one of dir and rest"),
        ({"uri": "http://127.0.0.1:1"}, "are for catalogs with impl = rest"),
    ):
        wrong = catalog(tables, f"wrong_{len(message)}", **settings)
        with pytest.raises(AnalysisException, match=message):
            tables.spark.sql(f"SHOW TABLES IN {wrong}").collect()


@proves("catalog", "enable_stable_row_ids")
def _stable_row_ids_of_a_catalog(tables: Tables, name: str) -> None:
    made = catalog(tables, "stable", root=tables.path, enable_stable_row_ids="true")
    tables.spark.sql(f"CREATE TABLE {made}.made (id BIGINT, k STRING) {tables.by}")
    tables.spark.sql(f"INSERT INTO {made}.made {ONE}")
    tables.spark.sql(f"CREATE TABLE {made}.queried {tables.by} AS {ONE}")
    without = "TBLPROPERTIES ('enable_stable_row_ids' = 'false')"
    tables.spark.sql(f"CREATE TABLE {made}.without {tables.by} {without} AS {ONE}")
    found = {
        table: [part.has_stable_row_ids for part in datasets(location(tables.spark, f"{made}.{table}"))]
        for table in ("made", "queried", "without")
    }
    assert found == {"made": [True], "queried": [True], "without": [False]}


@proves("write", "txnappid", "txnversion")
def _write_that_is_done_once(tables: Tables, name: str) -> None:
    tables.save(ONE)
    for _ in range(2):
        tables.save(ONE, "append", txnAppId="nightly", txnVersion="1")
    assert tables.spark.read.format("lance").load(tables.path).count() == 2
    with pytest.raises(AnalysisException, match="set both"):
        tables.save(ONE, "append", **{name: "1"})


@proves("write", "txnignoreold")
def _old_write_that_is_left_out(tables: Tables, name: str) -> None:
    tables.save(ONE)
    tables.save(ONE, "append", txnAppId="nightly", txnVersion="2")
    old = {"txnAppId": "nightly", "txnVersion": "1"}
    with pytest.raises(PySparkException, match="LANCE_STREAM_BEHIND"):
        tables.save(ONE, "append", **old)
    tables.save(ONE, "append", **old, **{name: "true"})
    assert tables.spark.read.format("lance").load(tables.path).count() == 2


# Options of the other connector that have no meaning here


@proves("refused", *KNOWN["refused"])
def _refused(tables: Tables, name: str) -> None:
    message = f"there is no option {name}: |option {name} is not supported here"
    with pytest.raises(AnalysisException, match=message):
        tables.frames(**{name: "1"})[0].collect()
    with pytest.raises(AnalysisException, match=message):
        tables.frames()[1].sparkSession.read.option(name, "1").table(tables.read).collect()
    with pytest.raises(AnalysisException, match=message):
        tables.save(ONE, **{name: "1"})


def test_options_of_the_other_connector_that_are_taken() -> None:
    """As docs/options.md and README.md promise to its users."""
    taken = {"batch_size", "topn_push_down", "version", "max_row_per_file", "max_rows_per_group"}
    taken |= {"data_storage_version", "enable_stable_row_ids", "use_large_var_types", "use_queued_write_buffer"}
    assert taken | {"queue_depth", "max_bytes_per_file"} <= KNOWN["read"] | KNOWN["write"]
