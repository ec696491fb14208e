"""Pictures of the pages: there, small, with a text for those who do not see them, and made by `make pictures`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.generators import loaded

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "docs" / "assets"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LARGEST = 150_000

_MARKDOWN = re.compile(r"!\[([^\]]*)\]\(([^)#\s]+)[^)]*\)")
_HTML = re.compile(r'<(?:img|source)\b[^>]*\bsrc(?:set)?="[^>]*>')


def pictures() -> list[tuple[Path, str, Path]]:
    """(page, text, file) of each picture on a page; a `source` shares the text of the `img` after it."""
    found = []
    for page in PAGES:
        document = page.read_text()
        found += [(page, text, page.parent / target) for text, target in _MARKDOWN.findall(document)]
        text = ""
        for tag in reversed(_HTML.findall(document)):
            attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
            text = attributes.get("alt", "") if tag.startswith("<img") else text
            found.append((page, text, page.parent / (attributes.get("src") or attributes["srcset"])))
    return found


def test_every_picture_has_a_text() -> None:
    assert len(pictures()) > 10
    assert [(page.name, file.name) for page, text, file in pictures() if len(text.split()) < 3] == []


def test_every_picture_is_there_and_small() -> None:
    sizes = {file.resolve(): file.stat().st_size for _, _, file in pictures()}
    assert {file.name: size for file, size in sizes.items() if size >= LARGEST} == {}


def test_every_picture_is_on_a_page() -> None:
    shown = {file.resolve() for _, _, file in pictures()}
    assert {file for file in ASSETS.rglob("*") if file.is_file()} == shown


def test_script_makes_all_pictures_of_its_folder() -> None:
    script = loaded("pictures")
    made = [name for names, _ in script.GROUPS.values() for name in names]
    assert sorted(made) == sorted(file.name for file in script.FOLDER.iterdir())


@pytest.mark.parametrize("file", sorted(ASSETS.rglob("*.svg")), ids=lambda file: file.name)
def test_drawing_needs_nothing_from_elsewhere(file: Path) -> None:
    text = file.read_text()
    assert not re.search(r"""url\(["']?http|\b(?:href|src)=["'](?!#)""", text)
    assert not re.search(r"/(?:home|root|tmp|Users)/", text)
