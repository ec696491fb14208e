from __future__ import annotations

import pickle
import time
import uuid

import pytest

from lance_spark.errors import InvalidInputError, NotFoundError, StorageError
from lance_spark.storage import open_store
from lance_spark.storage.base import ByteRange, ObjectStore, PutResult
from lance_spark.storage.faults import Fault, FaultStore, Harm
from tests.support.counting_store import CountingStore
from tests.support.store_contract import StoreContract


@pytest.fixture
def inner() -> ObjectStore:
    return open_store(f"memory://{uuid.uuid4().hex}")


class TestFaultStoreWithoutFaults(StoreContract):
    @pytest.fixture
    def store(self, inner: ObjectStore) -> ObjectStore:
        return FaultStore(inner, [])


class TestCountingStore(StoreContract):
    @pytest.fixture
    def store(self, inner: ObjectStore) -> ObjectStore:
        return CountingStore(inner)

    def test_survives_pickle(self, store: ObjectStore) -> None:
        pytest.skip("counts belong to one process")


def test_the_answer_of_a_put_is_lost(inner: ObjectStore) -> None:
    store = FaultStore(inner, [Fault("put_if_absent", Harm.ANSWER_LOST)])
    assert store.put_if_absent("a", b"1") is PutResult.UNKNOWN
    assert store.put_if_absent("a", b"2") is PutResult.EXISTS
    assert inner.read("a").to_pybytes() == b"1"


def test_a_put_is_never_sent(inner: ObjectStore) -> None:
    store = FaultStore(inner, [Fault("put_if_absent", Harm.NOT_SENT)])
    assert store.put_if_absent("a", b"1") is PutResult.UNKNOWN
    with pytest.raises(NotFoundError):
        inner.read("a")


def test_a_put_is_sent_twice(inner: ObjectStore) -> None:
    store = FaultStore(inner, [Fault("put_if_absent", Harm.SENT_TWICE, nth=2)])
    assert store.put_if_absent("a", b"1") is PutResult.CREATED
    assert store.put_if_absent("b", b"1") is PutResult.EXISTS
    assert inner.read("b").to_pybytes() == b"1"


def test_the_nth_calls_of_a_path_fail(inner: ObjectStore) -> None:
    store = FaultStore(inner, [Fault("put", nth=2, times=2, path_part="data/")])
    outcomes = []
    for path in ["data/1", "other", "data/2", "data/3", "data/4"]:
        try:
            store.put(path, b"x")
            outcomes.append("done")
        except StorageError:
            outcomes.append("failed")
    assert outcomes == ["done", "done", "failed", "failed", "done"]


def test_it_fails_after_the_work_is_done(inner: ObjectStore) -> None:
    store = FaultStore(inner, [Fault("put_if_absent", Harm.FAILS_AFTERWARDS), Fault("close", Harm.FAILS_AFTERWARDS)])
    with pytest.raises(StorageError):
        store.put_if_absent("a", b"1")
    output = store.open_output("b")
    output.write(b"2")
    with pytest.raises(StorageError):
        output.close()
    assert [inner.read(path).to_pybytes() for path in "ab"] == [b"1", b"2"]


@pytest.mark.parametrize("operation", ["read", "read_range", "read_ranges", "size", "list", "list_folders", "delete"])
def test_every_operation_can_fail(inner: ObjectStore, operation: str) -> None:
    store = FaultStore(inner, [Fault(operation)])
    store.put("a", b"1")
    calls = {
        "read": lambda: store.read("a"),
        "read_range": lambda: store.read_range("a", ByteRange(0, 1)),
        "read_ranges": lambda: store.read_ranges("a", [ByteRange(0, 1)]),
        "size": lambda: store.size("a"),
        "list": lambda: store.list(""),
        "list_folders": lambda: store.list_folders(""),
        "delete": lambda: store.delete("a"),
    }
    with pytest.raises(StorageError):
        calls[operation]()
    calls[operation]()


@pytest.mark.parametrize("operation", ["open_output", "write", "close"])
def test_streams_can_fail(inner: ObjectStore, operation: str) -> None:
    store = FaultStore(inner, [Fault(operation)])

    def write() -> None:
        output = store.open_output("a")
        output.write(b"1")
        output.close()

    with pytest.raises(StorageError):
        write()
    assert list(inner.list("")) == []


def test_another_writer_acts_in_between(inner: ObjectStore) -> None:
    store = FaultStore(inner, [Fault("put_if_absent", Harm.NONE, run=lambda: inner.put("a", b"theirs"))])
    assert store.put_if_absent("a", b"ours") is PutResult.EXISTS
    assert store.read("a").to_pybytes() == b"theirs"


def test_a_call_takes_its_time(inner: ObjectStore) -> None:
    store = FaultStore(inner, [Fault("put", Harm.NONE, delay_seconds=0.05)])
    start = time.monotonic()
    store.put("a", b"1")
    assert time.monotonic() - start >= 0.05


def test_faults_that_make_no_sense() -> None:
    with pytest.raises(InvalidInputError):
        Fault("fly")
    with pytest.raises(InvalidInputError):
        Fault("read", Harm.ANSWER_LOST)


def test_faults_travel(inner: ObjectStore) -> None:
    store = pickle.loads(pickle.dumps(FaultStore(inner, [Fault("put", nth=2)])))
    store.put("a", b"1")
    with pytest.raises(StorageError):
        store.put("a", b"1")


def test_requests_and_bytes_are_counted_as_an_object_store_would_see_them(inner: ObjectStore) -> None:
    store = CountingStore(inner)
    store.put("a", bytes(30 << 20))
    store.put_if_absent("b", b"123")
    output = store.open_output("c")
    output.write(b"12")
    output.write(b"345")
    output.close()
    written = store.reset()
    assert written.bytes_written == (30 << 20) + 3 + 5
    assert written.total_requests == 3
    assert written.paths == ["a", "b", "c"]
    store.read_ranges("a", [ByteRange(0, 10), ByteRange(1000, 10), ByteRange(20 << 20, 10)])
    assert (store.counts.calls["read_ranges"], store.counts.read_requests) == (1, 2)
    assert store.counts.bytes_read == 1010 + 10
    store.reset()
    store.read_range("a", ByteRange(0, 20 << 20))
    store.read("b")
    assert (store.counts.read_requests, store.counts.bytes_read) == (4, (20 << 20) + 3)
