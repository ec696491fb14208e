"""How many bytes compressed bytes of a file may become.

A few bytes of zstd can stand for gigabytes. What the numbers of a page bound is bounded by them; this limit holds for
the rest, and for numbers that lie. It is looked at before anything is allocated.
"""

from __future__ import annotations

import os

from lance_spark.errors import CorruptFileError, InvalidInputError

VARIABLE = "LANCE_SPARK_MAX_DECOMPRESSED_BYTES"
"""The environment variable that sets the limit."""

DEFAULT_MAX_BYTES = 256 << 20
"""Pages hold 8 to 32 MiB; only a single value can make one larger."""

FREE_RATIO = 16
"""Bytes grow by this factor without regard to the limit: they need memory in proportion to the file."""


def max_decompressed_bytes() -> int:
    """The limit in bytes.

    Raises:
        InvalidInputError: the environment variable is no number of bytes.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT_MAX_BYTES
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInputError(f"{VARIABLE} is {text!r}; set it to a number of bytes, such as {DEFAULT_MAX_BYTES}")
    return int(text)


def check_growth(compressed: int, decompressed: int) -> None:
    """Nothing, if `compressed` bytes may become `decompressed` bytes.

    Raises:
        CorruptFileError: they are more than the limit.
    """
    if decompressed <= FREE_RATIO * compressed:
        return
    limit = max_decompressed_bytes()
    if decompressed > limit:
        raise CorruptFileError(
            f"{compressed} compressed bytes claim to hold {decompressed}, the limit is {limit}; "
            f"if the file can be trusted, set {VARIABLE} to a larger number of bytes"
        )
