"""Offsets of a stream: up to where a table has been read, as text that is the same for the same place.

>>> Offset(12, 1795364105068000000).to_json()
'{"format":1,"index":-1,"snapshot":false,"timestamp":1795364105068000000,"version":12}'
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError

FORMAT = 1
ALL_FILES = -1


@dataclass(frozen=True, slots=True, order=True)
class Offset:
    """A place in the history of a table.

    Attributes:
        version: the version that has been read, 0 for none.
        timestamp: commit time in nanoseconds since 1970 UTC, to recognize a version of another table that
            has the same place and number; 0 if it is not known.
        index: how many of its files have been read; ALL_FILES if all have.
        snapshot: whether the version is read as a whole, and not what it has changed.
    """

    version: int
    timestamp: int = 0
    index: int = ALL_FILES
    snapshot: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all files of the version have been read."""
        return self.index == ALL_FILES

    def to_json(self) -> str:
        """The text in the offset log: keys in one order, no spaces."""
        entry = {
            "format": FORMAT,
            "version": self.version,
            "timestamp": self.timestamp,
            "index": self.index,
            "snapshot": self.snapshot,
        }
        return json.dumps(entry, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Offset:
        """The offset of a text; unknown members and spaces do not matter.

        Raises:
            InvalidInputError: it is no offset of a Lance table, or one of a newer release.
        """
        try:
            entry = json.loads(text)
            if entry["format"] != FORMAT:
                raise InvalidInputError(
                    f"the checkpoint has an offset of format {entry['format']}, which this release does not know; use "
                    "the release that wrote it"
                )
            numbers = entry["version"], entry["timestamp"], entry.get("index", ALL_FILES)
            if not all(type(number) is int for number in numbers) or type(entry["snapshot"]) is not bool:
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(
                f"{text[:200]!r} in the checkpoint is no offset of a Lance table; start the query with another "
                "checkpoint"
            ) from error
        return cls(*numbers, entry["snapshot"])


BEGINNING = Offset(0, snapshot=True)
"""Start offset of a stream that reads the whole table first."""
