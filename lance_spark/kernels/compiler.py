"""Machine code of kernels, made with numba.

The result is an object file that needs neither numba nor the same version of Python: the kernel, what it calls, and an
entry for Python, which uses the stable ABI only. `kernels.machine_code` imports this module for a kernel whose object
file is on no disk.
"""

from __future__ import annotations

import types as python_types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import config as numba_config

from lance_spark.kernels import pointers
from lance_spark.kernels.source import KernelSource
from lance_spark.kernels.target import PYTHON_FUNCTIONS, Target

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef

_POINTER, _INT, _LONG, _DOUBLE = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64), ir.DoubleType()
_VOID = ir.VoidType()
_HEAD_BYTES = 48
_REFERENCES, _DATA = 0, 3
"""Words of numba's `MemInfo` that are not 0."""

_MEMORY_FUNCTIONS = ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor")

_C_FUNCTIONS = frozenset({"free", "malloc", "memcpy", "memmove", "memset", "sqrt", "sqrtf"})

_dispatchers: dict[KernelSource, Any] = {}
"""Kernels that numba has compiled in this process, for kernels that call them."""


def compile_kernel(kernel: KernelSource, target: Target) -> bytes:
    """The object file of a kernel, which defines its entry.

    Raises:
        TypeError: Python cannot pass an argument of the signature, or get its result; or it needs numba to run.
        RuntimeError: this process has compiled for another target.
    """
    config: Any = numba_config
    if _dispatchers and (target.cpu, target.features) != (config.CPU_NAME, config.CPU_FEATURES):
        raise RuntimeError("a process compiles for one kind of processor")
    config.CPU_NAME, config.CPU_FEATURES = target.cpu, target.features
    (result,) = _dispatcher(kernel).overloads.values()
    _, _, bitcode = result.library.serialize_using_bitcode()
    module = binding.parse_bitcode(bitcode)
    machine = target.machine()
    parts = [_entry(result, kernel)]
    if _declared(module) & {*_MEMORY_FUNCTIONS}:
        parts.append(_memory())
    for part in parts:
        part.triple, part.data_layout = target.triple, str(machine.target_data)
        module.link_in(binding.parse_assembly(str(part)))
    _check_symbols(kernel, module)
    _hide_all_but(kernel.entry, module)
    code: bytes = machine.emit_object(module)
    return code


def _declared(module: ModuleRef) -> set[str]:
    """Functions that a module may call and does not define."""
    return {value.name for value in module.functions if value.is_declaration and not value.name.startswith("llvm.")}


def _check_symbols(kernel: KernelSource, module: ModuleRef) -> None:
    """Refuses functions that are only there when numba is imported, such as those of exceptions."""
    unknown = _declared(module) - {*PYTHON_FUNCTIONS, *_C_FUNCTIONS}
    if unknown:
        raise TypeError(f"kernel {kernel.__name__} uses {', '.join(sorted(unknown))}: kernels raise no exceptions")


