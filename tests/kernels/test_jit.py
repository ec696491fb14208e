from __future__ import annotations

import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lance_spark.errors import StorageError
from lance_spark.kernels import machine_code, target, warm
from lance_spark.kernels.jit import address_of, kernel, pointer_u8
from lance_spark.kernels.slices import order_within
from lance_spark.kernels.warm import all_kernels

ROOT = Path(__file__).parents[2]


@kernel("int64(int64)")
def _three_times(number):
    return number * 3


@kernel("float64(float64, int64)")
def _scaled(number, factor):
    return number * factor


@kernel("boolean(int64)")
def _is_odd(number):
    return number % 2 == 1


@kernel("void(int64, int64)")
def _set_byte(address, value):
    pointer_u8(address)[0] = value


@kernel("int64(uint64)")
def _high_bit(number):
    return number >> 63


@kernel("int64(int64, int64)")
def _raises(first, second):
    if second == 0:
        raise ValueError("zero")
    return first // second


@kernel("int64(int64)")
def _sum_of_squares(size):
    squares = np.empty(size, np.int64)
    for i in range(size):
        squares[i] = i * i
    return squares.sum()


def test_a_kernel_takes_and_gives_numbers() -> None:
    assert _three_times(5) == 15
    assert _three_times(np.int64(-7)) == -21
    assert _scaled(1.5, 4) == 6.0
    assert (_is_odd(3), _is_odd(4)) == (True, False)
    assert (_high_bit(2**63), _high_bit(2**63 - 1)) == (1, 0)
    data = np.zeros(2, np.uint8)
    assert _set_byte(address_of(data), 200) == 0
    assert data.tolist() == [200, 0]


@pytest.mark.parametrize("arguments", [(), (1, 2), ("1",), (1.5,), (None,), (2**63,)])
def test_other_arguments_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, OverflowError)):
        _three_times(*arguments)
    assert _three_times(-1) == -3, "-1 is what Python's functions return for an error"


def test_a_kernel_that_raises_is_refused() -> None:
    with pytest.raises(TypeError, match="kernels raise no exceptions"):
        _raises(14, 2)


def test_threads_run_kernels_at_the_same_time() -> None:
    rows = np.arange(4_000_000)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: order_within(address_of(rows), len(rows), len(rows)), range(8)))
    assert len(set(found)) == 1


@pytest.mark.slow
def test_machine_code_on_disk_is_not_taken_for_that_of_a_changed_helper(tmp_path: Path) -> None:
    caller = "from lance_spark.kernels.jit import kernel\nfrom helper import add, STEP\n"
    caller += "@kernel('int64(int64)')\ndef call(number):\n    return add(number) + STEP\n"
    (tmp_path / "caller.py").write_text(caller)
    code = "import caller, sys; print(caller.call(1), 'numba' in sys.modules)"

    def run(operation: str, step: int) -> str:
        helper = (
            f"from lance_spark.kernels.jit import inlined\n@inlined\ndef add(number):\n    return number {operation}\n"
        )
        (tmp_path / "helper.py").write_text(f"{helper}STEP = {step}\n")
        return _run(code, tmp_path, PYTHONDONTWRITEBYTECODE="1", LANCE_SPARK_KERNEL_CACHE=str(tmp_path / "objects"))

    assert run("+ 1", 10) == "12 True"
    assert run("+ 2", 20) == "23 True"
    assert run("+ 1", 10) == "12 False"


