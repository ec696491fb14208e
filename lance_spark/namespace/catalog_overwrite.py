"""A version of `__manifest` that changes rows, columns and properties at once.

The transaction message has no operation for all of them. What readers go by is the manifest, and that can hold all of
them; the message tells an Overwrite, which goes together with no other change of rows. Writers of the properties that a
partitioned namespace lives by publish only as the direct successor of what they have seen, so none is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations import Overwrite, Settings
from lance_spark.table.operations.update_map import UpdateMap


@dataclass(frozen=True, slots=True)
class CatalogOverwrite(Overwrite):
    """An Overwrite of `__manifest`.

    Attributes:
        properties: of the root namespace that change; None removes one.
    """

    properties: Mapping[str, str | None] | None = None

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        manifest = Overwrite.next_manifest(self, previous, settings)
        if not self.properties:
            return manifest
        return replace(manifest, table_metadata=UpdateMap(self.properties).applied(manifest.table_metadata))
