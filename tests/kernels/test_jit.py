from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lance_spark.kernels import jit
from lance_spark.kernels.jit import kernel, pointer_u8


@kernel("int64(int64)")
def _three_times(number):
    return number * 3


def test_a_kernel_compiles_at_its_first_call() -> None:
    assert _three_times(5) == 15
    assert _three_times.compiled().signatures


@pytest.mark.slow
def test_machine_code_on_disk_is_not_taken_for_that_of_a_changed_helper(tmp_path: Path) -> None:
    caller = "from lance_spark.kernels.jit import kernel\nfrom helper import add, STEP\n"
    caller += "@kernel('int64(int64)')\ndef call(number):\n    return add(number) + STEP\n"
    (tmp_path / "caller.py").write_text(caller)
    code = "import caller; print(caller.call(1), caller.call.compiled().stats.cache_hits.total())"

    def run(operation: str, step: int) -> str:
        helper = (
            f"from lance_spark.kernels.jit import inlined\n@inlined\ndef add(number):\n    return number {operation}\n"
        )
        (tmp_path / "helper.py").write_text(f"{helper}STEP = {step}\n")
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, check=True, capture_output=True, env=environment, text=True).stdout.strip()

    assert run("+ 1", 10) == "12 0"
    assert run("+ 2", 20) == "23 0"
    assert run("+ 1", 10) == "12 1"


def test_pointers_are_for_kernels_only() -> None:
    with pytest.raises(TypeError, match="inside a kernel"):
        pointer_u8(0)


def test_importing_codecs_and_layouts_does_not_import_numba() -> None:
    code = "import lance_spark.encodings, lance_spark.layouts.registry, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_that_others_can_write_to_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"lance_spark_numba_{os.getuid()}"
    assert jit._private_folder() == str(folder)
    folder.chmod(0o777)
    assert jit._private_folder() is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert jit._private_folder() is None


def test_nothing_can_be_cached_and_kernels_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_private_folder", lambda: None)
    compiled = _three_times._compile_with_temporary_cache(_three_times._with_compiled_globals())
    assert compiled(7) == 21


def test_too_little_address_space_is_an_error_before_the_compiler_is_loaded() -> None:
    """Loading it then ends the process, or never ends; the limit is what Spark sets for its Python workers."""
    code = """
import resource
from pathlib import Path
from lance_spark.kernels import jit
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (300 << 20), taken + (300 << 20)))
try:
    jit.import_compiler()
except MemoryError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert "of address space" in result.stdout


_KEPT = {"held.setdefault", "code_classes"}
"""Calls whose arrays somebody keeps."""


def test_no_address_is_of_an_array_that_nobody_keeps() -> None:
    """`address_of(np.array(...))` is the address of memory that is free again before a kernel reads it."""
    package = Path(jit.__file__).parents[1]
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
