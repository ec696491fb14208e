"""Jupyter notebooks, run by this Python: ``python -m tests.support.notebooks PATH...`` stores their outputs.

Each notebook runs in a kernel of its own and in an empty folder. Nothing is read from or written to the settings of
Jupyter and IPython in the user's home. What a process writes to the standard error, such as Spark's log, is no output.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

CELL_SECONDS = 300
"""The time that a cell may take. A notebook takes less than half a minute on two cores that do nothing else."""

PICTURES = ("image/png", "image/jpeg", "image/svg+xml")
"""Types of outputs that are pictures."""


def execute(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy of a notebook with the outputs of a new run.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raises an error.
    """
    result = nbformat.from_dict(notebook)
    with tempfile.TemporaryDirectory() as folder:
        # Without folders of kernels there is the native one, which is the Python that runs this. Sockets of files need
        # no free ports.
        kernel = AsyncKernelManager(
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
            transport="ipc",
            connection_file=str(Path(folder, "kernel.json")),
        )
        work = Path(folder, "work")
        work.mkdir()
        client = NotebookClient(
            result,
            km=kernel,
            timeout=CELL_SECONDS,
            coalesce_streams=True,
            record_timing=False,
            resources={"metadata": {"path": str(work)}},
        )
        log = Path(folder, "log")
        with log.open("wb") as stderr:
            try:
                client.execute(env=_environment(folder), stderr=stderr, cleanup_kc=True)
            except Exception as error:
                error.add_note(log.read_text(errors="replace")[-4000:])
                raise
    for cell in code_cells(result):
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    result.metadata.language_info = {"name": "python"}  # without its version
    return result


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells with code, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """The text outputs of each code cell: what it prints, and values as plain text."""
    return [
        "".join(
            output.text if "text" in output else output.data.get("text/plain", "")
            for output in cell.outputs
            if output.get("name") != "stderr"
        )
        for cell in code_cells(notebook)
    ]


def pictures(notebook: nbformat.NotebookNode) -> list[int]:
    """The number of pictures of each code cell."""
    return [
        sum(any(kind in output.get("data", {}) for kind in PICTURES) for output in cell.outputs)
        for cell in code_cells(notebook)
    ]


def write(path: Path) -> None:
    """Executes the notebook at `path` and stores its outputs in it."""
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    nbformat.write(execute(notebook), path)


def _environment(folder: str) -> dict[str, str]:
    """The environment of a kernel, whose own files lie in `folder`."""
    return {
        **os.environ,
        "IPYTHONDIR": folder,
        "JUPYTER_CONFIG_DIR": folder,
        "TMPDIR": folder,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "LANCE_SPARK_PROGRESS": "0",
    }


def main(paths: Sequence[str]) -> None:
    """Stores the outputs of the notebooks at `paths`, one after the other."""
    for path in paths:
        write(Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])
