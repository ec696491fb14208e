"""Values of blob columns as files, in functions that Spark runs in its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import open_table
from lance_spark.table.reading.blob_file import DEFAULT_BUFFER_BYTES, BlobFile, BlobReader

__all__ = ["open_blob"]

_PARTS = ("kind", "position", "size", "blob_id", "blob_uri", "source")


def open_blob(
    description: Any,
    table: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    buffer_size: int = DEFAULT_BUFFER_BYTES,
    allow_external_blobs: bool = False,
) -> BlobFile | None:
    """The value that a description stands for, as a binary file that can be read and sought; None for a null.

    Nothing is read before the file is asked, so a crop of a large picture or the head of a film costs what it reads.
    The value can have any size. The table is opened once in each process.

    Args:
        description: the value of a blob column as Spark shows it: a Row, a dict, or a row of the DataFrame that a
            function of pandas gets for it.
        table: the URI of the table that the description is of, or of its branch.
        storage_options: of the table.
        buffer_size: bytes that the file reads ahead.
        allow_external_blobs: whether references to objects outside of the table are followed.

    Raises:
        InvalidInputError: this is no description, or it is a reference that is not allowed.
        NotFoundError: there is no such table, or the file was deleted by a clean-up.
        CorruptFileError: the description is invalid.
    """
    parts = _parts(description)
    if parts is None:
        return None
    described = [parts[name] for name in _PARTS]
    arguments = (table, tuple(sorted((storage_options or {}).items())), allow_external_blobs)
    try:
        location = _reader(*arguments).location(*described)
    except NotFoundError:
        # A partition can be younger than what this process has opened.
        _reader.cache_clear()
        location = _reader(*arguments).location(*described)
    return BlobFile(location, buffer_size)


def _parts(description: Any) -> dict[str, Any] | None:
    if description is None:
        return None
    for method in ("asDict", "to_dict"):
        if hasattr(description, method):
            description = getattr(description, method)()
    if not isinstance(description, Mapping) or not description.keys() >= set(_PARTS):
        shown = ", ".join(_PARTS)
        raise InvalidInputError(f"this is no description of a blob, which has {shown}: {str(description)[:80]}")
    parts = dict(description)
    # A null struct comes to functions of pandas as a row of nulls.
    if parts["source"] is None or parts["kind"] is None or parts["kind"] != parts["kind"]:
        return None
    return {name: int(parts[name]) if name in _PARTS[:4] else parts[name] for name in _PARTS}


@lru_cache(maxsize=16)
def _reader(table: str, storage_options: tuple[tuple[str, str], ...], allow_external: bool) -> BlobReader:
    dataset = open_table(table, storage_options=dict(storage_options))
    return dataset.blob_reader(allow_external_blobs=allow_external)
