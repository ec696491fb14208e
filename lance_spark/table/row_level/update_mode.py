"""The files that an update of existing rows writes, a property of the table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lance_spark.errors import InvalidInputError

UPDATE_MODE = "lance.update.mode"
"""The property, in the config of a table and among the properties of a partitioned one."""


class RewriteMode(str, Enum):
    """Files that an update of existing rows writes."""

    AUTO = "auto"
    """The files that take fewer bytes, fragment by fragment."""
    COLUMNS = "columns"
    """The changed columns of each fragment with such rows."""
    ROWS = "rows"
    """Complete rows, which move to new fragments."""

    @classmethod
    def of(cls, properties: Mapping[str, str], chosen: str | None = None) -> RewriteMode:
        """The mode that a statement has chosen, or else the table's properties; AUTO if neither has.

        Raises:
            InvalidInputError: there is no such mode.
        """
        value = properties.get(UPDATE_MODE, cls.AUTO.value) if chosen is None else chosen
        try:
            return cls(value.strip().lower())
        except (ValueError, AttributeError):
            raise InvalidInputError(f"the update mode is 'auto', 'columns' or 'rows', not {value!r}") from None
