"""Operations on raw addresses in kernels: pointers, byte copies, and vector operations on rows of bits.

Imported by `kernels.jit` only at the first compilation, since it needs numba at import time. Nothing here is checked:
that is up to the calling kernel.

* ``pointer_u8(address)`` and its siblings: pointers that can be indexed.
* ``copy_bytes(target, source, length)``: C's memcpy.
* ``unpack_row`` and the other row functions work on a *row* of 1024 bits (16 u64 words, any alignment) as one LLVM
  vector, so that the machine's widest registers are used independent of the loop vectorizer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_ROW = ir.VectorType(ir.IntType(64), 16)


def _pointer_to(element: Any) -> Any:
    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        signature = types.CPointer(element)(types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, generate

    return pointer


@intrinsic
def copy_bytes(typing_context: Any, target: Any, source: Any, length: Any) -> Any:
    """memcpy(target, source, length); the two must not overlap."""
    signature = types.void(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        target, source, length = arguments
        cgutils.raw_memcpy(builder, builder.inttoptr(target, byte), builder.inttoptr(source, byte), length, 1)
        return context.get_dummy_value()

    return signature, generate


def _load_row(builder: Any, address: Any) -> Any:
    loaded = builder.load(builder.inttoptr(address, _ROW.as_pointer()))
    loaded.align = 1
    return loaded


def _store_row(builder: Any, row: Any, address: Any) -> None:
    stored = builder.store(row, builder.inttoptr(address, _ROW.as_pointer()))
    stored.align = 1


def _splat(builder: Any, word: Any) -> Any:
    one = builder.insert_element(ir.Constant(_ROW, ir.Undefined), word, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16)
    return builder.shuffle_vector(one, ir.Constant(_ROW, ir.Undefined), zeros)


@intrinsic
def unpack_row(typing_context: Any, source: Any, shift: Any, mask: Any, target: Any) -> Any:
    """target = (source >> shift) & mask, for 16 words; `shift` < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, shift, mask, target = arguments
        row = builder.lshr(_load_row(builder, source), _splat(builder, shift))
        _store_row(builder, builder.and_(row, _splat(builder, mask)), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def unpack_split_row(
    typing_context: Any, source: Any, shift: Any, low: Any, high_shift: Any, high: Any, target: Any
) -> Any:
    """target = ((source[0:16] >> shift) & low) | ((source[16:32] & high) << high_shift); shifts < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, shift, low, high_shift, high, target = arguments
        first = builder.lshr(_load_row(builder, source), _splat(builder, shift))
        second = _load_row(builder, builder.add(source, source.type(128)))
        second = builder.shl(builder.and_(second, _splat(builder, high)), _splat(builder, high_shift))
        _store_row(builder, builder.or_(builder.and_(first, _splat(builder, low)), second), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def pack_row(typing_context: Any, source: Any, low: Any, shift: Any, target: Any) -> Any:
    """target |= (source & low) << shift, for 16 words; `shift` < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, low, shift, target = arguments
        row = builder.and_(_load_row(builder, source), _splat(builder, low))
        row = builder.shl(row, _splat(builder, shift))
        _store_row(builder, builder.or_(_load_row(builder, target), row), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def pack_high_row(typing_context: Any, source: Any, high: Any, shift: Any, target: Any) -> Any:
    """target |= (source & high) >> shift, for 16 words; `shift` < 64."""
    signature = types.void(types.int64, types.uint64, types.uint64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, high, shift, target = arguments
        row = builder.and_(_load_row(builder, source), _splat(builder, high))
        row = builder.lshr(row, _splat(builder, shift))
        _store_row(builder, builder.or_(_load_row(builder, target), row), target)
        return context.get_dummy_value()

    return signature, generate


_ELEMENTS = {
    "u8": types.uint8,
    "u16": types.uint16,
    "u32": types.uint32,
    "u64": types.uint64,
    "i8": types.int8,
    "i16": types.int16,
    "i32": types.int32,
    "i64": types.int64,
    "f32": types.float32,
    "f64": types.float64,
}

FUNCTIONS = {f"pointer_{name}": _pointer_to(element) for name, element in _ELEMENTS.items()} | {
    "copy_bytes": copy_bytes,
    "unpack_row": unpack_row,
    "unpack_split_row": unpack_split_row,
    "pack_row": pack_row,
    "pack_high_row": pack_high_row,
}
