"""A `ManifestTable` in memory, which misbehaves on demand as `FaultStore` does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from lance_spark.errors import StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.manifest_table import ManifestEntry

Result = TypeVar("Result")


class TableHarm(Enum):
    """What happens to a call."""

    FAILS = "fails"
    FAILS_AFTERWARDS = "fails afterwards"
    NOT_SENT = "not sent"
    ANSWER_LOST = "answer lost"
    SENT_TWICE = "sent twice"
    LATE = "late"
    """A creation that reports UNKNOWN and arrives with the call after the next one."""


@dataclass(frozen=True)
class TableFault:
    """The `nth` to `nth + times - 1` calls of `operation` are harmed; `run` is called first."""

    operation: str
    harm: TableHarm | None = TableHarm.FAILS
    nth: int = 1
    times: int = 1
    run: Callable[[], object] | None = None


class MemoryManifestTable:
    """The entries of one root, shared by all that have this object."""

    description = "the table of the test"

    def __init__(self, faults: Sequence[TableFault] = (), entries: dict[int, ManifestEntry] | None = None) -> None:
        self.entries: dict[int, ManifestEntry] = {} if entries is None else entries
        self._faults = list(faults)
        self._seen: Counter[int] = Counter()
        self._late: list[tuple[int, ManifestEntry]] = []
        self._lock = threading.Lock()
        self._num_calls = 0

    def with_faults(self, *faults: TableFault) -> MemoryManifestTable:
        """The same entries as another writer sees them."""
        return MemoryManifestTable(faults, self.entries)

    def latest(self) -> ManifestEntry | None:
        return self._call("latest", lambda: self.entries[max(self.entries)] if self.entries else None)

    def get(self, version: int) -> ManifestEntry | None:
        return self._call("get", lambda: self.entries.get(version))

    def create(self, entry: ManifestEntry) -> PutResult:
        harm = self._next("create")
        if harm is TableHarm.FAILS:
            raise StorageError("create fails on purpose")
        if harm is TableHarm.NOT_SENT:
            return PutResult.UNKNOWN
        if harm is TableHarm.LATE:
            self._late.append((self._num_calls + 2, entry))
            return PutResult.UNKNOWN
        created = self.entries.setdefault(entry.version, entry) is entry
        if harm is TableHarm.ANSWER_LOST:
            return PutResult.UNKNOWN
        return PutResult.CREATED if created and harm is not TableHarm.SENT_TWICE else PutResult.EXISTS

    def replace(self, entry: ManifestEntry) -> bool:
        def do() -> bool:
            if entry.version not in self.entries:
                return False
            self.entries[entry.version] = entry
            return True

        return self._call("replace", do)

    def clear(self) -> None:
        self._call("clear", self.entries.clear)

    def _call(self, operation: str, do: Callable[[], Result]) -> Result:
        harm = self._next(operation)
        if harm is TableHarm.FAILS:
            raise StorageError(f"{operation} fails on purpose")
        result = do()
        if harm is TableHarm.FAILS_AFTERWARDS:
            raise StorageError(f"{operation} was done and fails on purpose")
        return result

    def _next(self, operation: str) -> TableHarm | None:
        self._num_calls += 1
        for due, entry in [late for late in self._late if late[0] <= self._num_calls]:
            self._late.remove((due, entry))
            self.entries.setdefault(entry.version, entry)
        harm = None
        for index, fault in enumerate(self._faults):
            if fault.operation != operation:
                continue
            with self._lock:
                self._seen[index] += 1
                due_now = fault.nth <= self._seen[index] < fault.nth + fault.times
            if due_now:
                if fault.run is not None:
                    fault.run()
                harm = fault.harm or harm
        return harm
