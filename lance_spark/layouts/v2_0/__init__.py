"""Columns of file version 2.0: array encodings (`lance.encodings.ArrayEncoding`), one file per wire message.

Importing this package registers all of them in `registry`.
"""

from lance_spark.layouts.v2_0 import (
    binary,
    bitpacked,
    bitpacked_for_non_neg,
    constant,
    dictionary,
    fixed_size_binary,
    fixed_size_list,
    flat,
    fsst,
    list_,
    nullable,
    packed_struct,
    simple_struct,
)

__all__ = [
    "binary",
    "bitpacked",
    "bitpacked_for_non_neg",
    "constant",
    "dictionary",
    "fixed_size_binary",
    "fixed_size_list",
    "flat",
    "fsst",
    "list_",
    "nullable",
    "packed_struct",
    "simple_struct",
]
