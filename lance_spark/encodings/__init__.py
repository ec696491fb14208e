"""Codecs of the compressive encodings (`lance.encodings21.CompressiveEncoding`), one file a wire message.

Importing this package enters all of them into `registry`.
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
