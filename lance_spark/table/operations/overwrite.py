"""`Transaction.Overwrite`: replaces all fragments and the schema; also creates a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import fields_to_proto, schema_from_messages
from lance_spark.table.bases import BasePath
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import (
    assign_fragment_ids,
    id_after,
    largest_fragment_id,
    with_flags,
    with_row_ids,
    writer_version,
)
from lance_spark.table.rows.fragment import DataFragment, FragmentList

_NO_CONFIG: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Overwrite(CommittableOperation):
    """Replaces schema and rows. Indexes are removed with the old rows; config, table metadata and base paths are kept.

    Attributes:
        config_upserts: entries to add to the table's config.
        initial_bases: base paths of a new table.
    """

    fragments: tuple[DataFragment, ...]
    schema: LanceSchema
    config_upserts: Mapping[str, str] = field(default_factory=lambda: _NO_CONFIG)
    initial_bases: tuple[BasePath, ...] = ()

    operation_kind: ClassVar[OperationKind] = OperationKind.OVERWRITE

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Overwrite) -> Overwrite:
        return cls(
            fragments=tuple(DataFragment.from_proto(fragment) for fragment in message.fragments),
            schema=schema_from_messages(message.schema, message.schema_metadata),
            config_upserts=MappingProxyType(dict(message.config_upsert_values)),
            initial_bases=tuple(BasePath.from_proto(base) for base in message.initial_bases),
        )

    def to_proto(self) -> transaction_pb2.Transaction.Overwrite:
        return transaction_pb2.Transaction.Overwrite(
            fragments=[fragment.to_proto() for fragment in self.fragments],
            schema=fields_to_proto(self.schema.fields),
            schema_metadata=dict(self.schema.metadata),
            config_upsert_values=dict(self.config_upserts),
            initial_bases=[base.to_proto() for base in self.initial_bases],
        )

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        stable_row_ids = settings.stable_row_ids if previous is None else previous.has_stable_row_ids
        largest_id = -1 if previous is None else largest_fragment_id(previous)
        new = assign_fragment_ids(self.fragments, largest_id)
        next_row_id = 0 if previous is None else previous.next_row_id
        if stable_row_ids:
            new, next_row_id = with_row_ids(new, next_row_id, settings.version)
        manifest = Manifest(
            schema=self.schema,
            fragments=FragmentList(fragment.to_proto() for fragment in new),
            version=settings.version,
            file_version=self.file_version() or settings.file_version,
            timestamp_nanos=settings.timestamp_nanos,
            max_fragment_id=id_after(largest_id, len(new)),
            next_row_id=next_row_id,
            writer_version=writer_version(),
            config=self.config_upserts,
            base_paths=self.initial_bases,
        )
        if previous is not None:
            manifest = _with_table_state(manifest, previous)
        return with_flags(manifest, previous, stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset(file.path for fragment in self.fragments for file in fragment.files)

    def file_version(self) -> FileVersion | None:
        """The version of the data files, None if there are none."""
        return next((file.version for fragment in self.fragments for file in fragment.files), None)


def _with_table_state(manifest: Manifest, previous: Manifest) -> Manifest:
    """`manifest` with the state of `previous` that belongs to the table rather than to its rows."""
    base_ids = {base.id for base in previous.base_paths}
    return replace(
        manifest,
        config=MappingProxyType({**previous.config, **manifest.config}),
        table_metadata=previous.table_metadata,
        base_paths=previous.base_paths + tuple(base for base in manifest.base_paths if base.id not in base_ids),
        branch=previous.branch,
        max_allocated_field_id=previous.max_allocated_field_id,
    )
