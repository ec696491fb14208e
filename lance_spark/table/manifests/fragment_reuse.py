"""The fragment reuse index of a version: a system index whose metadata says where deferred compactions moved rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.rows.fragment import BaseId

FRAGMENT_REUSE = "__lance_frag_reuse"
"""The name of the index."""

_cached = lru_cache(maxsize=8)(FragmentReuse.of_content)


def fragment_reuse(index: IndexMetadata, bases: Bases) -> FragmentReuse:
    """The moves of rows that a fragment reuse index records, in its metadata or in a file of its folder.

    Raises:
        CorruptFileError: it is broken.
        LanceError: its file cannot be read.
    """
    return _cached(fragment_reuse_content(index, bases))


def fragment_reuse_content(index: IndexMetadata, bases: Bases) -> bytes:
    """The serialized `InlineContent` of a fragment reuse index. Raises as `fragment_reuse`."""
    details = _details(index)
    if not details.HasField("external"):
        return details.inline.SerializeToString(deterministic=True)
    base_id = None if index.base_id is None else BaseId(index.base_id)
    store, folder = bases.index_folder(index.uuid, base_id)
    file = details.external
    data = bytes(store.read(f"{folder}/{file.path}"))
    if len(data) < file.offset + file.size:
        raise CorruptFileError(f"{len(data)} bytes, expected {file.offset + file.size}", path=f"{folder}/{file.path}")
    return data[file.offset : file.offset + file.size]


def covered_fragments(indexes: Sequence[IndexMetadata], bases: Bases) -> Callable[[IndexMetadata], pyroaring.BitMap]:
    """Returns a function from an index of a version to the fragments that it covers now.

    Bitmaps can name the fragments from before deferred compactions. An index covers nothing if the fragment reuse index
    is broken.

    Raises:
        StorageError: the store failed.
    """
    reuse = next((index for index in indexes if index.is_fragment_reuse), None)
    if reuse is None:
        return IndexMetadata.fragment_ids
    try:
        moves = fragment_reuse(reuse, bases)
    except CorruptFileError:
        return lambda index: pyroaring.BitMap()
    return lambda index: moves.current(index.fragment_ids())


def inline_fragment_reuse(index: IndexMetadata) -> FragmentReuse | None:
    """The moves that the metadata of a fragment reuse index holds; None if they are in a file, or broken."""
    try:
        details = _details(index)
        return None if details.HasField("external") else _cached(details.inline.SerializeToString(deterministic=True))
    except CorruptFileError:
        return None


def _details(index: IndexMetadata) -> table_pb2.FragmentReuseIndexDetails:
    try:
        return table_pb2.FragmentReuseIndexDetails.FromString(index.message.index_details.value)
    except DecodeError as error:
        raise CorruptFileError(f"not a fragment reuse index: {error}") from error
