"""Code blocks of Markdown documents: found, run in order, and compared with the output that is shown below them.

A ``python`` or ``sql`` block is run. A ``text`` block right below it is what it must print; ``...`` stands for anything
there, and runs of white space and lines of tables are alike, however wide: times end with their last digit that is not
zero. Statements of a ``sql`` block are separated by semicolons; what is compared is
what the last one shows. Blocks of one document share their variables, and ``/data`` is a folder of the document's own.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Collection
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]*)"')
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_LANGUAGES = frozenset({"python", "sql"})
_SHOWN_ROWS = 40


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        line: of its first line of code, counted from 1.
        shown: the output that the document shows, None if it shows none.
        title: of the block, such as ``title="job.py"``; None if it has none.
    """

    line: int
    language: str
    code: str
    shown: str | None
    title: str | None = None


def blocks(document: str, languages: Collection[str] = _LANGUAGES) -> list[Block]:
    """The blocks of `document` in these languages, in order; all that are run if none are given."""
    fences = list(_FENCE.finditer(document))
    found = []
    for fence, following in zip_longest(fences, fences[1:]):
        if fence[1] not in languages:
            continue
        title = _TITLE.search(fence[2])
        shown = following and following[1] == "text" and not document[fence.end() : following.start()].strip()
        line = document.count("\n", 0, fence.start(3)) + 1
        output = following[3] if following and shown else None
        found.append(Block(line, fence[1], fence[3], output, title[1] if title else None))
    return found


def run(path: Path, document: str, spark: Any, data: Path) -> None:
    """Runs the blocks of a document.

    Raises:
        AssertionError: a block prints something other than what the document shows.
    """
    names: dict[str, Any] = {"spark": spark, "__name__": "document"}
    differences = []
    for block in blocks(document):
        code = block.code.replace("/data", str(data))
        place = f"{path.name}:{block.line}"
        printed = _run_sql(spark, code) if block.language == "sql" else _run_python(place, code, names)
        if block.shown is not None:
            differences += difference(place, block.shown.replace("/data", str(data)), printed)
    assert not differences, "\n".join(differences)


def difference(place: str, shown: str, printed: str) -> list[str]:
    """What is wrong with an output; nothing if it is what a document shows."""
    if doctest.OutputChecker().check_output(_narrow(shown), _narrow(printed), _FLAGS):
        return []
    return [f"{place} shows\n{shown}\nbut prints\n{printed}"]


def _narrow(text: str) -> str:
    """`text` with tables whose columns are as narrow as can be."""
    return re.sub(r" +(?=\|)", "", re.sub(r"-{2,}", "-", text))


def _run_python(place: str, code: str, names: dict[str, Any]) -> str:
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, place, "exec"), names)
    return printed.getvalue()


def _run_sql(spark: Any, code: str) -> str:
    printed = ""
    for statement in statements(code):
        result = spark.sql(statement)
        with redirect_stdout(StringIO()) as output:
            if result.columns:
                result.show(_SHOWN_ROWS, truncate=False)
        printed = output.getvalue()
    return printed


def statements(code: str) -> list[str]:
    """The statements of a script: split at semicolons outside of quotes and comments."""
    pieces, start = [], 0
    for token in re.finditer(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|;", code, re.DOTALL):
        if token[0] == ";":
            pieces.append(code[start : token.start()])
            start = token.end()
    pieces.append(code[start:])
    return [piece.strip() for piece in pieces if re.sub(r"--[^\n]*|/\*.*?\*/", "", piece, flags=re.DOTALL).strip()]
