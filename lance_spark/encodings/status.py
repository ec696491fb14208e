"""Status codes of kernels, and limits of allocations based on file contents."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import CorruptFileError

MAX_UNBACKED_BYTES = 1 << 30
"""Maximum bytes decoded from (nearly) no input, such as the zeros of a bit width of 0."""


def check(status: int, wire_name: str) -> int:
    """Returns `status` if it is not negative.

    Raises:
        CorruptFileError: chunk (or value) ``~status`` is inconsistent with its size or its number of values.
    """
    if status < 0:
        raise CorruptFileError(f"{wire_name}: chunk {~status} contradicts its size or its number of values")
    return status


def allocate_unbacked(num_bytes: int, wire_name: str) -> pa.Buffer:
    """A buffer whose size is based on a count in the file, not on the size of its bytes.

    Raises:
        CorruptFileError: more than `MAX_UNBACKED_BYTES`.
    """
    if num_bytes > MAX_UNBACKED_BYTES:
        raise CorruptFileError(f"{wire_name}: {num_bytes} bytes are claimed, but no bytes stand for them")
    return pa.allocate_buffer(num_bytes)
