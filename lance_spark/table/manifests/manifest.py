"""One version of a table (`lance.table.Manifest`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import MappingProxyType

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import fields_to_proto, schema_from_messages
from lance_spark.table.bases import BasePath
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.rows.fragment import FragmentList

_NANOS = 1_000_000_000
# Operators of an enumeration take as long as to open a file.
_STABLE_ROW_IDS = int(FeatureFlag.STABLE_ROW_IDS)
_NON_REUSABLE_FIELD_IDS = int(FeatureFlag.NON_REUSABLE_FIELD_IDS)
_NO_ENTRIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WriterVersion:
    """The library that wrote a manifest."""

    library: str
    version: str


@dataclass(frozen=True, slots=True)
class Clustering:
    """A protobuf `Clustering`, kept unparsed."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Manifest:
    """A version of a table; immutable.

    Attributes:
        file_version: `data_format.version`; None in old manifests, where each data file has its own.
        timestamp_nanos: when the version was committed, nanoseconds since 1970 UTC.
        max_fragment_id: the largest fragment id ever used; None if there never was a fragment.
        writer_version: None in old manifests, whose row counts are not trusted.
        next_row_id: the next unused stable row id.
        transaction_file: name in `_transactions/`, "" if there is none.
        index_section: the serialized `IndexSection`, None if there is none.
    """

    schema: LanceSchema
    fragments: FragmentList
    version: int
    file_version: FileVersion | None
    timestamp_nanos: int
    reader_flags: int = 0
    writer_flags: int = 0
    max_fragment_id: int | None = None
    writer_version: WriterVersion | None = None
    next_row_id: int = 0
    transaction_file: str = ""
    config: Mapping[str, str] = field(default_factory=lambda: _NO_ENTRIES)
    table_metadata: Mapping[str, str] = field(default_factory=lambda: _NO_ENTRIES)
    base_paths: tuple[BasePath, ...] = ()
    branch: str | None = None
    tag: str = ""
    max_allocated_field_id: int | None = None
    clustering: tuple[Clustering, ...] = ()
    max_clustering_id: int = 0
    index_section: bytes | None = None

    @property
    def timestamp(self) -> datetime:
        """When the version was committed, in UTC, to the microsecond (rounded down)."""
        return timestamp_of(self.timestamp_nanos)

    @property
    def has_stable_row_ids(self) -> bool:
        return bool(self.reader_flags & _STABLE_ROW_IDS)

    @classmethod
    def from_proto(
        cls, message: table_pb2.Manifest, index_section: bytes | None = None, content: bytes | None = None
    ) -> Manifest:
        """The version of a message; the index section is stored elsewhere in the file.

        Args:
            content: the bytes of the message, if known.

        Raises:
            CorruptFileError: the message violates the format.
            UnsupportedFeatureError: the data files have another format, or the fragments are not in the message.
        """
        if message.HasField("fragment_tree"):
            raise UnsupportedFeatureError("the manifest keeps its fragments in a tree", feature="fragment tree")
        remembers = bool(message.writer_feature_flags & _NON_REUSABLE_FIELD_IDS)
        if remembers is not message.HasField("max_allocated_field_id"):
            raise CorruptFileError(
                "the manifest has a largest assigned field id without its feature flag, or the flag without the id"
            )
        if len({base.id for base in message.base_paths}) < len(message.base_paths):
            raise CorruptFileError("two base paths of the manifest have one id")
        if not message.HasField("writer_version"):
            _forget_row_counts(message)
            content = None
        return cls(
            schema=schema_from_messages(message.fields, message.schema_metadata),
            fragments=FragmentList.from_wire(message.fragments, content),
            version=message.version,
            file_version=_file_version(message),
            timestamp_nanos=timestamp_nanos(message.timestamp.seconds, message.timestamp.nanos),
            reader_flags=message.reader_feature_flags,
            writer_flags=message.writer_feature_flags,
            max_fragment_id=message.max_fragment_id if message.HasField("max_fragment_id") else None,
            writer_version=_writer_version(message),
            next_row_id=message.next_row_id,
            transaction_file=message.transaction_file,
            config=_entries(message.config),
            table_metadata=_entries(message.table_metadata),
            base_paths=tuple([BasePath.from_proto(base) for base in message.base_paths]),
            branch=message.branch if message.HasField("branch") else None,
            tag=message.tag,
            max_allocated_field_id=(
                message.max_allocated_field_id if message.HasField("max_allocated_field_id") else None
            ),
            clustering=tuple([Clustering(entry.SerializeToString()) for entry in message.clustering]),
            max_clustering_id=message.max_clustering_id,
            index_section=index_section,
        )

    def to_proto(self) -> table_pb2.Manifest:
        """The message without the offsets of the sections, which only the file's writer knows."""
        message = self.to_proto_without_fragments()
        message.fragments.extend(self.fragments.messages)
        return message

    def to_proto_without_fragments(self) -> table_pb2.Manifest:
        """The message without its fragments, for a writer that appends them as bytes
        (`FragmentList.to_manifest_bytes`).
        """
        message = table_pb2.Manifest(
            fields=fields_to_proto(self.schema.fields),
            schema_metadata=dict(self.schema.metadata),
            version=self.version,
            tag=self.tag,
            reader_feature_flags=self.reader_flags,
            writer_feature_flags=self.writer_flags,
            max_fragment_id=self.max_fragment_id,
            next_row_id=self.next_row_id,
            transaction_file=self.transaction_file,
            config=dict(self.config),
            table_metadata=dict(self.table_metadata),
            base_paths=[base.to_proto() for base in self.base_paths],
            branch=self.branch,
            max_allocated_field_id=self.max_allocated_field_id,
            clustering=[table_pb2.Manifest.Clustering.FromString(entry.message) for entry in self.clustering],
            max_clustering_id=self.max_clustering_id,
        )
        message.timestamp.seconds, message.timestamp.nanos = divmod(self.timestamp_nanos, _NANOS)
        if self.file_version is not None:
            message.data_format.file_format = "lance"
            message.data_format.version = self.file_version.value
        if self.writer_version is not None:
            message.writer_version.library = self.writer_version.library
            message.writer_version.version = self.writer_version.version
        return message


