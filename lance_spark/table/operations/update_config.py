"""`Transaction.UpdateConfig`: changed entries in the config and in the metadata of table, schema and fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import with_metadata
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import data_format, with_flags, writer_version
from lance_spark.table.operations.update_map import UpdateMap

_NO_FIELDS: Mapping[FieldId, UpdateMap] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class UpdateConfig(CommittableOperation):
    """Changes entries; rows, columns and their types are unchanged.

    Attributes:
        config: the change of the config, None for none.
        table_metadata: the change of the table metadata, None for none.
        schema_metadata: the change of the schema's metadata, None for none.
        field_metadata: the changes of metadata of fields, by field id.
    """

    config: UpdateMap | None = None
    table_metadata: UpdateMap | None = None
    schema_metadata: UpdateMap | None = None
    field_metadata: Mapping[FieldId, UpdateMap] = field(default_factory=lambda: _NO_FIELDS)

    operation_kind: ClassVar[OperationKind] = OperationKind.UPDATE_CONFIG

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.UpdateConfig) -> UpdateConfig:
        config = UpdateMap.from_proto(message.config_updates) if message.HasField("config_updates") else None
        if message.upsert_values or message.delete_keys:  # Old releases change the config this way.
            old: dict[str, str | None] = dict.fromkeys(message.delete_keys)
            old.update(message.upsert_values)
            config = UpdateMap(MappingProxyType({**old, **(config.entries if config else {})}))
        fields = {
            FieldId(key): UpdateMap(dict(old.metadata), replace=True) for key, old in message.field_metadata.items()
        }
        fields.update((FieldId(key), UpdateMap.from_proto(new)) for key, new in message.field_metadata_updates.items())
        return cls(
            config=config,
            table_metadata=(
                UpdateMap.from_proto(message.table_metadata_updates)
                if message.HasField("table_metadata_updates")
                else None
            ),
            schema_metadata=_schema_metadata(message),
            field_metadata=MappingProxyType(fields),
        )

    def to_proto(self) -> transaction_pb2.Transaction.UpdateConfig:
        message = transaction_pb2.Transaction.UpdateConfig(
            config_updates=None if self.config is None else self.config.to_proto(),
            table_metadata_updates=None if self.table_metadata is None else self.table_metadata.to_proto(),
            schema_metadata_updates=None if self.schema_metadata is None else self.schema_metadata.to_proto(),
        )
        for field_id, update in self.field_metadata.items():
            message.field_metadata_updates[field_id].CopyFrom(update.to_proto())
        return message

    @property
    def changes_schema(self) -> bool:
        """Whether metadata of the schema or of a field changes."""
        return self.schema_metadata is not None or bool(self.field_metadata)

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table whose config could change")
        manifest = replace(
            previous,
            schema=self._schema(previous.schema),
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            config=previous.config if self.config is None else self.config.applied(previous.config),
            table_metadata=(
                previous.table_metadata
                if self.table_metadata is None
                else self.table_metadata.applied(previous.table_metadata)
            ),
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset()

    def _schema(self, before: LanceSchema) -> LanceSchema:
        missing = self.field_metadata.keys() - {node.id for node in before.walk()}
        if missing:
            raise InvalidInputError(f"the table has no fields with the ids {sorted(missing)}")

        def changed(node: Field) -> Field:
            children = tuple(changed(child) for child in node.children)
            node = node if children == node.children else node.with_children(children)
            update = self.field_metadata.get(node.id)
            return node if update is None else with_metadata(node, update.applied_to_bytes(node.metadata))

        metadata = before.metadata
        if self.schema_metadata is not None:
            metadata = self.schema_metadata.applied_to_bytes(metadata)
        return LanceSchema(tuple(changed(top) for top in before.fields), metadata)

    def collides(self, other: UpdateConfig) -> bool:
        """True if both change the same key of the same map, or one replaces all keys of a map that both change."""
        pairs = [
            (self.config, other.config),
            (self.table_metadata, other.table_metadata),
            (self.schema_metadata, other.schema_metadata),
            *((mine, other.field_metadata.get(field_id)) for field_id, mine in self.field_metadata.items()),
        ]
        return any(mine is not None and committed is not None and mine.collides(committed) for mine, committed in pairs)


def _schema_metadata(message: transaction_pb2.Transaction.UpdateConfig) -> UpdateMap | None:
    if message.HasField("schema_metadata_updates"):
        return UpdateMap.from_proto(message.schema_metadata_updates)
    # Old releases replace it as a whole.
    return UpdateMap(dict(message.schema_metadata), replace=True) if message.schema_metadata else None
