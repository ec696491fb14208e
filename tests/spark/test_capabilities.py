"""Capabilities of tables, and who computes generated columns, by the version of Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.spark.compat import SPARK
from lance_spark.spark.connector.catalog.table import LoadRequest, TableDescription, load
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.channel.registry import Call

BY_SPARK = "GENERATE_COLUMN_VALUES_ON_WRITE"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    doubled = pa.field("b", pa.int64(), metadata={"lance-spark:generated": "a * 2"})
    lance_spark.write(pa.table([[1], [2]], pa.schema([pa.field("a", pa.int64()), doubled])), uri)
    return uri


def to_write(uri: str, *privileges: str, **options: str) -> TableDescription:
    reply = load(LoadRequest(CatalogSettings("lance"), (), uri, options, by_path=True, privileges=privileges), Call())
    assert reply.table is not None
    return reply.table


def test_schema_evolution_came_with_4_1(uri: str) -> None:
    assert ("AUTOMATIC_SCHEMA_EVOLUTION" in to_write(uri, "INSERT").capabilities) == (SPARK >= (4, 1))


def test_spark_computes_generated_columns_of_inserts_from_4_3_on(uri: str) -> None:
    inserted = to_write(uri, "INSERT")
    by_spark = SPARK >= (4, 3)
    assert (BY_SPARK in inserted.capabilities, inserted.declares_generated) == (by_spark, by_spark)
    assert inserted.computed == ({} if by_spark else {"b": "a * 2"})


@pytest.mark.parametrize(
    ("privileges", "options", "computed"),
    [(("UPDATE",), {}, {"b": "a * 2"}), (("INSERT",), {"mergeSchema": "true"}, {})],
    ids=["update", "merged schema"],
)
def test_spark_computes_no_other_generated_columns(
    uri: str, privileges: tuple[str, ...], options: dict[str, str], computed: dict[str, str]
) -> None:
    changed = to_write(uri, *privileges, **options)
    assert (BY_SPARK in changed.capabilities, changed.declares_generated) == (False, False)
    assert changed.computed == computed
