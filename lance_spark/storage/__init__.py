"""Where the bytes of a table live: local files, memory, and object stores.

The layers above see only `base.ObjectStore`; `open_store` makes one from a URI.
"""

from lance_spark.storage.registry import open_store

__all__ = ["open_store"]
