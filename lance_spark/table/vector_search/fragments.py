"""The fragments of a version by their ids."""

from __future__ import annotations

from collections.abc import Mapping

import pyroaring

from lance_spark.storage.cache import cached_part
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.rows.fragment import DataFragment

_PLACE_BYTES = 100
_ID_BYTES = 2


def fragment_of(manifest: Manifest, fragment_id: int) -> DataFragment:
    """The fragment with this id, which the version has."""
    return manifest.fragments[_places(manifest)[fragment_id]]


def fragments_of(manifest: Manifest, fragment_ids: pyroaring.BitMap) -> list[DataFragment]:
    """The fragments with these ids, in scan order."""
    if not fragment_ids:
        return []
    messages = manifest.fragments.messages
    return [manifest.fragments[place] for place, message in enumerate(messages) if message.id in fragment_ids]


def ids_of_fragments(manifest: Manifest) -> pyroaring.BitMap:
    """The ids of the fragments of a version."""

    def make() -> tuple[pyroaring.BitMap, int]:
        messages = manifest.fragments.messages
        return pyroaring.BitMap(message.id for message in messages), _ID_BYTES * (1 + len(messages))

    return cached_part(manifest, "ids of fragments", make)


def _places(manifest: Manifest) -> Mapping[int, int]:
    def make() -> tuple[dict[int, int], int]:
        messages = manifest.fragments.messages
        return {message.id: place for place, message in enumerate(messages)}, _PLACE_BYTES * (1 + len(messages))

    return cached_part(manifest, "places of fragments", make)
