"""A process-wide LRU cache of values read from immutable objects, bounded by bytes.

These values are cached: manifests by version, deletion vectors, the ends of data files, open local data files, bounds
of their columns, entries of catalogs, and the open files and dictionaries of indexes. Such objects are never modified;
but a table can be dropped and created again, and then the same name means another object. So besides the store and the
path, a key holds what distinguishes the two:

- names of data files, deletion files and index folders are random and never reused;
- manifests are numbered, so their key has the object's current *stamp* from a listing or the store (an ETag; on a
  local disk the inode, size and times). The number of the newest version is never cached.

Only stores with an identity take part (`Identified`): two stores with different credentials share nothing.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

from lance_spark.storage.base import ObjectStore

DEFAULT_MAX_BYTES = 256 << 20
_VARIABLE = "LANCE_SPARK_CACHE_BYTES"

Value = TypeVar("Value")


@runtime_checkable
class Identified(Protocol):
    """A store whose objects may be cached.

    Attributes:
        identity: equal for stores that see the same objects with the same rights.
        etags_are_free: whether `etag` sends no request.
    """

    @property
    def identity(self) -> Hashable: ...

    @property
    def etags_are_free(self) -> bool: ...

    def etag(self, path: str) -> Hashable | None:
        """A token unique among all objects that ever have this path; None if the store provides none.

        Raises:
            NotFoundError: the object does not exist.
            StorageError: the store failed.
        """
        ...


class _Kept(NamedTuple):
    value: object
    num_bytes: int
    owner: object = None


class Cache:
    """An LRU cache. Thread safe; a forked child starts with an empty one.

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
        # At the fork another thread of the parent may have held the lock, in the middle of a change.
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._num_bytes = 0

    @property
    def num_bytes(self) -> int:
        """The sum of the declared sizes of all cached values."""
        return self._num_bytes

    @property
    def max_bytes(self) -> int:
        """The capacity."""
        return self._max_bytes

    def get(self, key: Hashable) -> object | None:
        """The value, None if it is not cached."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return None
            self._kept.move_to_end(key)
            return entry.value

    def get_all(self, keys: Sequence[Hashable]) -> list[object | None]:
        """`get` of each of `keys`."""
        with self._lock:
            entries = [self._kept.get(key) for key in keys]
            for key, entry in zip(keys, entries, strict=True):
                if entry is not None:
                    self._kept.move_to_end(key)
        return [None if entry is None else entry.value for entry in entries]

    def put(self, key: Hashable, value: object, num_bytes: int, owner: object = None) -> None:
        """Caches `value`, unless it alone would take more than three quarters of the capacity.

        Args:
            owner: stays in memory with the value, so that no other object can have its identity, which `key` holds.
        """
        with self._lock:
            old = self._kept.pop(key, None)
            self._num_bytes -= old.num_bytes if old is not None else 0
            if num_bytes > self._max_bytes * 3 // 4:
                return
            self._kept[key] = _Kept(value, num_bytes, owner)
            self._num_bytes += num_bytes
            if self._num_bytes > self._max_bytes:
                self._shrink()

    def clear(self) -> None:
        """Removes all values."""
        with self._lock:
            self._kept.clear()
            self._num_bytes = 0

    def resize(self, max_bytes: int) -> None:
        """Sets the capacity in bytes; 0 switches the cache off."""
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


def _is_identified(store: ObjectStore) -> TypeGuard[Identified]:
    # isinstance with a protocol takes longer than to read a small file. A store with one of its members has all.
    return hasattr(store, "etags_are_free")


def has_free_etags(store: ObjectStore) -> bool:
    """Whether `store` returns stamps without a request."""
    # A check against the protocol `Identified` takes longer than to read a small file.
    return bool(getattr(store, "etags_are_free", False))


def free_etag(store: ObjectStore, path: str) -> Hashable | None:
    """The stamp of an object, None if it would cost a request."""
    return store.etag(path) if has_free_etags(store) and _is_identified(store) else None


def cached_by_path(
    store: ObjectStore, kind: str, path: str, details: Hashable, make: Callable[[], tuple[Value, int]]
) -> Value:
    """The cached value for an object whose name is never reused; on a miss `make` returns (value, size in bytes).

    Args:
        kind: the kind of value that is derived from the object.
        details: anything else that the value depends on.
    """
    if not _is_identified(store):
        return make()[0]
    etag = store.etag(path) if store.etags_are_free else None
    if etag is None and store.etags_are_free:
        return make()[0]
    return _kept((kind, store.identity, path, etag, details), make)


def cached_parts_by_path(
    store: ObjectStore,
    kind: str,
    path: str,
    details: Hashable,
    numbers: Sequence[int],
    make: Callable[[Sequence[int]], Sequence[tuple[Value, int]]],
) -> list[Value]:
    """`cached_by_path` of some parts of an object at once, by number; `make` gets the numbers that are missing."""
    etag = free_etag(store, path)
    if not _is_identified(store) or (etag is None and store.etags_are_free):
        return [value for value, _ in make(numbers)]
    return _kept_parts((kind, store.identity, path, etag, details), numbers, make)


def cached_part(owner: object, part: Hashable, make: Callable[[], tuple[Value, int]]) -> Value:
    """The cached part of an object that is cached itself; on a miss `make` returns (value, size in bytes).

    Args:
        owner: the object; parts of another one, equal or not, are others.
        part: which part.
    """
    return _kept((id(owner), part), make, owner)


def cached_parts(
    owner: object, kind: str, numbers: Sequence[int], make: Callable[[Sequence[int]], Sequence[tuple[Value, int]]]
) -> list[Value]:
    """`cached_part` of some numbered parts of a kind at once; `make` gets the numbers that are missing."""
    return _kept_parts((id(owner), kind), numbers, make, owner)


def cached_by_etag(
    store: ObjectStore, kind: str, path: str, etag: Hashable | None, make: Callable[[], tuple[Value, int]]
) -> Value:
    """The cached value for the object with this current stamp; on a miss `make`'s, not cached if the stamp is None."""
    if etag is None or not _is_identified(store):
        return make()[0]
    return _kept((kind, store.identity, path, etag), make)


