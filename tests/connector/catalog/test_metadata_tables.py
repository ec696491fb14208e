"""Tables about a table: versions, fragments, files, indexes, refs, transactions."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lance_spark


@pytest.mark.slow
def test_metadata_tables(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE lance.meta")
    spark.sql("CREATE TABLE lance.meta.t (id BIGINT, s STRUCT<x: INT>) USING lance")
    spark.sql("INSERT INTO lance.meta.t VALUES (1, struct(1)), (2, NULL)")
    spark.sql("CALL lance.system.create_tag('meta.t', 'one', 2)")
    where = spark.sql("DESCRIBE EXTENDED lance.meta.t").where("col_name = 'Location'").first().data_type
    reference = lance.dataset(where)
    reference.create_scalar_index("id", "BTREE")
    fragments = spark.table("lance.meta.t.fragments").collect()
    assert [(row.fragment_id, row.num_rows) for row in fragments] == [
        (part.fragment_id, part.count_rows()) for part in reference.get_fragments()
    ]
    files = spark.sql("SELECT path, columns, size_bytes FROM lance.meta.t.files ORDER BY path").collect()
    known = sorted(file.path for part in reference.get_fragments() for file in part.data_files())
    assert [row.path for row in files] == known
    assert all(row.columns == ["id", "s"] and row.size_bytes > 0 for row in files)
    versions = spark.sql("SELECT version, operation FROM lance.meta.t.versions WHERE version < 3").collect()
    assert [tuple(row) for row in versions] == [(2, "append"), (1, "overwrite")]
    assert spark.table("lance.meta.t.transactions").count() == 3
    (index,) = spark.table("lance.meta.t.indexes").collect()
    assert (index.name, index.columns, index.num_fragments) == ("id_idx", ["id"], len(fragments))
    statistics = lance_spark.open(reference.uri).index_statistics("id_idx")
    assert (index.index_type, index.size_bytes) == ("btree", statistics["size_bytes"])
    assert (index.num_indexed_rows, index.num_unindexed_rows) == (reference.count_rows(), 0)
    refs = {(row.name, row.type, row.version) for row in spark.table("lance.meta.t.refs").collect()}
    assert refs == {("main", "branch", 3), ("one", "tag", 2)}
    assert spark.sql("SELECT count(*) AS n FROM lance.meta.t.fragments VERSION AS OF 1").first().n == 0
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("lance.meta.t.nothing")
    for name, instead in (("snapshots", "versions"), ("manifests", "versions"), ("all_data_files", "files")):
        with pytest.raises(AnalysisException, match=rf"no metadata table {name}; lance\.meta\.t\.{instead} is nearest"):
            spark.table(f"lance.meta.t.{name}")
        assert not spark.catalog.tableExists(f"lance.meta.t.{name}")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("lance.meta.missing.files")


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (k)"])
def test_segments_of_indexes(spark: SparkSession, partitioning: str) -> None:
    """Each with the rows that it covers, without deleted ones, and those that its index does not cover."""
    spark.sql(f"CREATE TABLE lance.meta.segments (id INT, k STRING) {partitioning}")
    try:
        spark.sql("INSERT INTO lance.meta.segments SELECT id, 'a' FROM range(10)")
        spark.sql("ALTER TABLE lance.meta.segments CREATE INDEX by_id USING btree (id)")
        spark.sql("INSERT INTO lance.meta.segments SELECT id, 'a' FROM range(10, 15)")
        spark.sql("ALTER TABLE lance.meta.segments REFRESH INDEX by_id")
        spark.sql("INSERT INTO lance.meta.segments VALUES (15, 'a')")
        spark.sql("DELETE FROM lance.meta.segments WHERE id = 3")
        found = spark.sql("SELECT index_type, num_indexed_rows, num_unindexed_rows FROM lance.meta.segments.indexes")
        assert sorted(tuple(row) for row in found.collect()) == [("btree", 5, 1), ("btree", 9, 1)]
        sizes = spark.sql("SELECT size_bytes, columns FROM lance.meta.segments.indexes").collect()
        assert all(row.size_bytes > 0 and row.columns == ["id"] for row in sizes)
    finally:
        spark.sql("DROP TABLE lance.meta.segments PURGE")


def test_metadata_tables_by_path(spark: SparkSession, uri: str) -> None:
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), uri)
    assert spark.sql(f"SELECT num_rows FROM lance.`{uri}`.fragments").first().num_rows == 3
