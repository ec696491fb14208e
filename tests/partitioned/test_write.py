"""Partitioned tables that `lance_spark.write` makes, appends to and overwrites."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import AlreadyExistsError, InvalidInputError, LanceError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import PartitionedDataset

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "country": ["at", "ch", "at", None],
        "ts": pa.array([datetime(2024, 5, day) for day in (1, 2, 2, 3)], pa.timestamp("us")),
    }
)
BY = ["country", "bucket(4, id)", "days(ts)"]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def written(uri: str, **options: Any) -> PartitionedDataset:
    table = lance_spark.write(ROWS, uri, partition_by=BY, **options)
    assert isinstance(table, PartitionedDataset)
    return table


def ids(table: Any) -> list[Any]:
    return sorted(table.to_table(columns=["id"]).column("id").to_pylist(), key=str)


def test_new_table_is_one_version_with_the_rows(uri: str) -> None:
    table = written(uri, commit_message="first rows", enable_stable_row_ids=True, file_format_version="2.1")
    names = [field.field_id for field in table.specs.current.fields]
    assert names == ["country", "id_bucket_4", "ts_year", "ts_month", "ts_day"]
    (version,) = table.versions()
    assert version.message == "first rows"
    assert table.has_stable_row_ids
    assert table.file_version.value == "2.1"
    assert ids(lance_spark.open(uri)) == [1, 2, 3, None]
    found = [lance.dataset(part.uri).to_table(columns=["id"]) for part in map(_location, table.splits())]
    assert sorted(pa.concat_tables(found).column("id").to_pylist(), key=str) == [1, 2, 3, None]


def _location(split: Any) -> Any:
    return split.table.store


def test_rows_are_appended_and_overwritten(uri: str) -> None:
    written(uri)
    more = ROWS.slice(0, 1).set_column(0, "id", pa.array([9], pa.int64()))
    assert ids(lance_spark.write(more, uri, mode="append", partition_by=BY)) == [1, 2, 3, 9, None]
    assert ids(lance_spark.write(more, uri, mode="overwrite", partition_by=BY)) == [9]
    with_column = more.append_column("n", pa.array([1]))
    merged = lance_spark.write(with_column, uri, mode="append", partition_by=BY, merge_schema=True)
    assert merged.to_table().column("n").to_pylist() == [None, 1]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_modes_make_a_table_that_is_not_there(uri: str, mode: str) -> None:
    assert ids(written(uri, mode=mode)) == [1, 2, 3, None]


def test_a_table_without_rows(uri: str) -> None:
    table = lance_spark.write(ROWS.slice(0, 0), uri, partition_by=["country"])
    assert table.count_rows() == 0
    assert ids(lance_spark.open(uri).append(ROWS)) == [1, 2, 3, None]


def test_what_is_there_is_never_replaced(uri: str, tmp_path: Path) -> None:
    written(uri)
    with pytest.raises(AlreadyExistsError, match="use mode 'append' or 'overwrite'"):
        written(uri)
    for other in (["country"], [*BY, "truncate(2, country)"]):
        with pytest.raises(InvalidInputError, match="is partitioned by country, id_bucket_4, ts_year"):
            lance_spark.write(ROWS, uri, mode="overwrite", partition_by=other)
    with pytest.raises(InvalidInputError, match="stable row ids are chosen when"):
        lance_spark.write(ROWS, uri, mode="append", partition_by=BY, enable_stable_row_ids=True)
    with pytest.raises(InvalidInputError, match="root of a namespace or of a partitioned table"):
        lance_spark.write(ROWS, uri, mode="append")
    plain = str(tmp_path / "plain")
    lance_spark.write(ROWS, plain)
    for mode in ("create", "append", "overwrite"):
        with pytest.raises(AlreadyExistsError, match=r"there is a table at .* already"):
            lance_spark.write(ROWS, plain, mode=mode, partition_by=BY)
    assert ids(lance_spark.open(uri)) == ids(lance_spark.open(plain)) == [1, 2, 3, None]


@pytest.mark.parametrize(
    ("partition_by", "options", "error", "message"),
    [
        ("country", {}, InvalidInputError, r"write \['country'\]"),
        (["nobody"], {}, InvalidInputError, "nobody"),
        (["bucket(id)"], {}, InvalidInputError, "bucket takes a number"),
        (["bucket(4, id"], {}, LanceError, "bucket"),
        (["mystery(id)"], {}, UnsupportedFeatureError, "no partition transform 'mystery'"),
        (["country"], {"branch": "b"}, UnsupportedFeatureError, "has no branch"),
        (["country"], {"target_bases": ["x"]}, UnsupportedFeatureError, "has no target_bases"),
        (["country"], {"mode": "replace"}, InvalidInputError, "unknown mode 'replace'"),
        (["country"], {"auto_zonemap": "nobody"}, LanceError, "nobody"),
        (["country"], {"mystery": 1}, LanceError, "mystery"),
    ],
)
def test_refused(uri: str, partition_by: Any, options: dict[str, Any], error: type[LanceError], message: str) -> None:
    with pytest.raises((error, TypeError), match=message):
        lance_spark.write(ROWS, uri, partition_by=partition_by, **options)
    assert not Path(uri).exists()
