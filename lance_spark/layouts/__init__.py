"""Page layouts: from the buffers of a page to Arrow arrays and back.

Importing this package enters all of them into `registry`.
"""

from lance_spark.layouts import blob, constant, full_zip, mini_block

__all__ = ["blob", "constant", "full_zip", "mini_block"]
