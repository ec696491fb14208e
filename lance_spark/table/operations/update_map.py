"""`Transaction.UpdateMap`: a change of a map of strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_spark._proto import transaction_pb2
from lance_spark.text import check_text


@dataclass(frozen=True, slots=True)
class UpdateMap:
    """New values by key; None removes the key.

    Attributes:
        replace: whether all other keys are removed.
    """

    entries: Mapping[str, str | None]
    replace: bool = False

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.UpdateMap) -> UpdateMap:
        entries = {entry.key: entry.value if entry.HasField("value") else None for entry in message.entries}
        return cls(MappingProxyType(entries), message.replace)

    def to_proto(self) -> transaction_pb2.Transaction.UpdateMap:
        entry = transaction_pb2.Transaction.UpdateMap.Entry
        return transaction_pb2.Transaction.UpdateMap(
            entries=[entry(key=key, value=value) for key, value in self.entries.items()], replace=self.replace
        )

    def applied(self, before: Mapping[str, str]) -> Mapping[str, str]:
        """The map after the change."""
        changed: dict[str, str | None] = {**({} if self.replace else before), **self.entries}
        return MappingProxyType({key: value for key, value in changed.items() if value is not None})

    def applied_to_bytes(self, before: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The map after the change, for metadata of schemas and fields, whose values are bytes."""
        changed = {
            key: None if value is None else check_text(value, f"the value of {key!r}").encode()
            for key, value in self.entries.items()
        }
        both: dict[str, bytes | None] = {**({} if self.replace else before), **changed}
        return {key: value for key, value in both.items() if value is not None}

    def collides(self, other: UpdateMap) -> bool:
        """True if both change the same key, or one replaces all keys."""
        return self.replace or other.replace or not self.entries.keys().isdisjoint(other.entries)
