"""Every known option and property has an effect, is refused, or is documented and logged as without effect.

`proves` registers the check of a name. The names come from the registries of the package, so an option that is added
without a check fails `test_every_option`. Each check gets a plain and a partitioned table.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lance_spark.spark.options import catalog as catalog_options
from lance_spark.spark.options import names as known
from lance_spark.spark.options import options
from lance_spark.spark.session import CATALOG_CLASS
from lance_spark.table.versions.known_properties import KNOWN_PROPERTIES
from tests.connector.session.option_checks import (
    catalog_settings,
    column_properties,
    read_options,
    table_properties,
    write_options,
)
from tests.connector.session.option_checks.registry import (
    CHECKS,
    KNOWN,
    Tables,
)

_REGISTERED = (read_options, write_options, table_properties, column_properties, catalog_settings)
"""Importing these modules fills `CHECKS`."""


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


@pytest.mark.tasks
@pytest.mark.parametrize(("group", "name"), [(group, name) for group in KNOWN for name in sorted(KNOWN[group])])
def test_every_option(tables: Tables, group: str, name: str) -> None:
    assert (group, name) in CHECKS, f"{group} option {name} has no check"
    CHECKS[group, name](tables, name)


def test_the_registries_and_the_documentation_know_the_same() -> None:
    assert set(CHECKS) == {(group, name) for group, names in KNOWN.items() for name in names}
    folder = Path(__file__).parents[3] / "docs" / "reference"
    options_page, properties_page = ((folder / name).read_text().lower() for name in ("options.md", "properties.md"))
    pages = {"read": options_page, "write": options_page, "catalog": properties_page, "property": properties_page}
    for group, page in pages.items():
        for name in KNOWN[group]:
            assert re.search(rf"[`.]{re.escape(name)}`", page), (group, name)
    for suffix in KNOWN["column"]:
        assert f".{suffix.rpartition('.')[2]}`" in options_page, suffix
    listed = re.findall(r"^\| `(lance\.[a-z_.]+)` \|", properties_page, re.MULTILINE)
    assert sorted(listed) == sorted(KNOWN_PROPERTIES)
    without = [line for line in options_page.splitlines() if "without effect" in line]
    for name in (*known.WITHOUT_EFFECT, *known.WITHOUT_EFFECT_IN_CONNECTOR):
        assert any(f"`{name}`" in line for line in without), name


def test_every_field_of_the_dataclasses_is_set_by_an_option() -> None:
    collected = {"column_properties", "storage_options", "without_effect", "headers", "properties"}
    for kind, registry in (
        (options.ReadOptions, known.READ),
        (options.WriteOptions, known.WRITE),
        (catalog_options.CatalogOptions, catalog_options.CATALOG),
    ):
        named = {option.attribute for option in registry.values()} - {None}
        assert {item.name for item in fields(kind)} - collected == named


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


def test_options_of_the_other_connector_that_are_taken() -> None:
    """As docs/reference/options.md and README.md promise to its users."""
    taken = {"batch_size", "topn_push_down", "version", "max_row_per_file", "max_rows_per_group"}
    taken |= {"data_storage_version", "enable_stable_row_ids", "use_large_var_types", "use_queued_write_buffer"}
    assert taken | {"queue_depth", "max_bytes_per_file"} <= KNOWN["read"] | KNOWN["write"]
