"""Words that `docs/glossary.md` replaced do not come back: in comments, docstrings, messages and pages."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

REFUSED = {
    r"\banew\b": "again",
    r"\brivals?\b": "concurrent transaction, other writers",
    r"\b(?:is|are|was|were|has|have|had|been) told(?! (?:apart|from))\b": "is reported, is passed, says",
    r"\bcannot be told(?! (?:apart|from))\b": "cannot be identified, is not known",
    r"\bwhat (?:a task|tasks|workers) tells?\b": "task results",
    r"\brows that (?:go|come|stay)\b": "deleted rows, added rows, unchanged rows",
    r"\b(?:versions?|readers?|branches) of the whole\b": "versions of the partitioned table",
    r"\bone that is none\b": "no match",
    r"\bfor want of\b": "without",
    r"\bis no matter\b": "does not matter",
    r"^\W*so many\b": "the number of",
    r"\bstand-ins?\b": "placeholder columns",
    r"\bkeys of keys\b(?!\")": "transitive pruning",
}
"""Patterns, and what to say."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what people read in a file: not names of the code."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".java":
        for found in re.finditer(r"//[^\n]*|/\*.*?\*/", content, re.DOTALL):
            yield content[: found.start()].count("\n") + 1, found.group()
    elif path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.start[0], token.string
    else:
        yield 1, content


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "lance_spark/*.py", "*.java", "docs/*.md", "README.md", "CONTRIBUTING.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return [name for name in listed.stdout.split() if "_pb2" not in name and name != "docs/glossary.md"]


@pytest.mark.parametrize("pattern", REFUSED)
def test_private_words_do_not_come_back(pattern: str) -> None:
    names = files()
    if not names:
        pytest.skip("there is no git checkout to list the files of")
    found = [
        f"{name}:{line + text[: match.start()].count(chr(10))}: {match.group()!r}"
        for name in names
        for line, text in texts(ROOT / name)
        for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)
    ]
    assert not found, f"say {REFUSED[pattern]}:\n" + "\n".join(found)
