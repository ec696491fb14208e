"""Values that belong to one process: clients, event loops and thread pools do not survive a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_lock = threading.RLock()


def _new_lock() -> None:
    # At the fork another thread of the parent may have held the lock; nobody would release it here.
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


class PerProcess(Generic[T]):
    """A value that each process creates on first use. It does not survive pickling or a fork.

    Args:
        make: creates the value; it is called by one thread at a time.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[int, T] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return PerProcess, (self._make,)

    def get(self) -> T:
        """The value of this process."""
        owned = self._made
        if owned is None or owned[0] != os.getpid():
            with _lock:
                owned = self._made
                if owned is None or owned[0] != os.getpid():
                    owned = (os.getpid(), self._make())
                    self._made = owned
        return owned[1]