def peek_by_etag(store: ObjectStore, kind: str, path: str, etag: Hashable) -> object | None:
    """The value that `put_by_etag` cached for the object with this current stamp, None if it is not cached."""
    return shared.get((kind, store.identity, path, etag)) if _is_identified(store) else None


def put_by_etag(store: ObjectStore, kind: str, path: str, etag: Hashable, value: object, num_bytes: int) -> None:
    """Caches `value`, of size `num_bytes`, for the object with this current stamp."""
    if _is_identified(store):
        shared.put((kind, store.identity, path, etag), value, num_bytes)


def _kept(key: Hashable, make: Callable[[], tuple[Value, int]], owner: object = None) -> Value:
    found: Any = shared.get(key)
    if found is not None:
        kept: Value = found
        return kept
    value, num_bytes = make()
    shared.put(key, value, num_bytes, owner)
    return value


def _kept_parts(
    key: tuple[Hashable, ...],
    numbers: Sequence[int],
    make: Callable[[Sequence[int]], Sequence[tuple[Value, int]]],
    owner: object = None,
) -> list[Value]:
    if len(numbers) == 1:
        return [_kept((*key, numbers[0]), lambda: make(numbers)[0], owner)]
    keys = [(*key, number) for number in numbers]
    found: list[Any] = shared.get_all(keys)
    missing = [place for place, value in enumerate(found) if value is None]
    if missing:
        made = make([numbers[place] for place in missing])
        for place, (value, num_bytes) in zip(missing, made, strict=True):
            shared.put(keys[place], value, num_bytes, owner)
            found[place] = value
    return found
