"""Builds the site from the pages of `docs`, pages of the repository's root and the notebooks of `examples`.

`python docs/generators/site.py` writes `build/site`. A warning is an error: a link to a page or a heading that is not
there, a page that the navigation does not list.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib
import yaml

from lance_spark.spark.jvm.build import MINORS

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PAGES = BUILD / "pages"
SITE = BUILD / "site"
REPOSITORY = {
    "CONTRIBUTING.md": "develop/contributing.md",
    "CHANGELOG.md": "develop/changelog.md",
    "SECURITY.md": "operate/reporting.md",
}
"""Pages of the root, by their place in the site."""

UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""The header of design notes: a search shall find what users need."""

VERSIONS = "LANCE_SITE_VERSIONS"
"""The environment variable from which mkdocs.yml takes the text at the bottom of each page."""

_LINK = re.compile(r"(\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def places() -> dict[str, str]:
    """The place in the site of each file of the repository that it shows."""
    docs = ROOT / "docs"
    files = [file for file in docs.rglob("*") if file.is_file() and "generators" not in file.relative_to(docs).parts]
    found = {file.relative_to(ROOT).as_posix(): file.relative_to(docs).as_posix() for file in sorted(files)}
    found |= REPOSITORY
    for notebook in sorted((ROOT / "examples").rglob("*.ipynb")):
        found[notebook.relative_to(ROOT).as_posix()] = f"notebooks/{notebook.stem}.md"
    return found


def linked(text: str, source: str, shown: dict[str, str]) -> str:
    """The Markdown `text` of the file `source` with links that hold in the site.

    A link to a file that the site does not show becomes its text.
    """
    place = posixpath.dirname(shown[source])

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match[2].partition("#")
        if not target or ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path not in shown:
            if not (ROOT / path).exists():
                raise SystemExit(f"{source}: no file {path} for the link {match[0]}")
            return match[1][1:-1]
        return f"{match[1]}({posixpath.relpath(shown[path], place or '.')}{mark}{anchor})"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def write_pages() -> None:
    """Writes the pages into `build/pages`."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shown = places()
    for source, place in list(shown.items()):
        target = PAGES / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".ipynb"):
            text, pictures = _notebook(ROOT / source, target)
            folders = posixpath.dirname(source), posixpath.dirname(place)
            shown |= {posixpath.join(folders[0], name): posixpath.join(folders[1], name) for name in pictures}
        elif source.endswith(".md"):
            text = (ROOT / source).read_text(encoding="utf-8")
        else:
            shutil.copyfile(ROOT / source, target)
            continue
        header = UNSEARCHED if source.startswith("docs/design/") else ""
        target.write_text(header + linked(text, source, shown), encoding="utf-8")


def _notebook(path: Path, target: Path) -> tuple[str, list[str]]:
    """The notebook as Markdown, and the names of its pictures, which are written beside `target`."""
    from nbconvert import MarkdownExporter

    text, resources = MarkdownExporter().from_filename(str(path), {"output_files_dir": f"{target.stem}_files"})
    for name, data in resources["outputs"].items():
        picture = target.parent / name
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(data)
    return str(text), list(resources["outputs"])


def unlisted() -> list[str]:
    """Pages that the navigation does not list, design notes aside: their index does."""

    def listed(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        entries = entry.values() if isinstance(entry, dict) else entry
        return [name for item in entries for name in listed(item)]  # type: ignore[attr-defined]

    # All values are texts for this loader, also those of the environment.
    names = set(listed(yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.BaseLoader)["nav"]))
    pages = [page.relative_to(PAGES).as_posix() for page in sorted(PAGES.rglob("*.md"))]
    return [page for page in pages if page not in names and not page.startswith("design/")]


def versions() -> str:
    """The versions of the package and of Spark that the pages are for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"This page is for lance-spark {project['version']} with Apache Spark {MINORS[0]} to {MINORS[-1]}."


def main() -> int:
    """Builds the site; 1 if there was a warning."""
    write_pages()
    if missing := unlisted():
        sys.stderr.write(f"not in the navigation of mkdocs.yml: {', '.join(missing)}\n")
        return 1
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, VERSIONS: versions()}, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
