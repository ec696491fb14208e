"""The text of many documents at once, by compiled code."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.kernels.documents.json_text import DEPTH, FIELDS, measure, write
from lance_spark.kernels.jit import address_of

_BYTES_OF_DOUBLE = 9
_MAX_BYTES = (1 << 31) - 1


def written_texts(documents: pa.Array) -> pa.Array | None:
    """The text of each document (binary or large_binary): string; null for null.

    Returns:
        None if one of them needs the careful decoder, which knows all forms and explains damage.
    """
    num_rows = len(documents)
    _, starts, data = documents.buffers()
    if data is None:
        return None
    width = 8 if pt.is_large_binary(documents.type) else 4
    offsets = np.frombuffer(starts, f"<i{width}", num_rows + 1, documents.offset * width).astype(np.int64)
    valid = np.ascontiguousarray(documents.is_valid().to_numpy(zero_copy_only=False))
    stack, sizes = np.empty(DEPTH * FIELDS, np.int64), np.empty(num_rows, np.int64)
    used = np.empty(num_rows + 1, np.int64)
    doubles = np.empty(int(offsets[-1] - offsets[0]) // _BYTES_OF_DOUBLE + 1, np.float64)
    rows = (data.address, address_of(offsets), address_of(valid), num_rows, address_of(stack))
    if measure(*rows, address_of(sizes), address_of(used), address_of(doubles)) < 0:
        return None
    texts = [repr(value) for value in doubles[: used[-1]].tolist()]
    text_ends = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)]).astype(np.int64)
    ends = np.zeros(num_rows + 1, np.int64)
    np.cumsum(sizes + np.diff(text_ends[used]), out=ends[1:])
    if ends[-1] > _MAX_BYTES:
        return None
    joined = pa.py_buffer("".join(texts).encode())
    target = pa.allocate_buffer(int(ends[-1]))
    write(*rows, joined.address, address_of(text_ends), address_of(ends), target.address)
    validity = documents.is_valid().buffers()[1] if documents.null_count else None
    found = pa.StringArray.from_buffers(num_rows, pa.py_buffer(ends.astype(np.int32)), target, validity)
    return found if _is_utf8(found) else None


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
