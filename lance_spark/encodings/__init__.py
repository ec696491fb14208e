"""Codecs of the compressive encodings (`lance.encodings21.CompressiveEncoding`), one file per wire message.

Importing this package registers all of them in `registry`.
"""

from lance_spark.encodings import (
    byte_stream_split,
    constant,
    fixed_size_list,
    flat,
    fsst,
    general,
    inline_bitpacking,
    out_of_line_bitpacking,
    packed_struct,
    rle,
    variable,
    variable_packed_struct,
)

__all__ = [
    "byte_stream_split",
    "constant",
    "fixed_size_list",
    "flat",
    "fsst",
    "general",
    "inline_bitpacking",
    "out_of_line_bitpacking",
    "packed_struct",
    "rle",
    "variable",
    "variable_packed_struct",
]
