"""The fragments after an `Update` with REWRITE_COLUMNS: new values of some columns, in separate files.

The rows are not moved. A file with one of the columns keeps it, marked as replaced. In a table with stable row ids the
changed rows get the new version as their last updated version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyroaring

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.table.operations.live_files import with_live_files, without_columns
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence


def with_rewritten_columns(
    before: FragmentList,
    updated: Collection[DataFragment],
    offsets: Mapping[FragmentId, bytes],
    live_field_ids: Collection[int],
    version: int,
) -> FragmentList:
    """The fragments with the new files of `updated`, as of `version`.

    Args:
        updated: fragments of an older version, each with its new list of files.
        offsets: portable Roaring bitmaps of the changed rows; without one, all rows of a fragment have changed.
        live_field_ids: fields of the table.

    Raises:
        InvalidInputError: a fragment has no new file.
        CorruptFileError: `offsets` are not valid bitmaps, or the row versions of a fragment do not fit it.
    """
    by_id = {int(fragment.id): fragment for fragment in updated}
    return FragmentList(
        _rewritten(message, by_id[message.id], offsets.get(FragmentId(message.id)), live_field_ids, version)
        if message.id in by_id
        else message
        for message in before.messages
    )


def _rewritten(
    message: table_pb2.DataFragment,
    updated: DataFragment,
    offsets: bytes | None,
    live_field_ids: Collection[int],
    version: int,
) -> table_pb2.DataFragment:
    known = {file.path for file in message.files}
    new = [file for file in updated.files if file.path not in known]
    if not new:
        raise InvalidInputError(f"the update has no new file for fragment {updated.id}, whose columns it rewrites")
    changed = without_columns(message, {field_id for file in new for field_id in file.columns()})
    changed.files.extend(file.to_proto() for file in new)
    if changed.HasField("column_last_updated_at_versions"):
        raise UnsupportedFeatureError(
            f"the row versions of fragment {updated.id} are in its data files; compact the table first",
            feature="column rewrites beside spilled row versions",
        )
    if changed.HasField("inline_last_updated_at_versions"):
        sequence = RowDatasetVersionSequence.from_bytes(
            changed.inline_last_updated_at_versions, changed.physical_rows or None
        )
        versions = sequence.at(np.arange(sequence.num_rows))
        versions[_rows(offsets, sequence.num_rows)] = version
        changed.inline_last_updated_at_versions = RowDatasetVersionSequence.of_versions(versions).to_bytes()
    return with_live_files(changed, live_field_ids)


def _rows(offsets: bytes | None, num_rows: int) -> np.typing.NDArray[np.int64]:
    if offsets is None:
        return np.arange(num_rows)
    try:
        rows = pyroaring.BitMap.deserialize(offsets)
    except ValueError as error:
        raise CorruptFileError(f"the rows that an update has changed are not a Roaring bitmap: {error}") from error
    # A few bytes of runs can stand for 2**32 rows: looked at before they are listed.
    if rows and rows.max() >= num_rows:
        raise CorruptFileError(f"an update has changed row {rows.max()} of a fragment of {num_rows} rows")
    return np.array(rows.to_array(), np.int64)