@pytest.mark.slow
def test_a_damaged_object_file_is_compiled_again(tmp_path: Path) -> None:
    code = "import sys; from tests.kernels.test_jit import _three_times; print(_three_times(2), 'numba' in sys.modules)"
    objects = tmp_path / "objects"

    def run() -> str:
        return _run(code, ROOT, LANCE_SPARK_KERNEL_CACHE=str(objects))

    assert run() == "6 True"
    (file,) = objects.iterdir()
    whole = file.read_bytes()
    assert run() == "6 False"
    for damaged in (b"", whole[:-1], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        file.write_bytes(damaged)
        assert run() == "6 True"
        assert file.read_bytes() == whole


def test_object_files_of_the_wheel_are_used_where_the_processor_can_run_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = machine_code.file_name(_three_times, target.PORTABLE)
    machine_code.store(tmp_path / "objects" / name, b"of the wheel")
    monkeypatch.setattr(machine_code, "packaged", lambda: tmp_path / "objects")
    monkeypatch.setenv(machine_code.FOLDER, str(tmp_path / "own"))
    monkeypatch.setattr(machine_code, "compiled", lambda _: b"compiled")
    for runs, code in ((True, b"of the wheel"), (False, b"compiled")):
        monkeypatch.setattr(machine_code, "runs_portable_code", lambda runs=runs: runs)
        assert machine_code.object_file(_three_times) == code
    machine_code.store(tmp_path / "own" / machine_code.file_name(_three_times, target.host()), b"own")
    assert machine_code.object_file(_three_times) == b"own"


def test_warming_says_that_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(machine_code.FOLDER, str(tmp_path / "file"))
    monkeypatch.setattr(warm, "all_kernels", lambda: [_three_times])
    with pytest.raises(StorageError, match="name one that can be written by LANCE_SPARK_KERNEL_CACHE"):
        warm.compile_for_this_machine(lambda _: None)
    monkeypatch.setenv(machine_code.FOLDER, str(tmp_path / "folder"))
    assert warm.compile_for_this_machine(lambda _: None) == 1
    assert warm.compile_for_this_machine(lambda _: None) == 0


def test_reading_makes_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert len(list(machine_code._folders())) == 1
    assert list(tmp_path.iterdir()) == []
    assert len(list(machine_code._folders(to_write=True))) == 3


def test_only_kernels_of_other_kernels_have_results_that_python_cannot_take() -> None:
    """Each is compiled at its first call; this says so before."""
    taken = ("int64(", "float64(", "boolean(", "void(")
    assert [found.__name__ for found in all_kernels() if not str(found.signature).startswith(taken)] == []


def test_pointers_are_for_kernels_only() -> None:
    with pytest.raises(TypeError, match="inside a kernel"):
        pointer_u8(0)


def test_importing_codecs_and_layouts_does_not_import_numba() -> None:
    code = "import lance_spark.encodings, lance_spark.layouts.registry, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_that_others_can_write_to_is_no_cache(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    assert not machine_code._is_private(folder, make=False)
    assert machine_code._is_private(folder, make=True)
    folder.chmod(0o777)
    assert not machine_code._is_private(folder, make=True)
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert not machine_code._is_private(folder, make=True)


@pytest.mark.slow
def test_arrays_that_a_kernel_makes_need_no_numba(tmp_path: Path) -> None:
    code = """
import resource, sys
from tests.kernels.test_jit import _sum_of_squares
print(_sum_of_squares(3), _sum_of_squares(0), "numba" in sys.modules)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(500):
    _sum_of_squares(1 << 17)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < 50)
try:
    _sum_of_squares(1 << 60)
except MemoryError:
    print("no memory")
"""
    for numba in (True, False):
        printed = _run(code, ROOT, LANCE_SPARK_KERNEL_CACHE=str(tmp_path / "objects"))
        assert printed.split("\n") == [f"5 0 {numba}", "True", "no memory"]


@pytest.mark.slow
def test_nothing_can_be_cached_and_kernels_run_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code = "from tests.kernels.test_jit import _three_times; print(_three_times(7))"
    assert _run(code, ROOT, LANCE_SPARK_KERNEL_CACHE=str(tmp_path / "file")) == "21"


def _run(code: str, path: Path, **environment: str) -> str:
    variables = os.environ | {"PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))} | environment
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=variables, text=True)
    return result.stdout.strip()


def test_too_little_address_space_is_an_error_before_the_compiler_is_loaded() -> None:
    """Loading it then ends the process, or never ends; the limit is what Spark sets for its Python workers."""
    code = """
import resource
from pathlib import Path
from lance_spark.errors import StorageError
from lance_spark.kernels import machine_code, target, warm
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (200 << 20), taken + (200 << 20)))
try:
    target.llvm()
except MemoryError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert "of address space" in result.stdout


_KEPT = {"held.setdefault", "code_classes"}
"""Calls whose arrays somebody keeps."""


def test_no_address_is_of_an_array_that_nobody_keeps() -> None:
    """`address_of(np.array(...))` is the address of memory that is free again before a kernel reads it."""
    package = Path(machine_code.__file__).parents[1]
    calls = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "address_of"
        and isinstance(node.args[0], (ast.Call, ast.BinOp))
        and not (isinstance(node.args[0], ast.Call) and ast.unparse(node.args[0].func) in _KEPT)
    ]
    assert calls == []
