"""The isolation of statements that change rows, a property of the table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lance_spark.errors import InvalidInputError

ISOLATION_LEVEL = "isolation-level"
"""The property, in the config of a table and among the properties of a partitioned one."""


class IsolationLevel(str, Enum):
    """Concurrent changes with which a DELETE, UPDATE or MERGE conflicts."""

    SERIALIZABLE = "serializable"
    """Changes of rows that it has read."""
    SNAPSHOT = "snapshot"
    """Changes of the rows that it changes, and not of those that it only reads."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> IsolationLevel:
        """The level that a table's properties choose, their names in any case; SERIALIZABLE if they name none.

        Raises:
            InvalidInputError: there is no such level.
        """
        named = (value for name, value in properties.items() if name.lower() == ISOLATION_LEVEL)
        value = next(named, cls.SERIALIZABLE.value)
        try:
            return cls(value.strip().lower())
        except ValueError:
            raise InvalidInputError(
                f"the table property {ISOLATION_LEVEL!r} is 'serializable' or 'snapshot', not {value!r}"
            ) from None
