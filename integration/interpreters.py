"""Python interpreters of this machine: on the PATH, and those that pyenv keeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROBE = """
import ensurepip, json, sys, venv
print(json.dumps([*sys.version_info[:3], sys.version_info.releaselevel == "final"]))
"""
_FIRST_MINOR, _MINORS = 10, 20


@dataclass(frozen=True, order=True)
class Interpreter:
    """A released Python that can make virtual environments."""

    version: tuple[int, int, int]
    path: str

    @property
    def minor(self) -> str:
        """Its version as in ``3.10``."""
        return "{}.{}".format(*self.version)


def own() -> Interpreter:
    """The one that runs this."""
    return Interpreter(sys.version_info[:3], sys.executable)


def interpreters() -> list[Interpreter]:
    """One of each minor version, the newest last: its newest release, or the one that runs this."""
    by_minor: dict[str, Interpreter] = {}
    for path in _places():
        interpreter = _probed(path)
        if interpreter is not None:
            by_minor[interpreter.minor] = max(interpreter, by_minor.get(interpreter.minor, interpreter))
    by_minor[own().minor] = own()
    return sorted(by_minor.values())


def _places() -> Iterator[str]:
    for minor in range(_FIRST_MINOR, _FIRST_MINOR + _MINORS):
        path = shutil.which(f"python3.{minor}")
        if path is not None:
            yield path
    for root in _pyenv_roots():
        yield from map(str, sorted((root / "versions").glob("3.*/bin/python")))


def _pyenv_roots() -> list[Path]:
    if "PYENV_ROOT" in os.environ:
        return [Path(os.environ["PYENV_ROOT"])]
    if shutil.which("pyenv") is None:
        return []
    done = subprocess.run(["pyenv", "root"], capture_output=True, text=True)
    return [] if done.returncode else [Path(done.stdout.strip())]


def _probed(path: str) -> Interpreter | None:
    """None for what is no Python that can make environments: shims of pyenv for versions that are not chosen, too."""
    try:
        done = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True)
    except OSError:
        return None
    if done.returncode:
        return None
    major, minor, micro, is_final = json.loads(done.stdout)
    return Interpreter((major, minor, micro), path) if is_final and (major, minor) >= (3, _FIRST_MINOR) else None
