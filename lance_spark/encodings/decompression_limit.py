"""Limit of decompressed sizes.

A few bytes of zstd can expand to gigabytes. Where the metadata of a page bounds the size, that bound applies; this
limit is for the rest, and for wrong metadata. It is checked before any allocation.
"""

from __future__ import annotations

import os

from lance_spark.errors import CorruptFileError, InvalidInputError

VARIABLE = "LANCE_SPARK_MAX_DECOMPRESSED_BYTES"
"""The environment variable that sets the limit."""

DEFAULT_MAX_BYTES = 256 << 20
"""Pages have 8 to 32 MiB; only a single large value can exceed that."""

FREE_RATIO = 16
"""Expansion up to this factor is always allowed: its memory is proportional to the file size."""


def max_decompressed_bytes() -> int:
    """The limit in bytes.

    Raises:
        InvalidInputError: the environment variable is not a number of bytes.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT_MAX_BYTES
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInputError(f"{VARIABLE} is {text!r}; set it to a number of bytes, such as {DEFAULT_MAX_BYTES}")
    return int(text)


def check_growth(compressed: int, decompressed: int) -> None:
    """Checks that `compressed` bytes may expand to `decompressed` bytes.

    Raises:
        CorruptFileError: above the limit.
    """
    if decompressed <= FREE_RATIO * compressed:
        return
    limit = max_decompressed_bytes()
    if decompressed > limit:
        raise CorruptFileError(
            f"{compressed} compressed bytes claim to hold {decompressed}, the limit is {limit}; "
            f"if the file can be trusted, set {VARIABLE} to a larger number of bytes"
        )
