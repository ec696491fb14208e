"""`Transaction.Rewrite.RewrittenIndex`: an index that was remapped to new row addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import FragmentGroup, coverage_after


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """The index `new_id` replaces `old_id`, both as 16 bytes; unknown fields are preserved.

    Attributes:
        message: the protobuf message; must not be modified.
    """

    message: transaction_pb2.Transaction.Rewrite.RewrittenIndex

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Rewrite.RewrittenIndex) -> RewrittenIndex:
        return cls(message)

    def to_proto(self) -> transaction_pb2.Transaction.Rewrite.RewrittenIndex:
        return self.message

    @property
    def old_id(self) -> bytes:
        return self.message.old_id.uuid

    def applied(self, index: IndexMetadata, groups: Sequence[FragmentGroup]) -> IndexMetadata:
        """The metadata of the new index, from that of the old one.

        Args:
            groups: the index covers the new fragments of a group if it covered all old ones.
        """
        message = table_pb2.IndexMetadata()
        message.CopyFrom(index.message)
        message.uuid.CopyFrom(self.message.new_id)
        message.index_details.CopyFrom(self.message.new_index_details)
        message.index_version = self.message.new_index_version
        del message.files[:]
        message.files.extend(self.message.new_index_files)
        message.ClearField("base_id")  # Written by this commit, so it is below the table's own root.
        message.fragment_bitmap = coverage_after(index, groups).serialize()
        return IndexMetadata.from_proto(message)
