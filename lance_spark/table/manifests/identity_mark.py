"""The marks of identity columns: how many of their values a table has used.

The count is an entry of the table's config, which the manifest with the new rows sets. A writer whose values follow
another count than that of the version before its own has used values that another writer has used too, and must not
commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.manifest import Manifest

PREFIX = "lance-spark:identity:"


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
        return {PREFIX + key: str(values.after) for key, values in self.used.items()}

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
    text = config.get(PREFIX + key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise InvalidInputError(
            f"the entry {PREFIX}{key} of the table's config is {text[:100]!r}, and no count of used values; remove "
            "it, and count them by CALL system.sync_identity"
        )
    return int(text)
