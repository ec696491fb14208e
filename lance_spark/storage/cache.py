"""What was read from immutable objects and is kept for the next reader of this process, bounded by bytes.

Five kinds of things are kept: manifests by version, deletion vectors, the ends of data files, bounds of their columns,
and the open files and dictionaries of indexes. None of them is ever changed under its name; but a table can be removed
and made anew, and then the same name means something else. So a key holds, beside the store and the path, what tells
the two apart:

- names of data files, deletion files and folders of indexes are random, and never given twice;
- manifests are numbered, so their key has the *stamp* of the object as a listing or the store has just told it (an
  ETag; on a local disk the inode, size and times). Which version is the newest is never kept.

Only stores that say who they are take part (`Identified`): two stores with other credentials share nothing.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast, runtime_checkable

from lance_spark.storage.base import ObjectStore

DEFAULT_MAX_BYTES = 256 << 20
_VARIABLE = "LANCE_SPARK_CACHE_BYTES"

Value = TypeVar("Value")


@runtime_checkable
class Identified(Protocol):
    """A store whose objects may be kept.

    Attributes:
        identity: equal for stores that see the same objects with the same rights.
        stamps_are_free: whether `stamp` asks no service.
    """

    @property
    def identity(self) -> Hashable: ...

    @property
    def stamps_are_free(self) -> bool: ...

    def stamp(self, path: str) -> Hashable | None:
        """What no other object has that ever had or will have this path; None if nothing is known to tell them apart.

        Raises:
            NotFoundError: the object is not there.
            StorageError: the store failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Kept:
    value: object
    num_bytes: int


class Cache:
    """The least recently used values go first. Thread safe; a forked child begins with an empty one.

    >>> cache = Cache(max_bytes=100)
    >>> for name in "abc":
    ...     cache.put(name, name.upper(), 40)
    >>> cache.get("a"), cache.get("b"), cache.num_bytes
    (None, 'B', 80)
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        # Another thread of the parent may have held the lock at the moment of the fork, halfway through a change.
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._num_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of everything that is kept, as it was declared."""
        return self._num_bytes

    def get(self, key: Hashable) -> object | None:
        """The value, None if it is not kept (any more)."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            self._kept.move_to_end(key)
            return kept.value

    def put(self, key: Hashable, value: object, num_bytes: int) -> None:
        """Keeps `value`, unless it would take more than half of the room by itself."""
        with self._lock:
            old = self._kept.pop(key, None)
            self._num_bytes -= old.num_bytes if old is not None else 0
            if num_bytes > self._max_bytes // 2:
                return
            self._kept[key] = _Kept(value, num_bytes)
            self._num_bytes += num_bytes
            self._shrink()

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._kept.clear()
            self._num_bytes = 0

    def resize(self, max_bytes: int) -> None:
        """Keeps at most so many bytes from now on; 0 switches the cache off."""
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    def _shrink(self) -> None:
        while self._num_bytes > self._max_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._num_bytes -= dropped.num_bytes


def _bytes_of_environment() -> int:
    text = os.environ.get(_VARIABLE, "")
    return int(text) if text.isascii() and text.isdigit() else DEFAULT_MAX_BYTES


shared = Cache(_bytes_of_environment())
"""The cache of this process. The environment variable LANCE_SPARK_CACHE_BYTES sets its size."""


def has_free_stamps(store: ObjectStore) -> bool:
    """Whether `store` tells at no cost which object has a name now."""
    # A check against the protocol `Identified` takes longer than to read a small file.
    return bool(getattr(store, "stamps_are_free", False))


def free_stamp(store: ObjectStore, path: str) -> Hashable | None:
    """The stamp of an object, None where it would cost a request."""
    return store.stamp(path) if has_free_stamps(store) and isinstance(store, Identified) else None


def kept_by_name(
    store: ObjectStore, kind: str, path: str, details: Hashable, make: Callable[[], tuple[Value, int]]
) -> Value:
    """What `make` returns for an object whose name is never given twice: (value, bytes that it takes).

    Args:
        kind: what is made of the object.
        details: whatever else the value depends on.
    """
    stamp = free_stamp(store, path)
    if not isinstance(store, Identified) or (stamp is None and store.stamps_are_free):
        return make()[0]
    return _kept((kind, store.identity, path, stamp, details), make)


def kept_by_stamp(
    store: ObjectStore, kind: str, path: str, stamp: Hashable | None, make: Callable[[], tuple[Value, int]]
) -> Value:
    """What `make` returns for the object that has this stamp now; it is not kept if the stamp is None."""
    if stamp is None or not isinstance(store, Identified):
        return make()[0]
    return _kept((kind, store.identity, path, stamp), make)


def peek_by_stamp(store: ObjectStore, kind: str, path: str, stamp: Hashable) -> object | None:
    """What `put_by_stamp` was last given for the object that has this stamp now, None if it is not kept."""
    return shared.get((kind, store.identity, path, stamp)) if isinstance(store, Identified) else None


def put_by_stamp(store: ObjectStore, kind: str, path: str, stamp: Hashable, value: object, num_bytes: int) -> None:
    """Keeps `value`, which takes `num_bytes`, for the object that has this stamp now."""
    if isinstance(store, Identified):
        shared.put((kind, store.identity, path, stamp), value, num_bytes)


def _kept(key: Hashable, make: Callable[[], tuple[Value, int]]) -> Value:
    found = shared.get(key)
    if found is not None:
        return cast(Value, found)
    value, num_bytes = make()
    shared.put(key, value, num_bytes)
    return value
