"""The limits of a data file."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.errors import InvalidInputError

DEFAULT_MAX_ROWS_PER_FILE = 1 << 20
DEFAULT_MAX_BYTES_PER_FILE = 90 << 30


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits of a data file. The size is checked between batches, so a file can become somewhat larger."""

    max_rows: int = DEFAULT_MAX_ROWS_PER_FILE
    max_bytes: int = DEFAULT_MAX_BYTES_PER_FILE

    def __post_init__(self) -> None:
        if self.max_rows < 1 or self.max_bytes < 1:
            raise InvalidInputError("a data file needs room for at least one row and one byte")
        if self.max_rows >= 1 << 32:
            raise InvalidInputError("a data file cannot hold 2**32 rows or more")
