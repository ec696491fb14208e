"""A version that was opened before a clean-up, whose indexes are asked for the first time after it.

Its rows are right, with one warning if only the files of the index are gone, or an error says that it was cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import LanceError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.storage.cache import shared
from tests.support.moto import S3Bucket, s3_bucket

__all__ = ["s3_bucket"]

NUM_ROWS = 200
VECTORS = np.random.default_rng(1).normal(size=(2 * NUM_ROWS, 8)).astype(np.float32)


def rows(first: int) -> pa.Table:
    ids = range(first, first + NUM_ROWS)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS[first : first + NUM_ROWS].ravel()), 8)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": pa.array([number % 2 for number in ids], pa.int32()),
            "s": [f"word w{number % 50}" for number in ids],
            "v": vectors,
        }
    )


def nearest(dataset: Any) -> list[int]:
    return sorted(dataset.nearest("v", VECTORS[7], 5, columns=["id"], nprobes=100)["id"].to_pylist())


def searched(dataset: Any) -> list[int]:
    return sorted(dataset.search("w3", columns=["id"])["id"].to_pylist())


def filtered(condition: str) -> Callable[[Any], list[int]]:
    return lambda dataset: sorted(dataset.to_table(["id"], filter=condition)["id"].to_pylist())


NEAREST = sorted(int(number) for number in np.argsort(((VECTORS[:NUM_ROWS] - VECTORS[7]) ** 2).sum(axis=1))[:5])
W3 = [number for number in range(NUM_ROWS) if number % 50 == 3]
Asks = tuple[str, str, dict[str, Any], Callable[[Any], list[int]], list[int]]
ASKS: dict[str, Asks] = {
    "btree": ("id", "BTREE", {}, filtered("id = 17 OR id = 18"), [17, 18]),
    "bitmap": ("s", "BITMAP", {}, filtered("s = 'word w3'"), W3),
    "zonemap": ("id", "ZONEMAP", {}, filtered("id < 3"), [0, 1, 2]),
    "inverted": ("s", "INVERTED", {}, searched, W3),
    "vectors": ("v", "IVF_FLAT", {"num_partitions": 2, "metric": "l2"}, nearest, NEAREST),
}


@pytest.fixture(autouse=True)
def nothing_cached() -> Iterator[None]:
    shared.clear()
    yield
    shared.clear()


def overwritten(dataset: Any) -> Any:
    return dataset.overwrite(rows(NUM_ROWS))


def restored(dataset: Any) -> Any:
    before = dataset.version - 1
    return dataset.overwrite(rows(NUM_ROWS)).restore(before)


def built_again(dataset: Any) -> Any:
    for column, kind, parameters, _, _ in ASKS.values():
        name = f"{column}_{kind}"
        if name in {entry["name"] for entry in dataset.list_indices()}:
            dataset = dataset.create_index(column, kind, name=name, replace=True, **parameters)
    return dataset


CHANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "index built again": (built_again, True),
    "index dropped": (lambda dataset: dataset.drop_index(dataset.list_indices()[0]["name"]), True),
    "overwritten": (overwritten, False),
    "restored": (restored, False),
    "compacted": (lambda dataset: dataset.compact(target_rows_per_fragment=10_000), False),
}
"""What another writer does, and whether the data files stay."""


def check(
    uri: str, options: dict[str, str] | None, asked: str, change: str, is_partitioned: bool, warnings: list[str]
) -> None:
    column, kind, parameters, ask, expected = ASKS[asked]
    if is_partitioned:
        by = [PartitionBy("p", ("p",), Identity())]
        made: Any = create_partitioned_dataset(uri, rows(0).schema, by, storage_options=options)
        made = made.append(rows(0), max_rows_per_file=60)
    else:
        made = lance_spark.write(rows(0), uri, max_rows_per_file=60, storage_options=options)
    made.create_index(column, kind, name=f"{column}_{kind}", **parameters)
    shared.clear()
    reader: Any = lance_spark.open(uri, storage_options=options)
    do, keeps_data = CHANGES[change]
    do(lance_spark.open(uri, storage_options=options))
    newest: Any = lance_spark.open(uri, storage_options=options)
    newest.cleanup(older_than=timedelta(0), delete_unverified=True)
    shared.clear()
    warnings.clear()
    try:
        found = ask(reader)
    except LanceError as error:
        found, told = None, str(error)
    if found is None:
        assert "clean" in told
        assert is_partitioned or not keeps_data
    else:
        assert found == expected
        assert len(warnings) == len(set(warnings)) == (2 if is_partitioned else 1)


@pytest.mark.parametrize("is_partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("asked", ASKS)
def test_index_is_asked_for_after_its_files_are_gone(
    tmp_path: Path, asked: str, change: str, is_partitioned: bool, warnings: list[str]
) -> None:
    check(str(tmp_path / "t"), None, asked, change, is_partitioned, warnings)


@pytest.mark.slow
@pytest.mark.parametrize("is_partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("change", ["index built again", "overwritten"])
@pytest.mark.parametrize("asked", ["btree", "vectors"])
def test_files_in_an_object_store_are_gone(
    s3_bucket: S3Bucket, asked: str, change: str, is_partitioned: bool, warnings: list[str]
) -> None:
    check(s3_bucket.folder(), s3_bucket.storage_options, asked, change, is_partitioned, warnings)
