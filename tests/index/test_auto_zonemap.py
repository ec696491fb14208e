"""Tables with the config `lance.auto_zonemap`: zone maps cover what was committed."""

from __future__ import annotations

import logging
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from tests.index.builds import both
from tests.index.comparisons import repeated

PROPERTY = "lance.auto_zonemap"


def table(num_rows: int, first_id: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first_id, first_id + num_rows), pa.int64()),
            "f": repeated([1.5, None, 2.5], num_rows, pa.float64()),
            "s": repeated(["a", None], num_rows, pa.string()),
            "l": repeated([[1], None], num_rows, pa.list_(pa.int64())),
        }
    )


def uncovered(uri: str) -> dict[str, int]:
    opened = lance_spark.open(uri)
    return {
        entry["fields"][0]: opened.index_statistics(entry["name"])["num_unindexed_fragments"]
        for entry in opened.list_indices()
    }


def test_each_writer_extends_zone_maps(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    made = lance_spark.open(uri).update_config({PROPERTY: "id, s"})
    assert lance_spark.open(uri).version == made.version + 1
    assert uncovered(uri) == {"id": 0, "s": 0}
    for change in (
        lambda: lance_spark.write(table(5, 10), uri, mode="append"),
        lambda: lance_spark.open(uri).update({"s": "'z'"}, "id < 3"),
        lambda: lance_spark.open(uri).merge(table(4, 13), "id"),
        lambda: lance_spark.open(uri).compact(target_rows_per_fragment=1000),
        lambda: lance_spark.open(uri).delete("id = 4"),
        lambda: lance_spark.write(table(20, 0), uri, mode="overwrite"),
    ):
        change()
        assert uncovered(uri) == {"id": 0, "s": 0}
        assert len(lance_spark.open(uri).indices()) == 2
        both(uri, "id < 5", index="id_idx")
        both(uri, "s = 'z'", index="s_idx")


def test_commits_that_bring_no_rows_make_no_further_version(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    lance_spark.open(uri).update_config({PROPERTY: "*"})
    version = lance_spark.open(uri).version
    lance_spark.open(uri).delete("id = 4")
    lance_spark.open(uri).create_tag("t")
    assert lance_spark.open(uri).version == version + 1


def test_star_is_all_columns_of_fixed_width(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    lance_spark.open(uri).update_config({PROPERTY: "*"})
    assert uncovered(uri) == {"id": 0, "f": 0}
    assert len({index.message.dataset_version for index in lance_spark.open(uri).indices()}) == 1


def test_zone_map_that_a_user_has_built_is_extended(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    lance_spark.open(uri).create_scalar_index("id", "ZONEMAP", "mine", rows_per_zone=3)
    lance_spark.open(uri).update_config({PROPERTY: "id"})
    lance_spark.write(table(10, 10), uri, mode="append")
    statistics = lance_spark.open(uri).index_statistics("mine")
    assert statistics["num_unindexed_rows"] == 0
    assert statistics["segments"][0]["rows_per_zone"] == 3
    assert [entry["name"] for entry in lance_spark.open(uri).list_indices()] == ["mine"]


def test_rows_of_the_reference_library_are_covered_by_the_next_commit(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    lance_spark.open(uri).update_config({PROPERTY: "id"})
    lance.write_dataset(table(10, 10), uri, mode="append")
    assert uncovered(uri) == {"id": 1}
    lance_spark.open(uri).delete("id = 0")
    assert uncovered(uri) == {"id": 0}


@pytest.mark.parametrize("value", ["nope", "l", "id,,f"])
def test_config_that_makes_no_sense_costs_a_warning(
    tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    with caplog.at_level(logging.WARNING):
        made = lance_spark.open(uri).update_config({PROPERTY: value})
    assert "zone maps are not extended" in caplog.text
    assert lance_spark.open(uri).version == made.version
    assert lance_spark.open(uri).count_rows("id < 5") == 5
