"""A store with fault injection, for tests.

The second put-if-absent takes effect, but its reply is lost:

>>> from lance_spark.storage import open_store
>>> fault = Fault("put_if_absent", Harm.ANSWER_LOST, nth=2)
>>> store = FaultStore(open_store("memory://faults-doctest"), [fault])
>>> store.put_if_absent("_versions/1.manifest", b"ours")
<PutResult.CREATED: 'created'>
>>> store.put_if_absent("_versions/2.manifest", b"ours")
<PutResult.UNKNOWN: 'unknown'>
>>> store.read("_versions/2.manifest").to_pybytes()
b'ours'
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, StorageError
from lance_spark.storage.base import ByteRange, ObjectInfo, ObjectStore, OutputStream, PutResult

Result = TypeVar("Result")


class Harm(Enum):
    """The effect of a fault on a call."""

    NONE = "none"
    """Nothing; for faults that only wait or run something."""
    FAILS = "fails"
    """StorageError without any effect."""
    FAILS_AFTERWARDS = "fails afterwards"
    """The call takes effect, and then raises StorageError."""
    NOT_FOUND = "not found"
    """NotFoundError although the object may exist, as from an eventually consistent store; listings are empty."""
    TRUNCATED = "truncated"
    """A read that silently loses the second half of its last buffer."""
    NOT_SENT = "not sent"
    """A put-if-absent without effect that returns UNKNOWN."""
    ANSWER_LOST = "answer lost"
    """A put-if-absent that takes effect and returns UNKNOWN."""
    SENT_TWICE = "sent twice"
    """A put-if-absent whose reply was lost and whose client retried: it returns EXISTS for our own object."""


_READS = frozenset({"read", "read_range", "read_ranges"})
_LISTINGS = frozenset({"list", "list_folders"})
_ONLY_PUT_IF_ABSENT = frozenset({Harm.NOT_SENT, Harm.ANSWER_LOST, Harm.SENT_TWICE})

OPERATIONS = (
    "read",
    "read_range",
    "read_ranges",
    "size",
    "put",
    "put_if_absent",
    "open_output",
    "write",
    "close",
    "list",
    "list_folders",
    "delete",
)
"""The calls that can have faults: the methods of `ObjectStore`, and "write" and "close" of its streams."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One injected fault.

    Args:
        operation: one of `OPERATIONS`.
        harm: its effect.
        nth: the first affected call, counted from 1 over the calls of this operation that match `path_part`.
        times: the number of consecutive affected calls.
        path_part: affects only calls whose path contains this.
        delay_seconds: a delay before the call.
        run: is called first; for example to let another writer act at this moment.
    """

    operation: str
    harm: Harm = Harm.FAILS
    nth: int = 1
    times: int = 1
    path_part: str = ""
    delay_seconds: float = 0.0
    run: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise InvalidInputError(f"no operation {self.operation!r}; there are {', '.join(OPERATIONS)}")
        if self.harm in _ONLY_PUT_IF_ABSENT and self.operation != "put_if_absent":
            raise InvalidInputError(f"{self.harm} is for put_if_absent only")
        if self.harm is Harm.TRUNCATED and self.operation not in _READS:
            raise InvalidInputError(f"{self.harm} is for reads only")


class FaultStore:
    """An `ObjectStore` that injects `faults` into calls of `inner`. Pickling resets the counts."""

    def __init__(self, inner: ObjectStore, faults: Sequence[Fault]) -> None:
        self._inner = inner
        self._faults = tuple(faults)
        self._lock = threading.Lock()
        self._seen: Counter[int] = Counter()

    def __reduce__(self) -> tuple[Any, ...]:
        return FaultStore, (self._inner, self._faults)

    @property
    def uri(self) -> str:
        return self._inner.uri

    def read(self, path: str) -> pa.Buffer:
        return self._call("read", path, lambda: self._inner.read(path))

    def read_range(self, path: str, byte_range: ByteRange) -> pa.Buffer:
        return self._call("read_range", path, lambda: self._inner.read_range(path, byte_range))

    def read_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        return self._call("read_ranges", path, lambda: self._inner.read_ranges(path, byte_ranges))

    def size(self, path: str) -> int:
        return self._call("size", path, lambda: self._inner.size(path))

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        self._call("put", path, lambda: self._inner.put(path, data))

    def put_if_absent(self, path: str, data: pa.Buffer | bytes) -> PutResult:
        harm = self._next_harm("put_if_absent", path)
        if harm is Harm.NOT_SENT:
            return PutResult.UNKNOWN
        result = _harmed(harm, "put_if_absent", path, lambda: self._inner.put_if_absent(path, data))
        if harm is Harm.ANSWER_LOST:
            return PutResult.UNKNOWN
        return PutResult.EXISTS if harm is Harm.SENT_TWICE else result

    def open_output(self, path: str) -> OutputStream:
        return _FaultOutput(self, path, self._call("open_output", path, lambda: self._inner.open_output(path)))

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        return self._call("list", prefix, lambda: self._inner.list(prefix, recursive=recursive))

    def list_folders(self, prefix: str) -> Iterator[str]:
        return self._call("list_folders", prefix, lambda: self._inner.list_folders(prefix))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self._inner.delete(path))

    def _call(self, operation: str, path: str, do: Callable[[], Result]) -> Result:
        return _harmed(self._next_harm(operation, path), operation, path, do)

    def _next_harm(self, operation: str, path: str) -> Harm:
        """Counts the call, and applies the delays and callbacks of its faults."""
        harm = Harm.NONE
        for index, fault in enumerate(self._faults):
            if fault.operation != operation or fault.path_part not in path:
                continue
            with self._lock:
                self._seen[index] += 1
                due = fault.nth <= self._seen[index] < fault.nth + fault.times
            if due:
                if fault.delay_seconds:
                    time.sleep(fault.delay_seconds)
                if fault.run is not None:
                    fault.run()
                harm = fault.harm if fault.harm is not Harm.NONE else harm
        return harm


class _FaultOutput:
    def __init__(self, store: FaultStore, path: str, inner: OutputStream) -> None:
        self._store = store
        self._path = path
        self._inner = inner

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        self._store._call("write", self._path, lambda: self._inner.write(data))

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        self._store._call("close", self._path, self._inner.close)

    def abort(self) -> None:
        self._inner.abort()


def _harmed(harm: Harm, operation: str, path: str, do: Callable[[], Result]) -> Result:
    if harm is Harm.FAILS:
        raise StorageError(f"{operation} of {path!r} fails on purpose")
    if harm is Harm.NOT_FOUND and operation not in _LISTINGS:
        raise NotFoundError(f"{path!r} is not found on purpose")
    result = do()
    if harm is Harm.FAILS_AFTERWARDS:
        raise StorageError(f"{operation} of {path!r} was done and fails on purpose")
    if harm is Harm.NOT_FOUND:
        return cast(Result, iter(()))
    return cast(Result, _truncated(result)) if harm is Harm.TRUNCATED else result


def _truncated(result: object) -> object:
    if isinstance(result, list):
        return [*result[:-1], _truncated(result[-1])] if result else result
    buffer = cast(pa.Buffer, result)
    return buffer.slice(0, buffer.size // 2)
