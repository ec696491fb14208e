"""Options of a compaction, as arguments and as entries of a table's config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lance_spark.errors import InvalidInputError
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT
from lance_spark.table.writing.file_limits import DEFAULT_MAX_BYTES_PER_FILE, DEFAULT_MAX_ROWS_PER_FILE, FileLimits

CONFIG_PREFIX = "lance.compaction."
_IN_CONFIG: Mapping[str, Callable[[str], Any]] = {
    "target_rows_per_fragment": int,
    "max_bytes_per_file": int,
    "materialize_deletions": lambda text: {"true": True, "false": False}[text.lower()],
    "materialize_deletions_threshold": float,
    "batch_size": int,
    "defer_index_remap": lambda text: {"true": True, "false": False}[text.lower()],
}


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """Options of a compaction.

    Attributes:
        target_rows_per_fragment: fragments with fewer rows are joined; new ones get as many or more, up to the double.
        max_bytes_per_file: begins a new fragment earlier; None is no limit that matters.
        materialize_deletions: whether fragments are rewritten to get rid of deleted rows alone.
        materialize_deletions_threshold: they are if more than this part of their rows is deleted.
        batch_size: rows that are read at a time.
        file_format_version: of the new files; None is that of the table.
        defer_index_remap: records where rows moved, and leaves it to `optimize_indices` to write new index files.
    """

    target_rows_per_fragment: int = DEFAULT_MAX_ROWS_PER_FILE
    max_bytes_per_file: int | None = None
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    batch_size: int | None = None
    file_format_version: str | None = None
    defer_index_remap: bool = False

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise InvalidInputError(f"a batch cannot have {self.batch_size} rows")
        if not 0 <= self.materialize_deletions_threshold <= 1:
            raise InvalidInputError(f"{self.materialize_deletions_threshold} is no part of the rows; use 0 to 1")
        if not 1 <= self.target_rows_per_fragment < MAX_ROWS_PER_FRAGMENT // 2:
            raise InvalidInputError(f"fragments cannot have about {self.target_rows_per_fragment} rows")
        if self.max_bytes_per_file is not None and self.max_bytes_per_file < 1:
            raise InvalidInputError(f"files cannot have {self.max_bytes_per_file} bytes")

    @classmethod
    def of(cls, config: Mapping[str, str], **given: Any) -> CompactionOptions:
        """Options from what is given and not None, else from the config of a table, else the defaults.

        Raises:
            InvalidInputError: an option or an entry ``lance.compaction.*`` of the config is invalid.
        """
        chosen = {name: value for name, value in given.items() if value is not None}
        for name, parse in _IN_CONFIG.items():
            text = config.get(f"{CONFIG_PREFIX}{name}")
            if text is None or name in chosen:
                continue
            try:
                chosen[name] = parse(text)
            except (ValueError, KeyError):
                raise InvalidInputError(f"the table's config has {CONFIG_PREFIX}{name} = {text!r}") from None
        return cls(**chosen)

    def file_limits(self, num_rows: int) -> list[FileLimits]:
        """When each of the files that get `num_rows` rows is full: the rows are spread evenly, none is too small.

        >>> [limits.max_rows for limits in CompactionOptions(10).file_limits(35)]
        [12, 12, 11]
        """
        if num_rows == 0:
            return []
        num_files = max(num_rows // self.target_rows_per_fragment, 1)
        rows, larger = divmod(num_rows, num_files)
        max_bytes = self.max_bytes_per_file or DEFAULT_MAX_BYTES_PER_FILE
        return [FileLimits(rows + (number < larger), max_bytes) for number in range(num_files)]
