"""Options of writes."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException

from lance_spark.spark.options import names as known
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


@proves("write", "auto_zonemap")
def _zone_maps_of_one_write(tables: Tables, name: str) -> None:
    tables.save(TEN, **{name: "id"})
    assert [index["fields"] for part in datasets(tables.path) for index in part.list_indices()] == [["id"]]
    tables.create()
    tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 'id, k') {TEN}")
    (part, *_) = datasets(location(tables.spark, tables.new))
    assert sorted(index["fields"] for index in part.list_indices()) == [["id"], ["k"]]
    tables.spark.sql(f"INSERT INTO {tables.new} {TEN}")
    (part, *_) = datasets(location(tables.spark, tables.new))
    assert {part.stats.index_stats(index["name"])["num_unindexed_fragments"] for index in part.list_indices()} == {1}
    with pytest.raises(AnalysisException, match="nope"):
        tables.spark.sql(f"INSERT INTO {tables.new} WITH ({name} = 'id, nope') {TEN}")


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


@proves("write", "use_large_var_types")
def _large_types(tables: Tables, name: str) -> None:
    row = tables.spark.sql(f"SELECT {NESTED}").first()
    tables.save(f"SELECT {NESTED}", **{name: "true"})
    assert types_of(tables.path) == LARGE_TYPES
    assert tables.spark.read.format("lance").load(tables.path).first() == row
    rows = tables.spark.sql(f"SELECT {NESTED}").write.option(name, "true")
    (rows.partitionBy("k") if tables.by else rows).saveAsTable(tables.new)
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


@proves("write", "txnappid", "txnversion")
def _write_that_is_done_once(tables: Tables, name: str) -> None:
    tables.save(ONE)
    for _ in range(2):
        tables.save(ONE, "append", txnAppId="nightly", txnVersion="1")
    assert tables.spark.read.format("lance").load(tables.path).count() == 2
    with pytest.raises(AnalysisException, match="set both"):
        tables.save(ONE, "append", **{name: "1"})


@proves("write", "txnplanned")
def _write_that_was_planned_at_another_time(tables: Tables, name: str) -> None:
    tables.save(ONE)
    named = {"txnAppId": "nightly", "txnVersion": "1"}
    for _ in range(2):
        tables.save(ONE, "append", **named, **{name: "1000"})
    with pytest.raises(PySparkException, match=r"LANCE_STREAM_BEHIND.*another epoch 1"):
        tables.save(ONE, "append", **named, **{name: "2000"})
    with pytest.raises(AnalysisException, match="set both"):
        tables.save(ONE, "append", **{name: "1000"})
    assert tables.spark.read.format("lance").load(tables.path).count() == 2


@proves("write", "txnignoreold")
def _old_write_that_is_left_out(tables: Tables, name: str) -> None:
    tables.save(ONE)
    tables.save(ONE, "append", txnAppId="nightly", txnVersion="2")
    old = {"txnAppId": "nightly", "txnVersion": "1"}
    with pytest.raises(PySparkException, match="LANCE_STREAM_BEHIND"):
        tables.save(ONE, "append", **old)
    tables.save(ONE, "append", **old, **{name: "true"})
    assert tables.spark.read.format("lance").load(tables.path).count() == 2
