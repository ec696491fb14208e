"""The summary of a version for a history, read without parsing columns and fragments.

Each version of a table with many fragments repeats nearly all fragments of its predecessor. They are kept as bytes
here, so that two versions can be compared before parsing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import manifest_summary_pb2
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.table.manifests.manifest import WriterVersion, timestamp_nanos
from lance_spark.table.manifests.manifest_file import inline_transaction, manifest_content


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """The part of a manifest file that a history needs.

    Attributes:
        fragments: the serialized fragments in scan order.
        timestamp_nanos: commit time, nanoseconds since 1970 UTC.
        transaction: the serialized transaction, None if it is not in this file.
        transaction_file: name in `_transactions/`, "" if there is none.
        writer_version: None in old manifests.
    """

    version: int
    fragments: tuple[bytes, ...]
    timestamp_nanos: int
    reader_flags: int
    writer_flags: int
    writer_version: WriterVersion | None
    transaction: bytes | None
    transaction_file: str

    @classmethod
    def decode(cls, data: pa.Buffer | bytes, path: str) -> ManifestSummary:
        """The summary of a manifest file; `path` is for messages.

        Raises:
            CorruptFileError: the bytes are not a manifest file.
            UnsupportedFeatureError: the manifest stores its fragments in a tree.
        """
        try:
            return cls._decode(memoryview(data))
        except CorruptFileError as error:
            raise error.at(path=path) from None

    @classmethod
    def _decode(cls, data: memoryview) -> ManifestSummary:
        position, content = manifest_content(data)
        try:
            message = manifest_summary_pb2.ManifestSummary.FromString(bytes(content))
        except DecodeError as error:
            raise CorruptFileError(f"the manifest is not a protobuf message: {error}", start=position) from error
        if message.HasField("fragment_tree"):
            raise UnsupportedFeatureError("the manifest keeps its fragments in a tree", feature="fragment tree")
        writer = message.writer_version if message.HasField("writer_version") else None
        return cls(
            version=message.version,
            fragments=tuple(message.fragments),
            timestamp_nanos=timestamp_nanos(message.timestamp.seconds, message.timestamp.nanos),
            reader_flags=message.reader_feature_flags,
            writer_flags=message.writer_feature_flags,
            writer_version=None if writer is None else WriterVersion(writer.library, writer.version),
            transaction=inline_transaction(data[:position], message),
            transaction_file=message.transaction_file,
        )
