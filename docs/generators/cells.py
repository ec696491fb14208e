"""Text of the code as cells of tables in Markdown."""

from __future__ import annotations

import re

_UNDERSCORE_NAME = re.compile(r"(?<![\w`.])_[a-z_]+")


def cell(text: str) -> str:
    """`text` with names such as ``_rowid`` as code, and without the character that ends a cell.

    >>> cell("adds _rowid | _score")
    'adds `_rowid` \\\\| `_score`'
    """
    return _UNDERSCORE_NAME.sub(lambda name: f"`{name[0]}`", text).replace("|", "\\|")
