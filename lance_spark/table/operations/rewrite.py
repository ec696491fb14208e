"""`Transaction.Rewrite`: the same rows in other fragments, as after a compaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import pyroaring

from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.file_version import FileVersion
from lance_spark.schema.blob import in_file_version
from lance_spark.schema.field import ROW_ID_FIELD, FieldId, LanceSchema
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import (
    FragmentGroup,
    coverage_after,
    parse_indices,
    rewritten,
    with_fragment_reuse,
)
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import (
    assign_fragment_ids,
    check_distinct_ids,
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList

if TYPE_CHECKING:
    from lance_spark.index.base import IndexKind


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


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """The live rows of `old_fragments`, in their order unless they were sorted, are all rows of `new_fragments`.

    Ids of new fragments that are 0 are assigned at commit. In a table with stable row ids the new fragments have the
    ids and versions of their rows.

    Attributes:
        is_sorted: whether the rows are in another order. The message has no place for it.
        new_places: int64[n]: of sorted rows, the places of the old ones among the new ones; None if it is not known,
            and then no index follows the rows.
    """

    old_fragments: tuple[DataFragment, ...]
    new_fragments: tuple[DataFragment, ...]
    is_sorted: bool = False
    new_places: Int64Array | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Rewrite.RewriteGroup) -> RewriteGroup:
        return cls(
            tuple(DataFragment.from_proto(fragment) for fragment in message.old_fragments),
            tuple(DataFragment.from_proto(fragment) for fragment in message.new_fragments),
        )

    def to_proto(self) -> transaction_pb2.Transaction.Rewrite.RewriteGroup:
        return transaction_pb2.Transaction.Rewrite.RewriteGroup(
            old_fragments=[fragment.to_proto() for fragment in self.old_fragments],
            new_fragments=[fragment.to_proto() for fragment in self.new_fragments],
        )

    @property
    def old_ids(self) -> frozenset[FragmentId]:
        return frozenset(fragment.id for fragment in self.old_fragments)


@dataclass(frozen=True, slots=True)
class Rewrite(CommittableOperation):
    """Replaces each group's old fragments with its new ones. Fragments are ordered by id.

    Indexes no longer cover the old fragments, unless they are among `rewritten_indices` or hold stable row ids; so they
    are correct for the fragments that they still cover, whoever built them and when.

    Attributes:
        file_version: the new file version of the table if all older files are among the groups, None to keep it. The
            message has no place for it, nor for the form of blob columns that follows from it.
        fragment_reuse: where the rows of all groups have moved. Indexes then keep their coverage. The message has no
            place for it either.
        extended_reuse: the UUID of the fragment reuse index that `fragment_reuse` extends; None if it is the first one.
    """

    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    file_version: FileVersion | None = None
    fragment_reuse: IndexMetadata | None = None
    extended_reuse: str | None = None

    operation_kind: ClassVar[OperationKind] = OperationKind.REWRITE

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Rewrite) -> Rewrite:
        groups = [RewriteGroup.from_proto(group) for group in message.groups]
        if message.old_fragments or message.new_fragments:  # The first releases wrote their only group this way.
            groups.append(
                RewriteGroup(
                    tuple(DataFragment.from_proto(fragment) for fragment in message.old_fragments),
                    tuple(DataFragment.from_proto(fragment) for fragment in message.new_fragments),
                )
            )
        return cls(tuple(groups), tuple(RewrittenIndex.from_proto(index) for index in message.rewritten_indices))

    def to_proto(self) -> transaction_pb2.Transaction.Rewrite:
        return transaction_pb2.Transaction.Rewrite(
            groups=[group.to_proto() for group in self.groups],
            rewritten_indices=[index.to_proto() for index in self.rewritten_indices],
        )

    @property
    def touched_fragment_ids(self) -> frozenset[FragmentId]:
        """The removed fragments."""
        return frozenset(fragment.id for group in self.groups for fragment in group.old_fragments)

    @property
    def written_fields(self) -> frozenset[FieldId]:
        """Ids of the fields in the new data files."""
        new = (fragment for group in self.groups for fragment in group.new_fragments)
        return frozenset(field_id for fragment in new for file in fragment.files for field_id in file.fields)

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table to rewrite fragments of")
        self._check(previous)
        groups, largest_id = self._numbered(largest_fragment_id(previous))
        manifest = replace(
            previous,
            schema=self._schema(previous),
            fragments=FragmentList(_replaced(previous.fragments.messages, self.touched_fragment_ids, groups)),
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=self.file_version or data_format(previous) or settings.file_version,
            max_fragment_id=id_after(largest_id, 0),
            index_section=self._index_section(previous, groups),
            writer_version=writer_version(),
            tag="",
        )
        self._check_file_versions(manifest)
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def _schema(self, previous: Manifest) -> LanceSchema:
        """The columns of `previous`, those with blobs in the form of the new file version."""
        if self.file_version is None:
            return previous.schema
        return in_file_version(previous.schema, self.file_version, first_id=(previous.max_allocated_field_id or 0) + 1)

    def _index_section(self, previous: Manifest, groups: Mapping[FragmentId, Sequence[DataFragment]]) -> bytes | None:
        if self.fragment_reuse is not None:
            self._check_reuse(previous, self.fragment_reuse)
            return with_fragment_reuse(previous.index_section, self.fragment_reuse)
        self._check_unknown_indexes(previous)
        return rewritten(
            previous.index_section,
            [(group.old_ids, [fragment.id for fragment in groups[group.old_fragments[0].id]]) for group in self.groups],
            {index.old_id: index.applied for index in self.rewritten_indices},
            _holds_row_ids if previous.has_stable_row_ids else lambda index: False,
        )

    def _check_reuse(self, previous: Manifest, reuse: IndexMetadata) -> None:
        """Checks that nobody has changed the fragment reuse index, or committed an index of a later version.

        Such an index looks like one that has the new addresses.

        Raises:
            RetryableConflictError: somebody has.
        """
        indexes = parse_indices(previous.index_section)
        present = next((index.uuid for index in indexes if index.is_fragment_reuse), None)
        newest = max((index.message.dataset_version for index in indexes), default=0)
        if present != self.extended_reuse or newest > reuse.message.dataset_version:
            raise RetryableConflictError(
                "another writer has committed an index or a compaction; compact again",
                own=self.operation_kind.value,
                table_version=previous.version,
            )

    def _check_unknown_indexes(self, previous: Manifest) -> None:
        """Checks that nobody has built an index of an unknown kind meanwhile, which would lose the rows.

        Raises:
            RetryableConflictError: somebody has.
        """
        remapped = {index.old_id for index in self.rewritten_indices}
        touched = pyroaring.BitMap(self.touched_fragment_ids)
        for index in parse_indices(previous.index_section):
            if index.is_system or index.message.uuid.uuid in remapped or _kind(index) is not None:
                continue
            if not index.fragment_ids().isdisjoint(touched):
                raise RetryableConflictError(
                    f"another writer has built index {index.name!r} of an unknown kind; compact again",
                    own=self.operation_kind.value,
                    table_version=previous.version,
                )

    def _check_file_versions(self, manifest: Manifest) -> None:
        """Checks that no file is left that is older than the table's new file version.

        Raises:
            RetryableConflictError: another writer has appended one.
        """
        if self.file_version is None:
            return
        messages = manifest.fragments.messages
        numbers = {(file.file_major_version, file.file_minor_version) for item in messages for file in item.files}
        if any(FileVersion.from_numbers(*pair) < self.file_version for pair in numbers):
            raise RetryableConflictError(
                f"another writer has added files older than version {self.file_version.value}; run the upgrade again",
                own=self.operation_kind.value,
                table_version=manifest.version - 1,
            )

    def data_file_paths(self) -> frozenset[str]:
        return frozenset(
            file.path for group in self.groups for fragment in group.new_fragments for file in fragment.files
        )

    def _check(self, previous: Manifest) -> None:
        """Checks that the rows of the groups are those of the table's current version."""
        check_distinct_ids(previous)
        present = {message.id: place for place, message in enumerate(previous.fragments.messages)}
        seen: set[FragmentId] = set()
        for group in self.groups:
            if not group.old_fragments:
                raise InvalidInputError("a group without an old fragment rewrites nothing")
            for fragment in group.old_fragments:
                if fragment.id in seen or fragment.id not in present:
                    raise InvalidInputError(f"the table has no fragment {fragment.id} to rewrite, or it is named twice")
                seen.add(fragment.id)
                current = previous.fragments[present[fragment.id]]
                if (current.files, current.deletion_file) != (fragment.files, fragment.deletion_file):
                    raise InvalidInputError(f"fragment {fragment.id} is not the one that was rewritten")
            if previous.has_stable_row_ids and any(
                fragment.row_ids is None and ROW_ID_FIELD not in fragment.lineage_fields
                for fragment in group.new_fragments
            ):
                raise InvalidInputError("a rewritten fragment lacks the stable ids of its rows")

    def _numbered(self, largest_id: int) -> tuple[dict[FragmentId, tuple[DataFragment, ...]], int]:
        """The new fragments with their ids, by the first old one of their group; and the new largest id."""
        result: dict[FragmentId, tuple[DataFragment, ...]] = {}
        for group in self.groups:
            reserved = [fragment.id for fragment in group.new_fragments if fragment.id]
            if reserved and (len(reserved) < len(group.new_fragments) or max(reserved) > largest_id):
                raise InvalidInputError(f"the fragment ids {sorted(reserved)} were not reserved")
            new = group.new_fragments if reserved else assign_fragment_ids(group.new_fragments, largest_id)
            largest_id = largest_id if reserved else largest_id + len(new)
            result[group.old_fragments[0].id] = new
        return result, largest_id


def _holds_row_ids(index: IndexMetadata) -> bool:
    """Whether an index of a table with stable row ids holds these, and not addresses."""
    kind = _kind(index)
    return kind is not None and kind.holds_row_ids(index.message.index_version)


def _kind(index: IndexMetadata) -> type[IndexKind] | None:
    """The kind of an index; None for one that this release does not know, or of a newer version."""
    from lance_spark.index.builders.kinds import builder_of

    builder = builder_of(index.message.index_details.type_url)
    kind = None if builder is None else builder.kind_in(index.message.index_details.value)
    return kind if kind is not None and index.message.index_version <= kind.max_version else None


def _replaced(
    messages: Iterable[table_pb2.DataFragment],
    deleted: frozenset[FragmentId],
    groups: Mapping[FragmentId, Sequence[DataFragment]],
) -> list[table_pb2.DataFragment]:
    remaining = [message for message in messages if FragmentId(message.id) not in deleted]
    new = [fragment.to_proto() for fragments in groups.values() for fragment in fragments]
    # The reference library sorts fragments in every commit, and treats a version with unsorted ones as corrupt.
    return sorted([*remaining, *new], key=lambda message: message.id)
