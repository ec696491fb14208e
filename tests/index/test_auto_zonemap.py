"""Tables with the config `lance.auto_zonemap`: zone maps cover what was committed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.truncate import Truncate
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


def begun(path: Path, is_partitioned: bool) -> Any:
    """A table of ten rows; if partitioned, all rows of `table` are in one partition."""
    if not is_partitioned:
        return lance_spark.write(table(10, 0), path)
    by = [PartitionBy("thousands", ("id",), Truncate(1000))]
    return create_partitioned_dataset(path, table(0, 0).schema, by).append(table(10, 0))


def uncovered(uri: str | Path) -> dict[str, int]:
    opened = lance_spark.open(uri)
    return {
        entry["fields"][0]: opened.index_statistics(entry["name"])["num_unindexed_fragments"]
        for entry in opened.list_indices()
    }


def zoned_columns(uri: str | Path) -> set[str]:
    return set(uncovered(uri))


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


def test_rows_of_pylance_are_covered_by_the_next_commit(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    lance_spark.open(uri).update_config({PROPERTY: "id"})
    lance.write_dataset(table(10, 10), uri, mode="append")
    assert uncovered(uri) == {"id": 1}
    lance_spark.open(uri).delete("id = 0")
    assert uncovered(uri) == {"id": 0}


MAKES_NO_SENSE = [
    ("nope", NotFoundError, "no column 'nope'"),
    ("id, l", InvalidInputError, "kind ZONEMAP does not support"),
    ("id,,f", InvalidInputError, "columns with commas between them"),
]


@pytest.mark.parametrize(("value", "error", "message"), MAKES_NO_SENSE)
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_columns_that_cannot_have_zone_maps_are_refused(
    tmp_path: Path, is_partitioned: bool, value: str, error: type[Exception], message: str
) -> None:
    made = begun(tmp_path, is_partitioned)
    for change in (
        lambda: made.update_config({PROPERTY: value}),
        lambda: made.append(table(5, 10), auto_zonemap=value),
        lambda: made.overwrite(table(5, 10), auto_zonemap=value),
        lambda: made.replace_where(table(5, 10), "id >= 0", auto_zonemap=value),
    ):
        with pytest.raises(error, match=message):
            change()
    assert lance_spark.open(tmp_path).version == made.version


@pytest.mark.parametrize(("value", "error", "message"), MAKES_NO_SENSE)
@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_write_refuses_such_columns_before_it_writes(
    tmp_path: Path, mode: str, value: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lance_spark.write(table(5, 0), tmp_path / "new", mode=mode, auto_zonemap=value)
    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize("value", ["nope, id", "l, id"])
def test_config_of_another_library_costs_a_warning(
    tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    lance.dataset(uri).update_config({PROPERTY: value})
    with caplog.at_level(logging.WARNING):
        lance_spark.write(table(10, 10), uri, mode="append")
    assert "no zone map of a column that lance.auto_zonemap" in caplog.text
    assert uncovered(uri) == {"id": 0}
    assert lance_spark.open(uri).count_rows("id < 5") == 5


def test_config_that_is_no_list_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path)
    lance_spark.write(table(10, 0), uri)
    lance.dataset(uri).update_config({PROPERTY: "id,,f"})
    with caplog.at_level(logging.WARNING):
        made = lance_spark.write(table(10, 10), uri, mode="append")
    assert "zone maps are not extended" in caplog.text
    assert lance_spark.open(uri).version == made.version


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("change", ["drop", "rename"])
def test_column_that_is_gone_does_not_hinder_others(
    tmp_path: Path, is_partitioned: bool, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = begun(tmp_path, is_partitioned).update_config({PROPERTY: "f, id"})
    made = made.append(table(10, 10))
    assert zoned_columns(tmp_path) == {"f", "id"}
    newest = lance_spark.open(tmp_path)
    if change == "drop":
        newest.drop_columns(["f"])
    else:
        newest.rename_columns({"f": "g"})
    rows = table(10, 20).rename_columns(["id", "g", "s", "l"])
    with caplog.at_level(logging.WARNING):
        lance_spark.open(tmp_path).append(rows.drop_columns(["g"]) if change == "drop" else rows)
    assert "no column 'f'" in caplog.text
    assert uncovered(tmp_path)["id"] == 0
    assert lance_spark.open(tmp_path).count_rows("id >= 5") == 25
    if change == "rename":
        assert lance_spark.open(tmp_path).count_rows("g = 1.5") == 12
        lance_spark.open(tmp_path).update_config({PROPERTY: "g, id"})
        lance_spark.open(tmp_path).append(rows)
        assert uncovered(tmp_path) == {"g": 0, "id": 0}


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_zone_maps_of_one_write(tmp_path: Path, is_partitioned: bool) -> None:
    made = begun(tmp_path, is_partitioned)
    made.append(table(10, 10), auto_zonemap="id")
    assert zoned_columns(tmp_path) == {"id"}
    assert uncovered(tmp_path) == {"id": 0}
    lance_spark.open(tmp_path).append(table(10, 20))
    assert uncovered(tmp_path) == {"id": 1}
    lance_spark.open(tmp_path).replace_where(table(10, 20), "id >= 20", auto_zonemap="id, s")
    assert uncovered(tmp_path) == {"id": 0, "s": 0}
    lance_spark.open(tmp_path).overwrite(table(10, 0), auto_zonemap="*")
    assert {"id", "f"} <= zoned_columns(tmp_path)
    assert lance_spark.open(tmp_path).count_rows("id < 5") == 5


def test_zone_maps_of_one_write_to_a_path(tmp_path: Path) -> None:
    uri = str(tmp_path)
    made = lance_spark.write(table(10, 0), uri, auto_zonemap="id")
    assert uncovered(uri) == {"id": 0}
    made.append(table(10, 10))
    assert uncovered(uri) == {"id": 1}
    lance_spark.open(uri).update_config({PROPERTY: "f"})
    lance_spark.write(table(10, 20), uri, mode="append", auto_zonemap="")
    assert uncovered(uri) == {"id": 2, "f": 1}
    new = table(10, 30).append_column("y", pa.array(range(10)))
    lance_spark.write(new, uri, mode="append", merge_schema=True, auto_zonemap="y")
    assert uncovered(uri)["y"] == 0
    both(uri, "y < 3", index="y_idx")
