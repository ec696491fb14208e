"""Entries of a table's config that say what was committed: epochs of streams, and used values of identity columns.

They are not properties of the table: nobody sets them, and a restored version keeps those of the newest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lance_spark.table.manifests import epoch_mark, identity_mark
from lance_spark.table.manifests.manifest import Manifest


class CommitMark(Protocol):
    """Config entries of a version that record the writer that made it."""

    def check(self, config: Mapping[str, str], uri: str) -> None:
        """Passes if a version may follow one with `config`. Raises a `LanceError` otherwise."""

    def applied(self, manifest: Manifest) -> Manifest:
        """`manifest`, about to be committed, with the mark."""


def is_mark(key: str) -> bool:
    """Whether a key of a config is a mark."""
    return epoch_mark.is_mark(key) or key.startswith(identity_mark.PREFIX)


def without_marks(config: Mapping[str, str]) -> dict[str, str]:
    """The entries that are no marks."""
    return {key: value for key, value in config.items() if not is_mark(key)}


def with_marks_of(config: Mapping[str, str], newest: Mapping[str, str]) -> dict[str, str]:
    """`config` with the marks of `newest` and no others: content can be restored, but what was committed stays so."""
    return {**without_marks(config), **{key: value for key, value in newest.items() if is_mark(key)}}
