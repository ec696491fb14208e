"""Writes the table of `docs/reference/errors.md`: the error conditions of the connector.

`python docs/generators/generate_errors.py` writes; with `--check` it fails if the page is out of date. Conditions are
those that the Python code and the Java sources name; each has a section, whose first sentence is its meaning.
"""

from __future__ import annotations

import re
from pathlib import Path

from generated_page import main

from lance_spark import errors
from lance_spark.spark.connector.channel import conditions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
JAVA = ROOT / "lance_spark" / "spark" / "jvm"

_NAME = re.compile(r'"(LANCE_[A-Z_]+)"')
_STATE = re.compile(r'"([0-9A-Z]{5})"')
_SECTION = re.compile(r"^## (LANCE_\w+)\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def states() -> dict[str, str]:
    """The SQLSTATE of each condition."""
    found = dict([*conditions._CONDITIONS.values(), conditions._OUT_OF_MEMORY])
    for path in sorted(JAVA.rglob("*.java")):
        text = path.read_text(encoding="utf-8")
        for name in _NAME.finditer(text):
            state = _STATE.search(text, name.end())
            if name[1] not in found and state is not None:
                found[name[1]] = state[1]
    return found


def classes() -> dict[str, list[str]]:
    """The Python classes of each condition; none for what only the JVM sees."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LanceError)]
    named: dict[str, list[str]] = {name: [] for name in states()}
    for kind in kinds:
        condition, _ = next(conditions._CONDITIONS[base] for base in kind.__mro__ if base in conditions._CONDITIONS)
        named[condition].append(kind.__name__)
    named[conditions._OUT_OF_MEMORY[0]].append("MemoryError")
    return named


def sections() -> dict[str, str]:
    """The text of the page about each condition."""
    return dict(_SECTION.findall(PAGE.read_text(encoding="utf-8")))


def table() -> str:
    """The table in Markdown: condition, SQLSTATE, Python classes, meaning."""
    lines = ["| condition | SQLSTATE | Python class | meaning |", "|---|---|---|---|"]
    described, named = sections(), classes()
    for name, state in sorted(states().items()):
        kinds = ", ".join(f"`{kind}`" for kind in named[name])
        meaning = described[name].partition(".\n")[0].replace("\n", " ") if name in described else "?"
        lines.append(f"| [`{name}`](#{name.lower()}) | {state} | {kinds} | {meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, table()))
