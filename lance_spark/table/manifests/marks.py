"""Entries of a table's config that say what was committed: epochs of streams, and used values of identity columns.

They are not properties of the table: nobody sets them, and a restored version keeps those of the newest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.table.manifests import epoch_mark
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.manifest import Manifest

IDENTITY_PREFIX = "lance-spark:identity:"


class CommitMark(Protocol):
    """Config entries of a version that record the writer that made it."""

    def check(self, config: Mapping[str, str], uri: str) -> None:
        """Passes if a version may follow one with `config`. Raises a `LanceError` otherwise."""

    def applied(self, manifest: Manifest) -> Manifest:
        """`manifest`, about to be committed, with the mark."""


def is_mark(key: str) -> bool:
    """Whether a key of a config is a mark."""
    return epoch_mark.is_mark(key) or key.startswith(IDENTITY_PREFIX)


def without_marks(config: Mapping[str, str]) -> dict[str, str]:
    """The entries that are no marks."""
    return {key: value for key, value in config.items() if not is_mark(key)}


def with_marks_of(config: Mapping[str, str], newest: Mapping[str, str]) -> dict[str, str]:
    """`config` with the marks of `newest` and no others: content can be restored, but what was committed stays so."""
    return {**without_marks(config), **{key: value for key, value in newest.items() if is_mark(key)}}


@dataclass(frozen=True, slots=True)
class UsedValues:
    """Numbers of used values of one identity column, before and after a write.

    Attributes:
        column: its name, for messages.
        before: how many values were used before; None if the table had no entry.
        after: how many are used with the values of the writer.
    """

    column: str
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class IdentityMark:
    """Used values, to be committed together with the rows that have them.

    Attributes:
        used: by key of the column.
    """

    used: Mapping[str, UsedValues]

    def entries(self) -> dict[str, str]:
        """The entries of the config."""
        return {IDENTITY_PREFIX + key: str(values.after) for key, values in self.used.items()}

    def check(self, config: Mapping[str, str], uri: str) -> None:
        """Passes if nobody has used values since ours were chosen.

        Raises:
            RetryableConflictError: somebody has.
        """
        for key, values in self.used.items():
            if used_values(config, key) != values.before:
                raise RetryableConflictError(
                    f"another writer has used values of the identity column {values.column!r} of {uri} meanwhile. Run "
                    "the operation again"
                )

    def applied(self, manifest: Manifest) -> Manifest:
        """`manifest`, about to be committed, with the mark."""
        return replace(
            manifest,
            config=MappingProxyType({**manifest.config, **self.entries()}),
            writer_flags=manifest.writer_flags | FeatureFlag.TABLE_CONFIG,
        )


def used_values(config: Mapping[str, str], key: str) -> int | None:
    """Number of values of an identity column that a table with `config` has used; None if it does not say.

    Raises:
        InvalidInputError: the entry is not a count.
    """
    text = config.get(IDENTITY_PREFIX + key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise InvalidInputError(
            f"the entry {IDENTITY_PREFIX}{key} of the table's config is {text[:100]!r}, and no count of used values; "
            "remove it, and count them by CALL system.sync_identity"
        )
    return int(text)
