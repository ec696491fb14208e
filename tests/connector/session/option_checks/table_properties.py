"""Properties of tables."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.errors import AnalysisException

from lance_spark.spark.options import property_names
from lance_spark.table.versions.known_properties import KNOWN_PROPERTIES
from tests.connector.session.option_checks.registry import (
    LARGE,
    LARGE_TYPES,
    NESTED,
    ONE,
    SCATTERED,
    TEN,
    Tables,
    data_files,
    datasets,
    location,
    proves,
    types_of,
)


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
    with pytest.raises(AnalysisException, match="nope"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'id, nope')")
    tables.spark.sql(f"DROP TABLE {tables.new}")
    with pytest.raises(AnalysisException, match="nope"):
        tables.create(f"'{name}' = 'nope'")
    assert not tables.spark.catalog.tableExists(tables.new)


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
    """What the levels do is in tests/connector/row_level/test_isolation.py."""
    tables.create(f"'{name}' = 'snapshot'")
    properties = {row.key: row.value for row in tables.spark.sql(f"SHOW TBLPROPERTIES {tables.new}").collect()}
    assert properties[name] == "snapshot"
    with pytest.raises(AnalysisException, match="is 'serializable' or 'snapshot'"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'x')")


@proves(
    "property", "lance.auto_cleanup.interval", "lance.auto_cleanup.older_than", "lance.auto_cleanup.retain_versions"
)
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


@proves("property", "lance.auto_compact", "lance.auto_compact.min_fragments")
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


@proves("property", "lance.dropped_table_retention")
def _retention_of_a_dropped_table(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = '36 hours'")
    tables.spark.sql(f"DROP TABLE {tables.new}")
    catalog = tables.new.partition(".")[0]
    (row,) = tables.spark.sql(f"CALL {catalog}.system.dropped_tables()").collect()
    assert row.kept_until - row.dropped_at == timedelta(hours=36)


_COMPACTION = {
    "lance.compaction.target_rows_per_fragment": ("1", 3),
    "lance.compaction.max_bytes_per_file": ("1", 3),
    "lance.compaction.materialize_deletions": ("false", 1),
    "lance.compaction.materialize_deletions_threshold": ("0.9", 1),
    "lance.compaction.batch_size": ("1", 1),
    "lance.compaction.defer_index_remap": ("true", 1),
}
"""A value of each property, and the fragments that three appends of a row become by OPTIMIZE with it."""


@proves("property", *_COMPACTION)
def _compaction_of_a_table(tables: Tables, name: str) -> None:
    """What the others do shows in tests/table/maintenance: they choose how files are written."""
    value, fragments = _COMPACTION[name]
    tables.create(f"'{name}' = '{value}'")
    for _ in range(3):
        tables.spark.sql(f"INSERT INTO {tables.new} {ONE}")
    tables.spark.sql(f"OPTIMIZE {tables.new}")
    assert sum(len(part.get_fragments()) for part in datasets(location(tables.spark, tables.new))) == fragments
    with pytest.raises(AnalysisException, match="'x'"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'x')")


@proves("property", "lance.streaming.retention")
def _retention_of_marks(tables: Tables, name: str) -> None:
    """What it does is in tests/connector/streaming/test_streaming_sink.py."""
    tables.create(f"'{name}' = '3'")
    with pytest.raises(AnalysisException, match="'x'"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'x')")


_FOR_OTHERS = [name for name, known in KNOWN_PROPERTIES.items() if not known.is_honoured]


@proves("property", *_FOR_OTHERS)
def _property_for_other_libraries(tables: Tables, name: str) -> None:
    """Kept for the libraries that act by it."""
    value = {"lance.compaction.index_remap_mode": "merged", "lance.compaction.compaction_mode": "re-encode"}.get(name)
    value = value or ("false" if KNOWN_PROPERTIES[name].values == "true or false" else "7")
    tables.create(f"'{name}' = '{value}'")
    properties = {row.key: row.value for row in tables.spark.sql(f"SHOW TBLPROPERTIES {tables.new}").collect()}
    assert properties[name] == value
    if not tables.by:
        (part,) = datasets(location(tables.spark, tables.new))
        assert part.config()[name] == value


@proves("property", "lance.update.mode")
def _files_of_updates(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'columns'", columns="id BIGINT, k STRING, v INT")
    tables.spark.sql(f"INSERT INTO {tables.new} SELECT id, k, 1 AS v FROM ({TEN})")
    before = tables.spark.sql(f"SELECT id, _rowaddr FROM {tables.new} ORDER BY id").collect()
    tables.spark.sql(f"UPDATE {tables.new} SET v = 2 WHERE id = 3")
    assert tables.spark.sql(f"SELECT id, _rowaddr FROM {tables.new} ORDER BY id").collect() == before
    tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'rows')")
    tables.spark.sql(f"UPDATE {tables.new} SET v = 3 WHERE id = 3")
    assert tables.spark.sql(f"SELECT id, _rowaddr FROM {tables.new} ORDER BY id").collect() != before
    assert [row.v for row in tables.spark.table(tables.new).where("id = 3").collect()] == [3]
    with pytest.raises(AnalysisException, match="auto, columns or rows"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'cells')")


@proves("property", "lance.clustering.columns")
def _order_of_writes(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'id'")
    tables.spark.sql(f"INSERT INTO {tables.new} SELECT 9 - id AS id, 'a' AS k FROM range(0, 10, 1, 1)")
    [part] = [part for part in datasets(location(tables.spark, tables.new)) if part.count_rows()]
    assert part.to_table(columns=["id"])["id"].to_pylist() == list(range(10))
    with pytest.raises(AnalysisException, match="nope"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'nope')")


@proves("property", "lance.wap.enabled")
def _audited_writes(tables: Tables, name: str) -> None:
    if tables.by:
        with pytest.raises(AnalysisException, match="needs branches"):
            tables.create(f"'{name}' = 'true'")
        return
    tables.create(f"'{name}' = 'true'")
    tables.spark.conf.set("spark.wap.branch", "audit")
    try:
        tables.spark.sql(f"INSERT INTO {tables.new} {TEN}")
        assert tables.spark.table(tables.new).count() == 10
    finally:
        tables.spark.conf.unset("spark.wap.branch")
    assert tables.spark.table(tables.new).count() == 0
    with pytest.raises(AnalysisException, match="true or false"):
        tables.spark.sql(f"ALTER TABLE {tables.new} SET TBLPROPERTIES ('{name}' = 'yes')")
