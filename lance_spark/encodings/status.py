"""What kernels report, and how much a file may make us allocate."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import CorruptFileError

MAX_UNBACKED_BYTES = 1 << 30
"""Most bytes made from (nearly) none, such as the zeros of a bit width of 0."""


def check(status: int, wire_name: str) -> int:
    """`status` itself, if it is not negative.

    Raises:
        CorruptFileError: the kernel found chunk (or value) ``~status`` to contradict its size or its number of values.
    """
    if status < 0:
        raise CorruptFileError(f"{wire_name}: chunk {~status} contradicts its size or its number of values")
    return status


def allocate_unbacked(num_bytes: int, wire_name: str) -> pa.Buffer:
    """A buffer whose size rests on a count in the file, not on bytes that are there.

    Raises:
        CorruptFileError: more than `MAX_UNBACKED_BYTES`.
    """
    if num_bytes > MAX_UNBACKED_BYTES:
        raise CorruptFileError(f"{wire_name}: {num_bytes} bytes are claimed, but no bytes stand for them")
    return pa.allocate_buffer(num_bytes)
