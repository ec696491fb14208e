"""Memory of arrays that kernels make, in place of numba's runtime, which needs numba.

numba's code takes a block with a head (`MemInfo`, numba/core/runtime/nrt.cpp): counter of references, destructor and
its argument, address of the data, their size, allocator. It reads counter and address itself and calls two functions,
which are defined here with C's `malloc` and `free`.
"""

from __future__ import annotations

from llvmlite import ir

_BYTE, _INT, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _BYTE.as_pointer()
_HEAD_BYTES = 48
_REFERENCES, _DATA = 0, 3
"""Words of the head that are not 0."""

FUNCTIONS = ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor")


def memory_module() -> ir.Module:
    """A module that defines both functions."""
    module = ir.Module()
    allocate = ir.Function(module, ir.FunctionType(_POINTER, [_LONG]), "malloc")
    release = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER]), "free")
    _define_allocation(module, allocate)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER]), FUNCTIONS[1])
    builder = ir.IRBuilder(function.append_basic_block())
    builder.call(release, [function.args[0]])
    builder.ret_void()
    return module


def _define_allocation(module: ir.Module, allocate: ir.Function) -> None:
    """``(size, alignment)`` to a head with one reference; NULL without memory, which numba makes an error of."""
    function = ir.Function(module, ir.FunctionType(_POINTER, [_LONG, _INT]), FUNCTIONS[0])
    builder = ir.IRBuilder(function.append_basic_block())
    size, alignment = function.args[0], builder.zext(function.args[1], _LONG)
    room = builder.add(builder.add(size, alignment), _LONG(_HEAD_BYTES))
    head = builder.call(allocate, [room])
    with builder.if_then(builder.icmp_unsigned("!=", head, _POINTER(None))):
        words = builder.bitcast(head, _LONG.as_pointer())
        start = builder.add(builder.ptrtoint(head, _LONG), _LONG(_HEAD_BYTES))
        data = builder.add(start, builder.urem(builder.sub(_LONG(0), start), alignment))
        for place in range(_HEAD_BYTES // 8):
            value = {_REFERENCES: _LONG(1), _DATA: data}.get(place, _LONG(0))
            builder.store(value, builder.gep(words, [_LONG(place)]))
    builder.ret(head)
