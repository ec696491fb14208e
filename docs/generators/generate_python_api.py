"""Writes the table of all verbs into `docs/reference/python/index.md`, from the other pages of the folder.

`python docs/generators/generate_python_api.py` writes; with `--check` it fails if the page is out of date. The pages
name what they describe in directives of mkdocstrings, such as `::: lance_spark.Dataset.scan`.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from cells import cell
from generated_page import main

import lance_spark

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "python"
PAGE = FOLDER / "index.md"
PLANNING = "dataset-planning.md"
"""The page of verbs that only planners use, which the table leaves out."""

_DIRECTIVE = re.compile(r"^::: (lance_spark\.\S+)", re.MULTILINE)


def described() -> dict[str, list[str]]:
    """The pages that describe each name."""
    pages: dict[str, list[str]] = {}
    for page in sorted(FOLDER.glob("*.md")):
        for name in _DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            pages.setdefault(name, []).append(page.name)
    return pages


def public(kind: type) -> list[str]:
    """The names of a class that do not begin with an underscore."""
    return [name for name in dir(kind) if not name.startswith("_")]


def is_shared(name: str) -> bool:
    """Whether a partitioned table has a verb of `Dataset` with the same description."""
    own, other = lance_spark.PartitionedDataset, lance_spark.Dataset
    if not (hasattr(own, name) and hasattr(other, name)):
        return False
    return inspect.getdoc(getattr(own, name)) == inspect.getdoc(getattr(other, name))


def table() -> str:
    """The table in Markdown: a row for each verb and attribute of `Dataset`."""
    pages = described()
    rows = [
        f"| {_link('Dataset', name)} | {cell(_summary(name))} | {_partitioned(name, pages)} |"
        for name in public(lance_spark.Dataset)
        if pages.get(f"lance_spark.Dataset.{name}") != [PLANNING]
    ]
    return "\n".join(["| name | purpose | partitioned |", "|---|---|---|", *rows])


def _partitioned(name: str, pages: dict[str, list[str]]) -> str:
    if is_shared(name):
        return "the same"
    own = getattr(lance_spark.PartitionedDataset, name, None)
    if f"lance_spark.PartitionedDataset.{name}" not in pages:
        return "-"
    if (inspect.getdoc(own) or "").startswith("Raises `UnsupportedFeatureError`"):
        return "-"
    return _link("PartitionedDataset", name)


def _link(kind: str, name: str) -> str:
    return f"[`{name}`][lance_spark.{kind}.{name}]"


def _summary(name: str) -> str:
    """The first sentence about a verb of `Dataset`."""
    text = inspect.getdoc(getattr(lance_spark.Dataset, name)) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.match(r"(?:`[^`]*`|[^`])*?[.:](?= |$)", paragraph.replace("``", "`"))
    return sentence[0].rstrip(":.") + "." if sentence else paragraph


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, table()))
