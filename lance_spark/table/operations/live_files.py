"""The data files of a fragment that still hold a column of the table."""

from __future__ import annotations

from collections.abc import Collection

from lance_spark._proto import table_pb2
from lance_spark.schema.field import TOMBSTONE_FIELD_ID, LanceSchema


def live_field_ids(schema: LanceSchema) -> frozenset[int]:
    """The ids of all fields of a schema, at all levels; the fields of a blob descriptor have none."""
    return frozenset(node.id for node in schema.walk() if node.id >= 0)


def with_live_files(message: table_pb2.DataFragment, field_ids: Collection[int]) -> table_pb2.DataFragment:
    """`message` without the files that hold none of `field_ids`; the same message if there are none.

    Ids below the tombstone belong to hidden columns, whose files are kept. At least one file is always kept: other
    readers treat a fragment without files as one without rows.
    """
    kept = [file for file in message.files if _is_live(file, field_ids)]
    if len(kept) == len(message.files):
        return message
    copy = table_pb2.DataFragment()
    copy.CopyFrom(message)
    del copy.files[:]
    copy.files.extend(kept or [min(message.files, key=lambda file: file.file_size_bytes)])
    return copy


def without_columns(message: table_pb2.DataFragment, field_ids: Collection[int]) -> table_pb2.DataFragment:
    """A copy of `message` with the columns of `field_ids` marked as replaced in its files."""
    copy = table_pb2.DataFragment()
    copy.CopyFrom(message)
    for file in copy.files:
        file.fields[:] = [TOMBSTONE_FIELD_ID if field_id in field_ids else field_id for field_id in file.fields]
    return copy


def _is_live(file: table_pb2.DataFile, field_ids: Collection[int]) -> bool:
    return any(field_id in field_ids or field_id < TOMBSTONE_FIELD_ID for field_id in file.fields)
