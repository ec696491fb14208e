"""A picture of a terminal in which `python -m lance_spark inspect` has run."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import lance_spark

INSPECT = "inspect.svg"

_TABLE = "orders.lance"
_COMMAND = ("-m", "lance_spark", "inspect", _TABLE, "--pages")
_COLUMNS = 94

_SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px }}
.{unique_id}-title {{ display: none }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""The document that rich makes, without fonts of another host."""


def write(folder: Path) -> None:
    """Writes the picture into the folder."""
    with tempfile.TemporaryDirectory() as place:
        _make_table(Path(place))
        output = _printed(Path(place))
    console = Console(record=True, width=_COLUMNS, file=StringIO())
    console.print(Text(f"$ python {' '.join(_COMMAND)}"))
    console.print(Text.from_ansi(output))
    console.print("$")
    picture = console.export_svg(title="", code_format=_SVG, theme=MONOKAI, unique_id="inspect")
    (folder / INSPECT).write_text(picture)


def _make_table(folder: Path) -> None:
    """Makes a table with an index, a tag and deleted rows."""
    count = 5000
    columns = {
        "id": range(count),
        "city": [("Lima", "Oslo", "Rome")[number % 3] for number in range(count)],
        "price": [number % 997 / 4 for number in range(count)],
    }
    rows = pa.table(columns)
    orders = lance_spark.write(rows, folder / _TABLE)
    orders = orders.create_scalar_index("id", "BTREE")
    orders = orders.append(rows.slice(0, 1000))
    orders.create_tag("checked", orders.version)
    orders.delete("price < 10")


def _printed(folder: Path) -> str:
    """The output of the command in a terminal, with its colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"}
    with subprocess.Popen([sys.executable, *_COMMAND], cwd=folder, stdout=theirs, env=environment) as command:
        os.close(theirs)
        printed = b""
        # The end of a terminal whose program has ended is an error.
        while part := _read(ours):
            printed += part
    os.close(ours)
    if command.returncode:
        raise SystemExit(f"inspect ended with {command.returncode}")
    return printed.decode().replace("\r\n", "\n").rstrip()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
