"""Words that `docs/how-it-works/glossary.md` replaced do not come back: in comments, docstrings, messages and pages."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

REFUSED = {
    r"\banew\b": "again",
    r"\brivals?\b": "concurrent transaction, other writers",
    r"\btold\b": "is reported, is passed, is identified by, is distinguished from",
    r"\bgo(?:es)? together\b|\bgoes with\b": "conflicts with, is removed with",
    r"\b(?:rows|partitions) to come\b": "future rows",
    r"\b(?:is|are|have|those) to go\b|\bwould (?:have to )?go\b": "is to be deleted, would be removed",
    r"\brows? given by\b|\bgiven out\b|\bgiven ever\b|\bever given\b|\bas they were given\b": "identified by, assigned",
    r"\bread whole\b": "read completely",
    r"\bwhat (?:a task|tasks|workers) tells?\b": "task results",
    r"\brows that (?:go|come|stay)\b": "deleted rows, added rows, unchanged rows",
    r"\b(?:versions?|readers?|branches) of the whole\b": "versions of the partitioned table",
    r"\bone that is none\b": "no match",
    r"\bfor want of\b": "without",
    r"\bis no matter\b": "does not matter",
    r"^\W*so many\b": "the number of",
    r"\bstand-ins?\b": "placeholder columns",
    r"\bkeys of keys\b(?!\")": "transitive pruning",
    r"\bgone\b": "was removed, was deleted, no longer exists",
    r"\bmakes? no sense\b": "is invalid",
    r"\bso many\b": "this many, the number of",
    r"\bit is (?-i:none)\b|\bnone's\b": "is not one",
    r"\b(?:only|which|that) tells\b": "reports, says, has",
}
"""Patterns, and what to say."""

INDIRECT = ("What", "How", "Where", "As", "Those", "Of", "By")
"""Words that begin an indirect question or a fragment, not a sentence about a thing or an action."""


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
        [
            "git",
            "ls-files",
            "lance_spark/*.py",
            "*.java",
            "docs/*.md",
            "SECURITY.md",
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return [name for name in listed.stdout.split() if "_pb2" not in name and name != "docs/how-it-works/glossary.md"]


@cache
def all_texts() -> list[tuple[str, int, str]]:
    """(file, line, text) of all files."""
    return [(name, line, text) for name in files() for line, text in texts(ROOT / name)]


@pytest.mark.parametrize("pattern", REFUSED)
def test_private_words_do_not_come_back(pattern: str) -> None:
    if not all_texts():
        pytest.skip("there is no git checkout to list the files of")
    found = [
        f"{name}:{line + text[: match.start()].count(chr(10))}: {match.group()!r}"
        for name, line, text in all_texts()
        for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)
    ]
    assert not found, f"say {REFUSED[pattern]}:\n" + "\n".join(found)


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    indirect = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "lance_spark").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if (text := ast.get_docstring(node)) and text.split(None, 1)[0] in INDIRECT
    ]
    assert not indirect, "say what it is or does:\n" + "\n".join(indirect)
