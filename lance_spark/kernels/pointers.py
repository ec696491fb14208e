"""`pointer_u8(address)` and its siblings: what a kernel indexes, made from a raw address.

Imported by `kernels.jit` at the first compilation only, since it needs numba at import time.
An index into a pointer is not checked by anybody but the kernel.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _pointer_to(element: Any) -> Any:
    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        signature = types.CPointer(element)(types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, generate

    return pointer


_ELEMENTS = {
    "u8": types.uint8,
    "u16": types.uint16,
    "u32": types.uint32,
    "u64": types.uint64,
    "i8": types.int8,
    "i16": types.int16,
    "i32": types.int32,
    "i64": types.int64,
}

FUNCTIONS = {f"pointer_{name}": _pointer_to(element) for name, element in _ELEMENTS.items()}
