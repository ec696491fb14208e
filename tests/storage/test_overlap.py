from __future__ import annotations

import os
import threading

import pytest

from lance_spark.storage.overlap import MAX_THREADS, overlapped, submit
from lance_spark.storage.per_process import PerProcess
from tests.support.storage.forks import in_a_fork


def test_results_come_in_order() -> None:
    assert overlapped(lambda number: number * 2, list(range(100)), 8) == list(range(0, 200, 2))
    assert overlapped(str, [], 8) == []


def test_tasks_run_at_the_same_time() -> None:
    barrier = threading.Barrier(8, timeout=30)
    overlapped(lambda _: barrier.wait(), list(range(8)), 8)


def test_no_more_threads_than_asked_for() -> None:
    threads = set()
    overlapped(lambda _: threads.add(threading.get_ident()), list(range(200)), 3)
    assert len(threads) <= 3
    overlapped(lambda _: threads.add(threading.get_ident()), list(range(5)), 1)
    assert threading.get_ident() in threads


def test_the_first_exception_ends_the_call() -> None:
    done = []

    def run(number: int) -> None:
        if number == 3:
            raise ValueError("three")
        done.append(number)

    with pytest.raises(ValueError, match="three"):
        overlapped(run, list(range(10_000)), 4)
    assert len(done) < 10_000
    assert overlapped(str, [1, 2], 4) == ["1", "2"]


def test_nested_calls_do_not_wait_for_each_other() -> None:
    def outer(number: int) -> int:
        return sum(overlapped(lambda inner: inner * number, list(range(10)), 16))

    assert overlapped(outer, list(range(MAX_THREADS * 4)), MAX_THREADS) == [45 * n for n in range(MAX_THREADS * 4)]


def test_threads_survive_a_fork() -> None:
    overlapped(str, list(range(10)), 4)

    def check() -> None:
        barrier = threading.Barrier(4, timeout=30)
        overlapped(lambda _: barrier.wait(), list(range(4)), 4)
        assert submit(os.getpid).result() == os.getpid()

    in_a_fork(check)


def test_each_process_makes_its_own_value() -> None:
    value = PerProcess(os.getpid)
    assert value.get() == value.get() == os.getpid()
    in_a_fork(lambda: [value.get() == os.getpid() or 1 / 0])


def test_a_value_is_made_once() -> None:
    made = []
    value = PerProcess(lambda: made.append(1) or object())
    assert len({id(found) for found in overlapped(lambda _: value.get(), list(range(50)), 8)}) == 1
    assert made == [1]


def test_a_lock_that_another_thread_holds_does_not_reach_the_child() -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow() -> int:
        inside.set()
        leave.wait(60)
        return 1

    thread = threading.Thread(target=PerProcess(slow).get)
    thread.start()
    inside.wait(60)
    try:
        in_a_fork(lambda: [PerProcess(os.getpid).get() == os.getpid() or 1 / 0])
    finally:
        leave.set()
        thread.join()
