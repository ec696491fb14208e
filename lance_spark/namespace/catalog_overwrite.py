"""A version of `__manifest` that changes rows, columns and properties atomically.

No operation of the transaction message covers all of them, but a manifest can contain all of them, and readers only use
the manifest. The message is an Overwrite, which conflicts with every other change of rows. Writers of the properties
that a partitioned namespace depends on publish only the direct successor of the version they read, so none is lost.
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
        properties: changed properties of the root namespace; None removes one.
    """

    properties: Mapping[str, str | None] | None = None

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        manifest = Overwrite.next_manifest(self, previous, settings)
        if not self.properties:
            return manifest
        return replace(manifest, table_metadata=UpdateMap(self.properties).applied(manifest.table_metadata))
