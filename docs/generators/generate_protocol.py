"""Writes the table of requests into `docs/how-it-works/protocol.md`, from Python handlers and the Java sources.

`python docs/generators/generate_protocol.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

from generated_page import main

from lance_spark.spark.connector.channel.registry import Reply, known_operations
from lance_spark.spark.jvm import build

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-it-works" / "protocol.md"

_METHOD = re.compile(r"^  (?! |@|return )(?:[\w<>\[\],?.]+ )*(\w+)\(")
"""A declaration in a top-level class: indented by two spaces."""

_REQUEST = re.compile(r'"([a-z_]+\.[a-z_]+)"')


def callers() -> dict[str, list[str]]:
    """The Java methods that name each operation, as `Class.method`."""
    operations = known_operations()
    found: dict[str, list[str]] = {}
    for path in build.sources(build.MINORS[-1]):
        method = "?"
        for line in path.read_text().splitlines():
            declared = _METHOD.match(line)
            method = declared[1] if declared else method
            for name in _REQUEST.findall(line):
                # Constants before the first method are no requests.
                if name in operations and method != "?":
                    found.setdefault(name, []).append(f"{path.stem}.{method}")
    return found


def table() -> str:
    """The table in Markdown: operation, callers, handler, request, reply."""
    called = callers()
    lines = ["| request | sent by (Java) | answered by (Python) | arguments | reply |", "|---|---|---|---|---|"]
    for name, operation in sorted(known_operations().items()):
        module = operation.handler.__module__.removeprefix("lance_spark.spark.connector.")
        returns = get_type_hints(operation.handler)["return"]
        cells = (
            f"`{name}`",
            ", ".join(f"`{caller}`" for caller in sorted(set(called.get(name, [])))) or "-",
            f"`{module}.{operation.handler.__name__}`",
            _described(operation.request),
            "body and attachments" if returns is Reply else _described(returns),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _described(kind: type) -> str:
    names = ", ".join(field.name for field in fields(kind)) if is_dataclass(kind) else ""
    return f"`{kind.__name__}`" + (f": {names}" if names else "")


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, table()))
