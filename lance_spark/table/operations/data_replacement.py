"""`Transaction.DataReplacement`: data files with new values of some columns of a fragment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.table.manifests import index_section
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import (
    CommittableOperation,
    OperationKind,
    Settings,
    live_field_ids,
    with_live_files,
    without_columns,
)
from lance_spark.table.operations.manifest_builder import data_format, with_flags, writer_version
from lance_spark.table.rows.fragment import DataFile, FragmentId, FragmentList


@dataclass(frozen=True, slots=True)
class DataReplacement(CommittableOperation):
    """Gives fragments new files for columns that exist, or that were null so far.

    A new file replaces the one with exactly the same fields; in other files with one of them the column is marked as
    replaced. Rows, row ids and row versions are unchanged.

    Attributes:
        replacements: fragments and their new files; one fragment may have several.
    """

    replacements: tuple[tuple[FragmentId, DataFile], ...]

    operation_kind: ClassVar[OperationKind] = OperationKind.DATA_REPLACEMENT

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.DataReplacement) -> DataReplacement:
        return cls(
            tuple(
                (FragmentId(group.fragment_id), DataFile.from_proto(group.new_file)) for group in message.replacements
            )
        )

    def to_proto(self) -> transaction_pb2.Transaction.DataReplacement:
        group = transaction_pb2.Transaction.DataReplacementGroup
        return transaction_pb2.Transaction.DataReplacement(
            replacements=[
                group(fragment_id=fragment_id, new_file=file.to_proto()) for fragment_id, file in self.replacements
            ]
        )

    @property
    def touched_fragment_ids(self) -> frozenset[FragmentId]:
        """The fragments with new files."""
        return frozenset(fragment_id for fragment_id, _ in self.replacements)

    @property
    def field_ids(self) -> frozenset[int]:
        """The fields whose values change."""
        return frozenset(field_id for _, file in self.replacements for field_id in file.columns())

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table whose data could be replaced")
        missing = self.touched_fragment_ids.difference(message.id for message in previous.fragments.messages)
        if missing:
            raise InvalidInputError(f"the table has no fragments {sorted(missing)} whose data could be replaced")
        live = live_field_ids(previous.schema)
        unknown = self.field_ids - live
        if unknown:
            raise InvalidInputError(f"the table has no fields with the ids {sorted(unknown)}")
        new: dict[int, list[DataFile]] = {}
        section = previous.index_section
        for fragment_id, file in self.replacements:
            new.setdefault(fragment_id, []).append(file)
            section = index_section.without_fragments(section, [fragment_id], frozenset(file.columns()))
        fragments = FragmentList(
            with_live_files(_replaced(message, new[message.id]), live) if message.id in new else message
            for message in previous.fragments.messages
        )
        manifest = replace(
            previous,
            fragments=fragments,
            index_section=section,
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset(file.path for _, file in self.replacements)


def _replaced(message: table_pb2.DataFragment, files: list[DataFile]) -> table_pb2.DataFragment:
    for file in files:
        same = next((place for place, old in enumerate(message.files) if list(old.fields) == list(file.fields)), None)
        if same is None:
            message = without_columns(message, frozenset(file.columns()))
            message.files.append(file.to_proto())
        else:
            copy = table_pb2.DataFragment()
            copy.CopyFrom(message)
            copy.files[same].CopyFrom(file.to_proto())
            message = copy
    return message
