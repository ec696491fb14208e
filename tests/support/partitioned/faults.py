"""Calls of a store that fail, are lost or killed while partitioned tables change."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import lance_spark.partitioned.maintenance.vacuum
import lance_spark.partitioned.writer
import lance_spark.table.bases
import lance_spark.table.location
from lance_spark.storage import open_store
from lance_spark.storage.faults import FaultStore, Harm

CALLS = int(os.environ.get("LANCE_FAULT_CALLS", "2"))


KILLS = int(os.environ.get("LANCE_KILLS", "2"))


MODULES = (
    lance_spark.partitioned.maintenance.vacuum,
    lance_spark.partitioned.writer,
    lance_spark.table.bases,
    lance_spark.table.location,
)


class Plan:
    """Which call of all stores together is harmed, and how."""

    def __init__(self, nth: int = 0, harm: Harm = Harm.NONE, run: Callable[[], None] | None = None) -> None:
        self.num_calls = 0
        self._nth = nth
        self._harm = harm
        self._run = run
        self._lock = threading.Lock()

    def next(self, operation: str) -> Harm:
        with self._lock:
            self.num_calls += 1
            if self.num_calls != self._nth:
                return Harm.NONE
        if self._run is not None:
            self._run()
        if self._harm is Harm.ANSWER_LOST and operation != "put_if_absent":
            return Harm.FAILS_AFTERWARDS
        return self._harm


class RandomPlan:
    """Calls fail at random, before or after they are done."""

    def __init__(self, rng: random.Random, part: float) -> None:
        self._rng = rng
        self._part = part

    def next(self, operation: str) -> Harm:
        if self._rng.random() >= self._part:
            return Harm.NONE
        harms = [Harm.FAILS, Harm.FAILS_AFTERWARDS]
        return self._rng.choice([*harms, Harm.ANSWER_LOST] if operation == "put_if_absent" else harms)


class HarmedStore(FaultStore):
    def __init__(self, inner: object, plan: Plan | RandomPlan) -> None:
        super().__init__(inner, [])  # type: ignore[arg-type]
        self.plan = plan

    def _next_harm(self, operation: str, path: str) -> Harm:
        return self.plan.next(operation)


@contextmanager
def harmed(plan: Plan | RandomPlan) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "open_store", lambda uri, options=None: HarmedStore(open_store(uri, options), plan))
        yield


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
