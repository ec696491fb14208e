"""Calls of a store that fail while tables change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from lance_spark.errors import LanceError
from lance_spark.storage.faults import Harm
from lance_spark.table.location import TableLocation
from tests.support.manifest_tables import TableHarm

MANY = 10_000


Call = tuple[str, int]
"""Name of an operation, and which of its calls it is, from 1. Those of a manifest table begin with "table."."""


def harms_of(call: Call) -> Iterator[Harm | TableHarm]:
    name, _ = call
    if name.startswith("table."):
        yield from (TableHarm.FAILS, TableHarm.FAILS_AFTERWARDS) if name != "table.create" else TableHarm
        return
    yield Harm.FAILS
    if name in ("read", "read_range", "read_ranges"):
        yield Harm.TRUNCATED
    if name in ("read", "read_range", "read_ranges", "size", "list", "list_folders"):
        yield Harm.NOT_FOUND
    else:
        # Whether a call that only reads fails before or after it has read is all the same.
        yield Harm.FAILS_AFTERWARDS
    if name == "put_if_absent":
        yield from (Harm.NOT_SENT, Harm.ANSWER_LOST, Harm.SENT_TWICE)


class Change(Protocol):
    """What a writer does."""

    @property
    def do(self) -> Callable[[TableLocation], object]: ...


def run(step: Change, location: TableLocation) -> LanceError | None:
    """The error of a change, None if it succeeds."""
    try:
        step.do(location)
    except LanceError as error:
        return error
    return None