def _hide_all_but(entry: str, module: ModuleRef) -> None:
    """numba's names are unique within a process only, and objects of many processes are loaded together."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != entry:
            value.linkage = "internal"


def _dispatcher(kernel: KernelSource) -> Any:
    if kernel not in _dispatchers:
        # A fifth of the compile time: nothing calls kernels from C, or through numba from Python, and rewrites are for
        # expressions of arrays, while kernels work with numbers and raw memory.
        leaner: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, "no_rewrites": True}
        # No promise about NaN and infinity: the results of both are part of what kernels compute.
        fastmath: Any = {"reassoc", "contract", "nsz"} if kernel.reassociate else False
        compiled = numba.njit(kernel.signature, nogil=True, error_model="numpy", fastmath=fastmath, **leaner)
        _dispatchers[kernel] = compiled(_with_compiled_globals(kernel))
    return _dispatchers[kernel]


def _with_compiled_globals(kernel: KernelSource) -> Callable[..., Any]:
    function = kernel.function
    callees = {name: _dispatcher(callee) for name, callee in kernel.callees().items() if callee is not kernel}
    copy = python_types.FunctionType(
        function.__code__,
        function.__globals__ | callees | pointers.FUNCTIONS,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


class _Entry:
    """Writes the function by which Python calls a kernel: ``PyObject *(self, PyObject *const *arguments, number)``."""

    def __init__(self, kernel: KernelSource) -> None:
        self._name = kernel.__name__
        self.module = ir.Module()
        form = ir.FunctionType(_POINTER, [_POINTER, _POINTER.as_pointer(), _LONG])
        self._function = ir.Function(self.module, form, kernel.entry)
        self.builder = ir.IRBuilder(self._function.append_basic_block())

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """A call of a function of Python."""
        known = self.module.globals.get(name)
        if known is None:
            known = ir.Function(self.module, ir.FunctionType(result, [value.type for value in arguments]), name)
        return self.builder.call(known, arguments)

    def fail_if(self, condition: Any, error: str | None = None) -> None:
        """Returns NULL; `error` is a function of Python that sets the error, if none is set."""
        with self.builder.if_then(condition, likely=False):
            if error is not None:
                self.call(error, _VOID)
            self.builder.ret(_POINTER(None))

    def numbers(self, forms: tuple[Any, ...]) -> list[Any]:
        """The arguments as numbers of the kernel's types."""
        _, values, given = self._function.args
        self.fail_if(self.builder.icmp_signed("!=", given, _LONG(len(forms))), "PyErr_BadArgument")
        places = (self.builder.gep(values, [_LONG(place)]) for place in range(len(forms)))
        return [self._number(form, self.builder.load(place)) for form, place in zip(forms, places, strict=True)]

    def _number(self, form: Any, value: Any) -> Any:
        builder = self.builder
        if form == types.int64:
            number = self.call("PyLong_AsLongLong", _LONG, value)
            suspect = builder.icmp_signed("==", number, _LONG(-1))
        elif form == types.uint64:
            number = self.call("PyLong_AsUnsignedLongLongMask", _LONG, value)
            suspect = builder.icmp_signed("==", number, _LONG(-1))
        elif form in (types.float32, types.float64):
            number = self.call("PyFloat_AsDouble", _DOUBLE, value)
            suspect = builder.fcmp_ordered("==", number, _DOUBLE(-1.0))
        else:
            raise TypeError(f"an argument of kernel {self._name} is {form}: only other kernels can call it")
        with builder.if_then(suspect, likely=False):
            self.fail_if(builder.icmp_unsigned("!=", self.call("PyErr_Occurred", _POINTER), _POINTER(None)))
        return builder.fptrunc(number, ir.FloatType()) if form == types.float32 else number

    def give(self, form: Any, value: Any) -> None:
        """Returns the result; 0 of a kernel without one."""
        if form in (types.int64, types.none):
            result = self.call("PyLong_FromLongLong", _POINTER, _LONG(0) if form == types.none else value)
        elif form == types.boolean:
            result = self.call("PyBool_FromLong", _POINTER, self.builder.zext(value, _LONG))
        elif form == types.float64:
            result = self.call("PyFloat_FromDouble", _POINTER, value)
        else:
            raise TypeError(f"the result of kernel {self._name} is {form}: only other kernels can call it")
        self.builder.ret(result)


def _entry(result: Any, kernel: KernelSource) -> ir.Module:
    entry = _Entry(kernel)
    described, context = result.fndesc, result.target_context
    arguments = entry.numbers(described.argtypes)
    compiled = context.declare_function(entry.module, described)
    thread = entry.call("PyEval_SaveThread", _POINTER)
    status, value = context.call_conv.call_function(
        entry.builder, compiled, described.restype, described.argtypes, arguments
    )
    entry.call("PyEval_RestoreThread", _VOID, thread)
    # Kernels report errors by their result. What is left is an array for which there is no memory.
    entry.fail_if(status.is_error, "PyErr_NoMemory")
    entry.give(described.restype, value)
    return entry.module


def _memory() -> ir.Module:
    """The functions of numba's runtime for arrays that kernels make, without numba: by C's `malloc` and `free`.

    numba's code takes a block with a head (`MemInfo`, numba/core/runtime/nrt.cpp): counter of references, destructor
    and its argument, address of the data, their size, allocator. It reads counter and address itself.
    """
    module = ir.Module()
    allocate = ir.Function(module, ir.FunctionType(_POINTER, [_LONG]), "malloc")
    release = ir.Function(module, ir.FunctionType(_VOID, [_POINTER]), "free")
    _define_allocation(module, allocate)
    function = ir.Function(module, ir.FunctionType(_VOID, [_POINTER]), _MEMORY_FUNCTIONS[1])
    builder = ir.IRBuilder(function.append_basic_block())
    builder.call(release, [function.args[0]])
    builder.ret_void()
    return module


def _define_allocation(module: ir.Module, allocate: ir.Function) -> None:
    """``(size, alignment)`` to a head with one reference; NULL without memory, which numba makes an error of."""
    function = ir.Function(module, ir.FunctionType(_POINTER, [_LONG, _INT]), _MEMORY_FUNCTIONS[0])
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
