"""Options of reads."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from lance_spark.spark.compat import SPARK
from tests.connector.session.option_checks.registry import (
    Tables,
    batches_read,
    location,
    plan_of,
    proves,
)


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


def _is_refused_by_name(tables: Tables, name: str, value: str) -> bool:
    """Whether Spark has the option for tables by path alone, as before 4.3: then the table by name refuses it."""
    if SPARK >= (4, 3):
        return False
    with pytest.raises(AnalysisException, match=f"this version of Spark passes the option {name} to no table by name"):
        tables.spark.read.option(name, value).table(tables.read)
    return True


@proves("read", "timestamp", "timestampasof")
def _moment(tables: Tables, name: str) -> None:
    history = tables.spark.sql(f"DESCRIBE HISTORY {tables.read}").where(f"version = {tables.first}")
    row = history.selectExpr("cast(timestamp AS STRING) AS text").first()
    assert row is not None
    value = row.text if name == "timestampasof" else f"{row.text.replace(' ', 'T')}+00:00"
    if name == "timestamp" and _is_refused_by_name(tables, name, value):
        return
    assert [frame.count() for frame in tables.frames(**{name: value})] == [100, 100]


@proves("read", "batch_size", "max_batch_bytes")
def _batches(tables: Tables, name: str) -> None:
    usual = [batches_read(frame) for frame in tables.frames()]
    for frame, most in zip(tables.frames(**{name: "10"}), usual, strict=True):
        assert batches_read(frame) > most


@proves("read", "columns", "with_row_id", "with_row_address")
def _columns(tables: Tables, name: str) -> None:
    options = {name: "id" if name == "columns" else "true"}
    if _is_refused_by_name(tables, name, options[name]):
        return
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
