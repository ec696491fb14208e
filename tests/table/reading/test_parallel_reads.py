"""Parts of a scan that are read at once: order, errors, early ends, and that requests overlap on a remote store."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from threading import Barrier, Condition

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.storage import cache
from lance_spark.table.reading.parallel_reads import Part, read_ahead, read_parts
from tests.support.moto import S3Bucket
from tests.support.s3_proxy import Seen, Trouble, s3_proxy

FRAGMENTS = 40
ROWS = 50


def batch(value: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"v": [value]})


def values(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for found in batches for value in found.column("v").to_pylist()]


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("num_bytes", [1, 30, 1000, inf])
def test_rows_are_in_order(at_once: int, num_bytes: float) -> None:
    parts = [Part(lambda n=n: iter([batch(2 * n), batch(2 * n + 1)]), num_bytes) for n in range(20)]
    assert values(read_parts(parts, at_once=at_once, window_bytes=100)) == list(range(40))


@pytest.mark.parametrize("at_once", [1, 4])
def test_error_comes_after_the_rows_before_it(at_once: int) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(100)
        raise CorruptFileError("on purpose")

    parts = [Part(lambda n=n: iter([batch(n)]), 1) for n in range(3)]
    parts += [Part(broken, 1), Part(lambda: iter([batch(4)]), 1)]
    found: list[int] = []
    with pytest.raises(CorruptFileError, match="on purpose"):
        found.extend(item.column("v")[0].as_py() for item in read_parts(parts, at_once=at_once, window_bytes=100))
    assert found == [0, 1, 2, 100]


def test_first_part_is_read_alone() -> None:
    asked: list[int] = []

    def part(number: int) -> Part:
        return Part(lambda: iter([asked.append(number) or batch(number)]), 1)

    next(read_parts(map(part, range(20)), at_once=16, window_bytes=100))
    assert asked == [0]


def test_parts_overlap() -> None:
    together = Barrier(4)

    def read() -> Iterator[pa.RecordBatch]:
        together.wait(30)
        yield batch(1)

    parts = [Part(lambda: iter([batch(1)]), 1), *(Part(read, 1) for _ in range(4))]
    assert values(read_parts(parts, at_once=4, window_bytes=100)) == [1] * 5


def test_parts_larger_than_a_window_are_read_one_by_one() -> None:
    running: list[int] = []

    def read(number: int) -> Iterator[pa.RecordBatch]:
        running.append(number)
        yield batch(number)
        assert running == [number], "another part has been read meanwhile"
        running.clear()

    parts = [Part(lambda n=n: read(n), inf) for n in range(6)]
    assert values(read_parts(parts, at_once=4, window_bytes=100)) == list(range(6))


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_windows_are_in_order(is_remote: bool, count: int) -> None:
    assert list(read_ahead(lambda number: number * 2, range(count), is_remote=is_remote)) == [*range(0, 2 * count, 2)]


@pytest.mark.parametrize("is_remote", [False, True])
def test_error_of_a_window_comes_after_the_rows_before_it(is_remote: bool) -> None:
    def read(number: int) -> int:
        if number == 3:
            raise CorruptFileError("on purpose")
        return number

    found: list[int] = []
    with pytest.raises(CorruptFileError, match="on purpose"):
        found.extend(read_ahead(read, range(6), is_remote=is_remote))
    assert found == [0, 1, 2]


def test_two_windows_of_a_remote_store_are_read_at_once() -> None:
    together = Barrier(2)

    def read(number: int) -> int:
        if number:
            together.wait(30)
        return number

    assert list(read_ahead(read, range(5), is_remote=True)) == list(range(5))


@pytest.mark.parametrize("is_remote", [False, True])
def test_windows_that_nobody_asks_for_are_not_read(is_remote: bool) -> None:
    asked: list[int] = []
    windows = read_ahead(lambda number: asked.append(number) or number, range(10), is_remote=is_remote)
    assert next(windows) == 0
    assert asked == [0]
    assert next(windows) == 1
    windows.close()
    assert set(asked) <= {0, 1, 2}


def test_windows_of_a_large_file_are_requested_while_another_is_read(s3_bucket: S3Bucket) -> None:
    """After the first rows the server answers a request when there is a second one, or after a while."""
    uri, count = s3_bucket.folder(), 60_000
    table = pa.table({"id": np.arange(count), "s": [f"row {number}" for number in range(count)]})
    lance_spark.write(table, uri, storage_options=s3_bucket.storage_options)
    arrived = Condition()
    waiting, is_overlapped, has_rows = 0, False, False

    def next_trouble(request: Seen) -> Trouble | None:
        nonlocal waiting, is_overlapped
        if has_rows and "/data/" in request.target:
            with arrived:
                waiting += 1
                is_overlapped = is_overlapped or waiting > 1
                arrived.notify_all()
                arrived.wait_for(lambda: is_overlapped, 10)
                waiting -= 1
        return None

    with s3_proxy(s3_bucket.endpoint) as proxy:
        proxy.next_trouble = next_trouble  # type: ignore[method-assign]
        dataset = lance_spark.open(uri, storage_options=s3_bucket.storage_options | {"aws_endpoint": proxy.endpoint})
        cache.shared.clear()
        batches = []
        for found in dataset.plan(columns=["id"], window_bytes=1 << 16).read(dataset.fragments):
            batches.append(found)
            has_rows = True
    assert pa.Table.from_batches(batches).equals(table.select(["id"]))
    assert is_overlapped


@pytest.mark.slow
def test_small_files_of_a_remote_store_are_requested_at_once(s3_bucket: S3Bucket) -> None:
    """The server answers the first request for a file when there is a second one, or after a while."""
    uri, count = s3_bucket.folder(), FRAGMENTS * ROWS
    table = pa.table({"id": np.arange(count), "s": [f"row {number}" for number in range(count)]})
    lance_spark.write(table, uri, storage_options=s3_bucket.storage_options, max_rows_per_file=ROWS)
    arrived = Condition()
    waiting, is_overlapped = 0, False

    def next_trouble(request: Seen) -> Trouble | None:
        nonlocal waiting, is_overlapped
        if "/data/" in request.target:
            with arrived:
                waiting += 1
                is_overlapped = is_overlapped or waiting > 1
                arrived.notify_all()
                arrived.wait_for(lambda: is_overlapped, 10)
                waiting -= 1
        return None

    with s3_proxy(s3_bucket.endpoint) as proxy:
        proxy.next_trouble = next_trouble  # type: ignore[method-assign]
        dataset = lance_spark.open(uri, storage_options=s3_bucket.storage_options | {"aws_endpoint": proxy.endpoint})
        cache.shared.clear()
        assert dataset.to_table().equals(table)
    assert is_overlapped