def _entries(found: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(found)) if found else _NO_ENTRIES


def _file_version(message: table_pb2.Manifest) -> FileVersion | None:
    if not message.HasField("data_format"):
        return None
    if message.data_format.file_format != "lance":
        raise UnsupportedFeatureError(
            f"the data files are of format {message.data_format.file_format!r}, not lance", feature="data format"
        )
    try:
        return FileVersion(message.data_format.version)
    except ValueError:
        if message.data_format.version == "0.2":
            return FileVersion.V0_1
        raise UnsupportedFeatureError(
            f"data files of version {message.data_format.version!r} are unknown to this release",
            feature="file version",
            version=message.data_format.version,
        ) from None


def timestamp_nanos(seconds: int, nanos: int) -> int:
    """The commit time of a manifest in nanoseconds since 1970 UTC.

    Raises:
        CorruptFileError: it is outside the years 1 to 9999, the range of a datetime.
    """
    total = seconds * _NANOS + nanos
    if not -62_135_596_800 * _NANOS <= total < 253_402_300_800 * _NANOS:
        raise CorruptFileError(f"a commit time of {seconds} s since 1970 is out of range")
    return total


def timestamp_of(nanos: int) -> datetime:
    """Nanoseconds since 1970 as a time in UTC, to the microsecond (rounded down)."""
    seconds, rest = divmod(nanos, _NANOS)
    return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=rest // 1000)


def _forget_row_counts(message: table_pb2.Manifest) -> None:
    """Removes the row counts of fragments, which can be wrong: writers without a `writer_version` stored the number of
    live rows as the number of all rows. The data files have the correct counts.
    """
    for fragment in message.fragments:
        fragment.ClearField("physical_rows")
        if fragment.HasField("deletion_file"):
            fragment.deletion_file.ClearField("num_deleted_rows")


def _writer_version(message: table_pb2.Manifest) -> WriterVersion | None:
    if not message.HasField("writer_version"):
        return None
    return WriterVersion(message.writer_version.library, message.writer_version.version)
