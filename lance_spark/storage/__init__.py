"""Where the bytes of a table live: local files, memory, and object stores.

The layers above see only `base.ObjectStore`; `open_store` makes one from a URI. Where another service decides which
version is which, `open_manifest_table` gives that service's `manifest_table.ManifestTable`.
"""

from lance_spark.storage.registry import open_manifest_table, open_store

__all__ = ["open_manifest_table", "open_store"]
