"""Processes that race for the same names of a store."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

from lance_spark.storage.base import ObjectStore, PutResult

_RACERS = 16
_SECONDS = 120


def assert_one_of_many_processes_wins(store: ObjectStore, rounds: int) -> None:
    """In each round, one of many processes creates the object, and it is that one's content which is there."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(_RACERS), context.Queue()
    data = pickle.dumps(store)
    racers = [context.Process(target=_race, args=(data, number, rounds, barrier, results)) for number in range(_RACERS)]
    for racer in racers:
        racer.start()
    found = [results.get(timeout=_SECONDS) for _ in range(rounds * _RACERS)]
    for racer in racers:
        racer.join(_SECONDS)
    for round_ in range(rounds):
        winners = [number for r, number, result in found if r == round_ and result is PutResult.CREATED]
        assert len(winners) == 1
        assert store.read(_name(round_)).to_pybytes() == b"%d" % winners[0]
    assert {result for _, _, result in found} == {PutResult.CREATED, PutResult.EXISTS}


def _race(data: bytes, number: int, rounds: int, barrier: Any, results: Any) -> None:
    store = pickle.loads(data)
    for round_ in range(rounds):
        barrier.wait(_SECONDS)
        results.put((round_, number, store.put_if_absent(_name(round_), b"%d" % number)))


def _name(round_: int) -> str:
    return f"_versions/{round_}"
