"""Record in a table's config of the fragments that a clustering has written.

It is committed with the fragments. Fragments that others rewrite get new ids, so they no longer count as clustered;
a restored version brings its own record. A lost or damaged record costs work, never rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lance_spark.table.maintenance.clustering.layout import Layout, decoded, encoded
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.manifest import Manifest

CLUSTERED = "lance-spark:clustered"
"""The entry of the config. It is no property: nobody sets it."""


def clustered_fragments(config: Mapping[str, str], layout: Layout) -> frozenset[int]:
    """Ids of the fragments that were written in the order of `layout`."""
    record = decoded(config.get(CLUSTERED, ""))
    return record[1] if record is not None and record[0].has_order_of(layout) else frozenset()


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
        before = clustered_fragments(manifest.config, self.layout)
        ids = [
            message.id
            for message in manifest.fragments.messages
            if message.id in before or any(file.path in self.paths for file in message.files)
        ]
        return replace(
            manifest,
            config=MappingProxyType({**manifest.config, CLUSTERED: encoded(self.layout, ids)}),
            writer_flags=manifest.writer_flags | FeatureFlag.TABLE_CONFIG,
        )
