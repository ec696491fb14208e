"""`Transaction.UpdateConfig`: other entries in the table's config and metadata; rows and schema stay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.successor import data_format, with_flags, writer_version
from lance_spark.table.operations.update_map import UpdateMap


@dataclass(frozen=True, slots=True)
class UpdateConfig(CommittableOperation):
    """Changes the config, the table metadata, or both.

    Attributes:
        config: the change of the config, None for none.
        table_metadata: the change of the table metadata, None for none.
        changes_schema: whether metadata of the schema or of fields changes too, which only others do.
    """

    config: UpdateMap | None = None
    table_metadata: UpdateMap | None = None
    changes_schema: bool = False

    operation_kind: ClassVar[OperationKind] = OperationKind.UPDATE_CONFIG

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.UpdateConfig) -> UpdateConfig:
        config = UpdateMap.from_proto(message.config_updates) if message.HasField("config_updates") else None
        if message.upsert_values or message.delete_keys:  # How old releases change the config.
            old: dict[str, str | None] = dict.fromkeys(message.delete_keys)
            old.update(message.upsert_values)
            config = UpdateMap(MappingProxyType({**old, **(config.entries if config else {})}))
        return cls(
            config=config,
            table_metadata=(
                UpdateMap.from_proto(message.table_metadata_updates)
                if message.HasField("table_metadata_updates")
                else None
            ),
            changes_schema=message.HasField("schema_metadata_updates")
            or bool(message.field_metadata_updates or message.schema_metadata or message.field_metadata),
        )

    def to_proto(self) -> transaction_pb2.Transaction.UpdateConfig:
        return transaction_pb2.Transaction.UpdateConfig(
            config_updates=None if self.config is None else self.config.to_proto(),
            table_metadata_updates=None if self.table_metadata is None else self.table_metadata.to_proto(),
        )

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table whose config could change")
        if self.changes_schema:
            raise UnsupportedFeatureError("this release does not change metadata of schemas", feature="schema metadata")
        manifest = replace(
            previous,
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

    def collides(self, other: UpdateConfig) -> bool:
        """True if the two change the same key of the same map, or one of them all keys of a map that both change."""
        pairs = ((self.config, other.config), (self.table_metadata, other.table_metadata))
        return any(mine is not None and theirs is not None and mine.collides(theirs) for mine, theirs in pairs)
