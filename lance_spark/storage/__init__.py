"""Storage backends: local files, memory, and object stores.

The layers above see only `base.ObjectStore`; `open_store` creates one from a URI. Where an external service maps
versions to manifests, `open_manifest_table` returns that service's `manifest_table.ManifestTable`.
"""

from lance_spark.storage.registry import open_manifest_table, open_store

__all__ = ["open_manifest_table", "open_store"]
