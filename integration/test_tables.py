"""Tables on real services: the changes of a table's life, and writers in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import lance
import pyarrow as pa
import pytest

import lance_spark
from integration.components import Seaweedfs
from integration.conftest import Service
from lance_spark.errors import CommitConflictError, InvalidInputError, LanceError, RetryableConflictError
from lance_spark.storage import open_store
from lance_spark.storage.base import PutResult
from tests.support.equality import assert_tables_equal
from tests.support.moto import S3Bucket

ROUNDS = int(os.environ.get("LANCE_RACE_ROUNDS", "1"))
APPEND = """
import json, sys, pyarrow as pa, lance_spark
uri, options, first, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + count):
    while True:
        try:
            lance_spark.write(pa.table({"a": [number, -number]}), uri, mode="append", storage_options=options)
            break
        except lance_spark.RetryableConflictError:
            continue
    print(number, flush=True)
"""


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def uri(service: Service) -> str:
    return f"{service.root}/{uuid.uuid4().hex}"


def test_the_life_of_a_table(service: Service, uri: str) -> None:
    options = service.options
    lance_spark.write(rows(1, 2, 3), uri, storage_options=options)
    with pytest.raises(InvalidInputError, match="exists"):
        lance_spark.write(rows(0), uri, storage_options=options)
    lance_spark.write(rows(4, 5), uri, mode="append", storage_options=options)
    dataset = lance_spark.open(uri, storage_options=options).delete("a = 2 OR a = 5")
    assert dataset.version == 3
    dataset.create_tag("before", 2)
    assert dataset.update_config({"k": "v"}).config == {"k": "v"}
    lance_spark.write(rows(9), uri, mode="overwrite", storage_options=options)
    dataset = lance_spark.open(uri, storage_options=options)
    assert dataset.to_table()["a"].to_pylist() == [9]
    assert [entry.version for entry in dataset.versions()] == [1, 2, 3, 4, 5]
    assert lance_spark.open(uri, version=1, storage_options=options).to_table()["a"].to_pylist() == [1, 2, 3]
    assert lance_spark.open(uri, tag="before", storage_options=options).count_rows() == 5
    assert dataset.restore(3).to_table(filter="a > 1")["a"].to_pylist() == [3, 4]
    lance_spark.open(uri, storage_options=options).update_config({"k": "other"})
    with pytest.raises(CommitConflictError):
        lance_spark.open(uri, version=6, storage_options=options).update_config({"k": "third"})


def test_a_large_table(service: Service, uri: str) -> None:
    values = pa.array([number * 0x9E3779B97F4A7C15 % (1 << 62) for number in range(3_000_000)], pa.int64())
    table = pa.table({"a": values, "b": pa.array([str(number) for number in range(3_000_000)])})
    dataset = lance_spark.write(table, uri, storage_options=service.options)
    assert_tables_equal(dataset.to_table(), table)
    assert dataset.take([2_999_999, 5])["b"].to_pylist() == ["2999999", "5"]


def test_both_libraries_write_one_table(service: Service, uri: str) -> None:
    options = service.reference_options
    if options is None:
        pytest.skip("the reference library cannot be told where this emulator is")
    lance_spark.write(rows(1), uri, storage_options=service.options)
    lance.write_dataset(rows(2), uri, mode="append", storage_options=options)
    lance_spark.write(rows(3), uri, mode="append", storage_options=service.options)
    lance.dataset(uri, storage_options=options).delete("a = 1")
    found = lance_spark.open(uri, storage_options=service.options).to_table()
    assert found["a"].to_pylist() == [2, 3]
    assert_tables_equal(found, lance.dataset(uri, storage_options=options).to_table())


def start(uri: str, options: dict[str, str], first: int, count: int) -> subprocess.Popen[str]:
    import json

    command = [sys.executable, "-c", APPEND, uri, json.dumps(options), str(first), str(count)]
    root = Path(__file__).parents[1]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)


def race_processes(uri: str, options: dict[str, str], count: int) -> list[int]:
    """Two processes append at the same time; the values that must be there."""
    workers = [start(uri, options, 1000 * side, count) for side in (1, 2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=300)
        assert worker.returncode == 0
    return sorted(sign * number for side in (1000, 2000) for number in range(side, side + count) for sign in (1, -1))


def values(uri: str, options: dict[str, str]) -> list[int]:
    return sorted(lance_spark.open(uri, storage_options=options).to_table()["a"].to_pylist())


def test_two_processes_append(service: Service, uri: str) -> None:
    for round_ in range(ROUNDS):
        place = f"{uri}-{round_}"
        expected = race_processes(place, service.options, 15)
        assert values(place, service.options) == expected
        assert lance_spark.open(place, storage_options=service.options).version == 30


def race_threads(uri: str, options: dict[str, str], num_writers: int) -> None:
    barrier = Barrier(num_writers)

    def work(writer: int) -> int:
        barrier.wait()
        while True:
            try:
                return lance_spark.write(rows(writer), uri, mode="append", storage_options=options).version
            except RetryableConflictError:
                continue

    with ThreadPoolExecutor(num_writers) as pool:
        versions = list(pool.map(work, range(num_writers)))
    assert sorted(versions) == list(range(1, num_writers + 1))
    assert values(uri, options) == list(range(num_writers))


def test_one_of_32_creations_wins(service: Service, uri: str) -> None:
    store = open_store(uri, service.options)
    for version in range(5 * ROUNDS):
        barrier = Barrier(32)

        def create(writer: int, version: int = version, barrier: Barrier = barrier) -> PutResult:
            barrier.wait()
            return store.put_if_absent(f"_versions/{version}.manifest", b"%d" % writer)

        with ThreadPoolExecutor(32) as pool:
            results = list(pool.map(create, range(32)))
        (winner,) = [writer for writer, result in enumerate(results) if result is PutResult.CREATED]
        assert store.read(f"_versions/{version}.manifest").to_pybytes() == b"%d" % winner


def test_32_writers_append(service: Service, uri: str) -> None:
    for round_ in range(ROUNDS):
        race_threads(f"{uri}-{round_}", service.options, 32)


def test_dynamodb_beside_seaweedfs(seaweed_service: Service, moto: S3Bucket) -> None:
    options = {**seaweed_service.options, "dynamodb_endpoint": moto.endpoint}
    bucket = seaweed_service.root.removeprefix("s3://")
    uri = f"s3+ddb://{bucket}/{uuid.uuid4().hex}?ddbTableName={moto.manifest_table()}"
    lance.write_dataset(rows(0), uri, storage_options=options)
    expected = race_processes(uri, options, 10)
    assert values(uri, options) == sorted([0, *expected])
    reference = lance.dataset(uri, storage_options=options)
    assert sorted(reference.to_table()["a"].to_pylist()) == sorted([0, *expected])
    assert reference.version == 21
    for round_ in range(ROUNDS):
        place = f"s3+ddb://{bucket}/{uuid.uuid4().hex}-{round_}?ddbTableName={moto.manifest_table()}"
        race_threads(place, options, 16)


def test_a_server_that_is_killed_while_writers_commit(seaweed: Seaweedfs) -> None:
    options = {**seaweed.bucket.storage_options, "timeout": "5s", "connect_timeout": "2s"}
    uri = f"{seaweed.bucket.uri}/{uuid.uuid4().hex}"
    lance_spark.write(rows(0), uri, storage_options=options)
    acknowledged: list[int] = []
    for number in range(1, 1000):
        if number == 20:
            seaweed.kill()
        try:
            lance_spark.write(rows(number), uri, mode="append", storage_options=options)
        except LanceError:
            break
        acknowledged.append(number)
    assert acknowledged == list(range(1, 20))
    seaweed.start()
    found = values(uri, options)
    assert set(acknowledged) <= set(found) <= {0, 20, *acknowledged}
    assert len(found) == len(set(found))
    lance_spark.write(rows(21), uri, mode="append", storage_options=options)
    assert 21 in values(uri, options)
