"""`cached_property` as Python 3.12 has it, in all versions.

Up to 3.11 it takes a lock, one for all objects of a class, so that threads wait for each other's objects, and the first
use of a property takes twice as long. Without it two threads can work out the same value at the same time; one is kept.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801
        """A property that is worked out once for each object, which has a `__dict__`."""

        def __init__(self, function: Any) -> None:
            self.func = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.attrname = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


__all__ = ["cached_property"]
