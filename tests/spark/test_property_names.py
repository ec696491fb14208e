"""Near misses of table properties; a user's own are kept."""

from __future__ import annotations

import re

import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.spark.options.property_names import check_properties, check_set_properties, nearest_property


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lance.compresion", "<column>.lance.compression"),
        ("lance.compression", "<column>.lance.compression"),
        ("id.lance.compresion", "id.lance.compression"),
        ("a.b.lance.structural_encoding", "a.b.lance.structural-encoding"),
        ("vec.arrow.fixed-size-list.sise", "vec.arrow.fixed-size-list.size"),
        ("file_format_verson", "file_format_version"),
        ("file-format-version", "file_format_version"),
        ("fileFormatVersion", "file_format_version"),
        ("enable_stable_row_id", "enable_stable_row_ids"),
        ("isolation-levl", "isolation-level"),
        ("ISOLATION_LEVEL", "isolation-level"),
        ("lance.auto_cleanup.intervall", "lance.auto_cleanup.interval"),
        ("lance.autocleanup.interval", "lance.auto_cleanup.interval"),
        ("max_row_per_files", "max_rows_per_file"),
        ("comit_message", "commit_message"),
    ],
)
def test_near_misses_are_refused_with_the_nearest_name(name: str, known: str) -> None:
    assert nearest_property(name) in {known, "max_row_per_file"}
    for check in (check_properties, check_set_properties):
        with pytest.raises(InvalidInputError, match=f"unknown property {name}; did you mean"):
            check({name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        *(
            "owner.team",
            "distributor",
            "branches",
            "comment",
            "team",
            "x",
            "version",
            "lancer.mine",
            "level",
            "quality",
        ),
        *("deltas.x", "delta.lance.compression", "write.team", "read.me", "history.of"),
    ],
)
def test_free_properties_are_kept(name: str) -> None:
    check_properties({name: "1"})
    check_set_properties({name: "1"})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("delta.enableChangeDataFeed", "leave it out: what has changed can always be read"),
        ("delta.autoOptimize.autoCompact", "set lance.auto_compact"),
        ("delta.constraints.positive", "write ALTER TABLE t ADD CONSTRAINT"),
        ("delta.someday", "tables here have no properties of Delta Lake"),
        ("format-version", "leave it out; file_format_version"),
        ("write.delete.mode", "leave it out: changed rows are marked in deletion files"),
        ("write.merge.isolation-level", "set isolation-level to serializable or snapshot"),
        ("write.metadata.metrics.default", "set lance.auto_zonemap"),
        ("history.expire.max-snapshot-age-ms", "set lance.auto_cleanup.interval"),
        ("read.split.target-size", "tables here have no properties of Iceberg"),
        ("parquet.compression", "set <column>.lance.compression"),
    ],
)
def test_properties_of_other_formats_are_refused_with_what_to_set(name: str, instead: str) -> None:
    for check in (check_properties, check_set_properties):
        with pytest.raises(InvalidInputError, match=f"{name} is of another table format.*{re.escape(instead)}"):
            check({name: "sideways"})
    check_set_properties({name: "sideways"}, {name: "x"})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("lance.merge.mode", "lance."),
        ("lance.mine", "lance."),
        ("lance.auto_compacting", "lance.auto_compact"),
        ("LANCE.json_as", "lance.json_as"),
        ("lance.max_rows_per_file", "max_rows_per_file"),
        ("lance.enable_stable_row_ids", "enable_stable_row_ids"),
        ("lance.compaction.rows", "lance.compaction."),
        ("id.lance.shrink", "id.lance."),
    ],
)
def test_names_that_nobody_knows_are_refused_under_the_prefix_of_the_format(name: str, near: str) -> None:
    for check in (check_properties, check_set_properties):
        with pytest.raises(InvalidInputError, match=rf"unknown property {name}; did you mean {re.escape(near)}"):
            check({name: "sideways"})


def test_names_that_a_table_has_already_are_kept_whoever_knows_them() -> None:
    present = {"lance.newer.feature": "1", "lance.auto_compat": "true"}
    check_properties(dict.fromkeys(present, "2"), present)
    check_set_properties(dict.fromkeys(present, "2"), present)
    with pytest.raises(InvalidInputError, match=r"lance\.json_as takes variant or string"):
        check_set_properties({"lance.json_as": "x"}, {"lance.json_as": "x"})


@pytest.mark.parametrize(
    "name", ["max_rows_per_file", "Distribution", "id.lance.compression", "lance.auto_cleanup.interval"]
)
def test_known_properties_are_kept(name: str) -> None:
    check_properties({name: "1"})


@pytest.mark.parametrize("name", ["commit_message", "mergeSchema", "partitionOverwriteMode", "branch"])
def test_options_of_one_write_are_no_properties(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"property {name} is an option of one write"):
        check_properties({name: "static"})


@pytest.mark.parametrize("name", ["file_format_version", "data_storage_version", "enable_stable_row_ids"])
def test_what_is_decided_at_creation_cannot_be_set(name: str) -> None:
    check_properties({name: "2.1"})
    with pytest.raises(InvalidInputError, match="is decided when a table is made"):
        check_set_properties({name: "2.1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lance.auto_cleanup.interval", "0"),
        ("lance.auto_cleanup.interval", "x"),
        ("lance.auto_cleanup.older_than", "soon"),
        ("lance.auto_cleanup.retain_versions", "-1"),
        ("lance.auto_cleanup.Interval", "1"),
    ],
)
def test_auto_cleanup_that_writers_do_not_understand(name: str, value: str) -> None:
    for check in (check_properties, check_set_properties):
        with pytest.raises(InvalidInputError):
            check({name: value})
    check_properties({"lance.auto_cleanup.older_than": "14days", "lance.auto_cleanup.retain_versions": "2"})


def test_storage_options_are_no_properties() -> None:
    with pytest.raises(InvalidInputError, match=r"property storage\.aws_region has no effect"):
        check_set_properties({"storage.aws_region": "x"})


def test_isolation_level_has_two_values() -> None:
    check_properties({"isolation-level": "Serializable"})
    check_properties({"isolation-level": "snapshot"})
    with pytest.raises(InvalidInputError, match="is 'serializable' or 'snapshot', not 'none'"):
        check_properties({"isolation-level": "none"})
