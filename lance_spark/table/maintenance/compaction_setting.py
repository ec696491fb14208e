"""Compaction after write commits, for tables whose config asks for it (``lance.auto_compact``).

================================  ==========================================================================
``lance.auto_compact``            ``true``: compacts after a write commit; ``false`` is the default
``lance.auto_compact.min_fragments``  only if a compaction would rewrite at least this many fragments; 50
================================  ==========================================================================

>>> AutoCompaction.of({"lance.auto_compact": "true"})
AutoCompaction(min_fragments=50)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError

AUTO_COMPACT = "lance.auto_compact"
MIN_FRAGMENTS = "lance.auto_compact.min_fragments"
DEFAULT_MIN_FRAGMENTS = 50


@dataclass(frozen=True, slots=True)
class AutoCompaction:
    """Condition for a compaction after a write.

    Attributes:
        min_fragments: a compaction has to rewrite at least this many fragments of a table, or of a partition.
    """

    min_fragments: int = DEFAULT_MIN_FRAGMENTS

    @classmethod
    def of(cls, config: Mapping[str, str]) -> AutoCompaction | None:
        """Auto-compaction settings of a table's config; None if the config does not enable it.

        Raises:
            InvalidInputError: an entry of the config is invalid.
        """
        enabled, text = config.get(AUTO_COMPACT, "false"), config.get(MIN_FRAGMENTS, str(DEFAULT_MIN_FRAGMENTS))
        if enabled.lower() not in ("true", "false"):
            raise InvalidInputError(f"{AUTO_COMPACT} is {enabled!r}; write true or false")
        if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) < 2:
            raise InvalidInputError(f"{MIN_FRAGMENTS} is {text!r}; write a whole number of at least 2")
        return cls(int(text)) if enabled.lower() == "true" else None


def names_compaction(config: Mapping[str, str]) -> bool:
    """Whether a config has an entry of this setting, valid or not."""
    return AUTO_COMPACT in config or MIN_FRAGMENTS in config
