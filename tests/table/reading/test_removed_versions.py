"""A reader whose version VACUUM has removed hears so; a file that is missing otherwise is told apart."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark import Dataset
from lance_spark.errors import NotFoundError
from lance_spark.partitioned.save import create_partitioned
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.row_level.write_target import WriteMode
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows, vacuum

REMOVED = r"version 1 of .*/t was removed by VACUUM .* while it was read\. Run the query again; .* tag"

READS: dict[str, Callable[[Dataset], object]] = {
    "table": lambda old: old.to_table(),
    "filter": lambda old: old.to_table(filter="a > 1"),
    "count": lambda old: old.count_rows("a > 1"),
    "take": lambda old: old.take([0]),
    "batches": lambda old: list(old.scan()),
    "task": lambda old: list(pickle.loads(pickle.dumps(old.plan())).read([old.fragments[0]])),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def old(uri: str) -> Dataset:
    old = lance_spark.write(pa.table({"a": [1, 2, 3]}), uri)
    lance_spark.write(pa.table({"a": [4]}), uri, mode="overwrite")
    return old


def remove_old_versions(uri: str) -> None:
    lance_spark.open(uri).cleanup(timedelta(0), delete_unverified=True)


@pytest.mark.parametrize("read", READS)
def test_reader_of_a_removed_version_hears_which(uri: str, old: Dataset, read: str) -> None:
    remove_old_versions(uri)
    with pytest.raises(NotFoundError, match=REMOVED) as caught:
        READS[read](old)
    assert isinstance(caught.value.__cause__, NotFoundError)


def test_stream_of_batches_hears_in_the_middle(uri: str) -> None:
    # Small fragments are read in groups; the first group has fewer than these.
    lance_spark.write(pa.table({"a": range(100)}), uri, max_rows_per_file=1)
    old = lance_spark.open(uri)
    batches = old.scan()
    assert next(batches)["a"][0].as_py() == 0
    lance_spark.write(pa.table({"a": [4]}), uri, mode="overwrite")
    remove_old_versions(uri)
    with pytest.raises(NotFoundError, match=REMOVED):
        list(batches)


@pytest.mark.parametrize("read", READS)
def test_missing_file_of_a_version_that_is_there_is_told_apart(uri: str, old: Dataset, read: str) -> None:
    (name,) = (file.path for file in old.fragments[0].files)
    Path(uri, "data", name).unlink()
    with pytest.raises(NotFoundError, match=f"{name}.*; version 1 of .* is still there, so the table has lost it"):
        READS[read](old)


def test_tagged_version_is_read_on(uri: str, old: Dataset) -> None:
    old.create_tag("keep")
    lance_spark.open(uri).cleanup(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
    assert old.to_table()["a"].to_pylist() == [1, 2, 3]


def test_reader_of_a_partitioned_table_hears_the_version_of_the_whole(uri: str) -> None:
    old: PartitionedTable = save_rows(create_partitioned(uri, SCHEMA, BY_COUNTRY), rows(1, 2))
    save_rows(old, rows(3), WriteMode.OVERWRITE)
    opened = old.open_all(old.partitions())
    vacuum(old.newest(), timedelta(0), delete_unverified=True)
    plan = pickle.loads(pickle.dumps(old.plan(opened[0])))
    expected = rf"version {old.version} of .*/t \(version 1 of its partition .*\) was removed by VACUUM"
    with pytest.raises(NotFoundError, match=expected):
        list(plan.read([opened[0].manifest.fragments[0]]))
