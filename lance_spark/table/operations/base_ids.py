"""Base path ids of files in manifests, changed for another place from which the same files are named."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.table.rows.fragment import BaseId

BaseIds = Mapping["BaseId | None", "BaseId | None"]
"""The new ids by old ones; None is the root of the table or branch. Ids that are not in it stay."""


def with_base_ids(message: table_pb2.DataFragment, new_ids: BaseIds) -> table_pb2.DataFragment:
    """A copy of a fragment whose files have other ids; unknown fields are preserved.

    Raises:
        UnsupportedFeatureError: the fragment has files that do not name a base path.
    """
    forms = (
        message.WhichOneof("row_id_sequence"),
        message.WhichOneof("created_at_version_sequence"),
        message.WhichOneof("last_updated_at_version_sequence"),
        "overlays" if message.overlays else None,
    )
    for name in forms:
        if name is not None and not name.startswith("inline_"):
            raise UnsupportedFeatureError(
                f"fragment {message.id} has {name}, whose files a clone cannot name", feature=name
            )
    copy = table_pb2.DataFragment()
    copy.CopyFrom(message)
    for file in copy.files:
        _change(file, new_ids)
    if copy.HasField("deletion_file"):
        _change(copy.deletion_file, new_ids)
    return copy


def indices_with_base_ids(section: bytes | None, new_ids: BaseIds, last_version: int | None = None) -> bytes | None:
    """The index section of a version with other ids.

    Args:
        last_version: the newest version that an index may say that it was built from; None for any.

    Raises:
        CorruptFileError: not a serialized section.
    """
    if section is None:
        return None
    try:
        message = table_pb2.IndexSection.FromString(section)
    except DecodeError as error:
        raise CorruptFileError(f"the index section of the manifest is not a protobuf message: {error}") from error
    for index in message.indices:
        _change(index, new_ids)
        if last_version is not None:
            index.dataset_version = min(index.dataset_version, last_version)
    return message.SerializeToString(deterministic=True)


def _change(holder: table_pb2.DataFile | table_pb2.DeletionFile | table_pb2.IndexMetadata, new_ids: BaseIds) -> None:
    old = BaseId(holder.base_id) if holder.HasField("base_id") else None
    new = new_ids.get(old, old)
    if new is None:
        holder.ClearField("base_id")
    else:
        holder.base_id = new
