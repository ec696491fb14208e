"""Text for terminals and pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO


def escaped(text: object) -> str:
    r"""`text` on one line, with unprintable characters as escapes, so that a table cannot steer a terminal.

    >>> escaped("a\x1b[31m\n")
    'a\\x1b[31m\\n'
    """
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in str(text))


@dataclass
class TreeNode:
    """A line of a tree and the lines below it. The label is escaped when it is printed."""

    label: str
    children: list[TreeNode] = field(default_factory=list)

    def add(self, label: str) -> TreeNode:
        """A new last child."""
        child = TreeNode(label)
        self.children.append(child)
        return child


def print_tree(root: TreeNode, out: TextIO) -> None:
    """Prints a tree: in colour if `out` is a terminal and rich is installed, else as indented plain text."""
    if out.isatty():
        try:
            from rich.console import Console
            from rich.text import Text
            from rich.tree import Tree
        except ImportError:
            pass
        else:

            def build(node: TreeNode, depth: int) -> Tree:
                tree = Tree(Text(escaped(node.label), style=("bold cyan", "green", "")[min(depth, 2)]))
                tree.children.extend(build(child, depth + 1) for child in node.children)
                return tree

            Console(file=out).print(build(root, 0))
            return
    _print_plain(root, 0, out)


def _print_plain(node: TreeNode, depth: int, out: TextIO) -> None:
    out.write(f"{'  ' * depth}{escaped(node.label)}\n")
    for child in node.children:
        _print_plain(child, depth + 1, out)


def print_json(document: Any, out: TextIO) -> None:
    """Prints one JSON document. It is ASCII, so control characters of a table are escaped too."""
    out.write(json.dumps(document, indent=2) + "\n")


def progress_to(err: TextIO) -> Callable[[str], None]:
    """Shows how far a command is: rewrites one line of `err` if that is a terminal, else does nothing."""
    if not err.isatty():
        return lambda text: None

    def show(text: str) -> None:
        err.write(f"\r\x1b[K{escaped(text)}")
        err.flush()

    return show


def columns_of(rows: Sequence[Sequence[object]]) -> list[str]:
    """Rows as lines with aligned columns."""
    texts = [[escaped("" if cell is None else cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts]


def print_error(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"error: {escaped(text)}\n")
