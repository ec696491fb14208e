"""Record in a table's config of the fragments that a clustering has written.

It is committed with the fragments. A fragment counts as clustered while its id and the files with the columns of the
layout are those of the record: what others rewrite, overwrite or update in place no longer does. A restored version
brings its own record. A lost or damaged record costs work, never rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lance_spark._proto import table_pb2
from lance_spark.table.maintenance.clustering.layout import Layout, decoded, encoded
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.manifest import Manifest

CLUSTERED = "lance-spark:clustered"
"""The entry of the config. It is no property: nobody sets it."""


def clustered_fragments(manifest: Manifest, layout: Layout) -> frozenset[int]:
    """Ids of the fragments that were written in the order of `layout`."""
    record = decoded(manifest.config.get(CLUSTERED, ""))
    if record is None or not record[0].has_order_of(layout):
        return frozenset()
    digests = record[1]
    return frozenset(
        message.id
        for message in manifest.fragments.messages
        if message.id in digests and digests[message.id] == _digest(message, layout)
    )


def _digest(message: table_pb2.DataFragment, layout: Layout) -> int:
    """A number for the files that hold the columns of a layout."""
    ids = {int(key.field_id) for key in layout.keys}
    paths = (file.path for file in message.files if not ids.isdisjoint(file.fields))
    return zlib.crc32("\n".join(paths).encode())


@dataclass(frozen=True, slots=True)
class ClusteringMark:
    """Fragments that are committed with the mark.

    Attributes:
        paths: of their data files, which no other fragment has.
    """

    layout: Layout
    paths: frozenset[str]

    def check(self, config: Mapping[str, str], uri: str) -> None:
        """Passes: what others have recorded meanwhile is in the version that ours follows."""

    def applied(self, manifest: Manifest) -> Manifest:
        """`manifest`, about to be committed, with the record."""
        before = clustered_fragments(manifest, self.layout)
        digests = {
            message.id: _digest(message, self.layout)
            for message in manifest.fragments.messages
            if message.id in before or any(file.path in self.paths for file in message.files)
        }
        return replace(
            manifest,
            config=MappingProxyType({**manifest.config, CLUSTERED: encoded(self.layout, digests)}),
            writer_flags=manifest.writer_flags | FeatureFlag.TABLE_CONFIG,
        )
