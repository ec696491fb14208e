"""Follows a page of the documentation as its reader does: commands, programs and Python code, in order, in one folder.

The first line of a block says what the reader does with it::

    ```sh                         runs it in a shell; variables and an activated environment stay for later blocks
    ```sh title="Not tested: ..." skips it, for the reason that the page shows
    ```python                     runs it in the one Python that the page starts
    ```python title="NAME"        saves it as the file NAME
    ```text                       right below a block that runs: compares what that block has printed

Blocks of other languages are for reading only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from tests.docs.blocks import Block, blocks, difference

NOT_TESTED = "Not tested: "
"""Begin of the title of a command that is skipped."""

_END = "\x1e"
_END_SECONDS = 60.0

# Executes blocks of code from standard input, one as a JSON text on each line, in one namespace.
_PYTHON = """
import json, sys
for line in iter(sys.stdin.readline, ""):
    place, code = json.loads(line)
    exec(compile(code, place, "exec"), sys.modules["__main__"].__dict__)
    print("\\x1e", flush=True)
"""


def steps(document: str) -> list[Block]:
    """The commands, programs and Python code of a page, in order, without those that are skipped."""
    return [block for block in blocks(document, ("sh", "python")) if not (block.title or "").startswith(NOT_TESTED)]


def clean_environment(home: Path, python: Path) -> dict[str, str]:
    """Variables of a user who has nothing of this project, with an empty home and `python`'s folder on the path.

    Downloads of pip are shared with other users of the machine; the address of Spark is a fact of the machine.
    """
    ours = ("PYTHON", "PYSPARK", "SPARK", "LANCE", "VIRTUAL_ENV", "CI", "XDG_", "AWS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    cache = os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
    environment = os.environ.get("VIRTUAL_ENV", "")
    folders = [part for part in kept["PATH"].split(os.pathsep) if not environment or not part.startswith(environment)]
    address = {name: os.environ[name] for name in ("SPARK_LOCAL_IP",) if name in os.environ}
    own = {"HOME": str(home), "PIP_CACHE_DIR": cache, "PATH": os.pathsep.join([str(python.parent), *folders])}
    return {**kept, **address, **own}


class Reader:
    """Somebody at a terminal; the end of a `with` block ends all that was started there.

    Args:
        folder: where the reader works.
        environment: the variables; those that commands export are added.
        ports: port of the page -> a free port of this machine.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], ports: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self._ports = dict(ports or {})
        self._logs = folder / "logs-of-the-reader"
        self._logs.mkdir(exist_ok=True)
        self._shells: list[int] = []
        self._python: subprocess.Popen[str] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._python is not None:
            self._shells.append(self._python.pid)
        for group in reversed(self._shells):
            _end(group)
        if self._python is not None:
            self._python.wait()

    def follow(self, name: str, todo: Iterable[Block]) -> None:
        """Takes the steps of the page `name`.

        Raises:
            AssertionError: a step fails, or prints something other than what the page shows.
        """
        differences = []
        for step in todo:
            place = f"{name}:{step.line}"
            code = self.with_ports(step.code)
            if step.title is not None:
                file = self.folder / step.title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(code)
                continue
            printed = self.shell(code, place) if step.language == "sh" else self.python(code, place)
            if step.shown is not None:
                differences += difference(place, self.with_ports(step.shown), printed)
        assert not differences, "\n".join(differences)

    def with_ports(self, text: str) -> str:
        """The text of a page with the ports of this machine."""
        for port, free in self._ports.items():
            text = text.replace(port, free)
        return text

    def shell(self, code: str, place: str) -> str:
        """What commands print. Programs that they start in the background go on."""
        state, out, err = (self._logs / name for name in ("state", "out", "err"))
        with out.open("w") as printed, err.open("w") as errors:
            commands = f"set -ea\n{code}\nenv -0 > '{state}'"
            process = self._start(["bash", "-c", commands], stdin=subprocess.DEVNULL, stdout=printed, stderr=errors)
            self._shells.append(process.pid)
            status = process.wait()
        assert status == 0, f"{place} fails:\n{out.read_text()[-3000:]}\n{err.read_text()[-6000:]}"
        variables = state.read_text().rstrip("\0").split("\0")
        self.environment = dict(variable.split("=", 1) for variable in variables)
        return out.read_text()

    def python(self, code: str, place: str) -> str:
        """What code prints in the Python that the first such block of a page starts."""
        errors = self._logs / "python-err"
        if self._python is None:
            program = shutil.which("python", path=self.environment["PATH"])
            assert program is not None, f"{place} needs a python on the PATH"
            with errors.open("w") as log:
                pipe = subprocess.PIPE
                self._python = self._start([program, "-c", _PYTHON], stdin=pipe, stdout=pipe, stderr=log)
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        with suppress(BrokenPipeError):
            self._python.stdin.write(json.dumps([place, code]) + "\n")
            self._python.stdin.flush()
        printed = ""
        for line in self._python.stdout:
            if line == f"{_END}\n":
                return printed
            printed += line
        raise AssertionError(f"{place} fails:\n{printed[-3000:]}\n{errors.read_text(errors='replace')[-6000:]}")

    def _start(self, command: Sequence[str], **streams: int | TextIO) -> subprocess.Popen[str]:
        """A process in the reader's folder, the first one of a group of its own."""
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, start_new_session=True, text=True, **streams
        )


def _end(group: int) -> None:
    """Ends the processes of a process group, most of which are not children of this process."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            try:
                os.killpg(group, number)
            except ProcessLookupError:
                return
            with suppress(ChildProcessError):
                os.waitpid(group, os.WNOHANG)
            time.sleep(0.2)
