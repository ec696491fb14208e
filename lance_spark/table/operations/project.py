"""`Transaction.Project`: a new schema over the same files: columns dropped, renamed or reordered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.wire import fields_from_proto, fields_to_proto
from lance_spark.table.manifests import index_section
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import (
    CommittableOperation,
    OperationKind,
    Settings,
    live_field_ids,
    with_live_files,
)
from lance_spark.table.operations.manifest_builder import data_format, with_flags, writer_version
from lance_spark.table.rows.fragment import FragmentList


@dataclass(frozen=True, slots=True)
class Project(CommittableOperation):
    """Replaces the fields; no value changes. Removes files without a column of the table and indexes of dropped fields.

    Attributes:
        fields: all top-level fields, composed of fields of the table.
        preserves_nullability: whether no nullable field becomes required; then concurrent rows cannot violate it.
    """

    fields: tuple[Field, ...]
    preserves_nullability: bool = False

    operation_kind: ClassVar[OperationKind] = OperationKind.PROJECT

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Project) -> Project:
        return cls(fields_from_proto(message.schema), message.preserves_nullability)

    def to_proto(self) -> transaction_pb2.Transaction.Project:
        return transaction_pb2.Transaction.Project(
            schema=fields_to_proto(self.fields), preserves_nullability=self.preserves_nullability
        )

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table whose columns could change")
        schema = LanceSchema(self.fields, previous.schema.metadata)
        unknown = live_field_ids(schema) - live_field_ids(previous.schema)
        if unknown:
            raise InvalidInputError(f"the table has no fields with the ids {sorted(unknown)}")
        live = live_field_ids(schema)
        manifest = replace(
            previous,
            schema=schema,
            fragments=FragmentList(with_live_files(message, live) for message in previous.fragments.messages),
            index_section=index_section.of_schema(previous.index_section, schema),
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset()
