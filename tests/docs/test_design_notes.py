"""Design notes are short, numbered without gaps, listed in their index, and their links resolve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs/design"
INDEX = "000-index.md"
MAX_LINES = 120

NOTES = sorted(path.name for path in DESIGN.glob("*.md") if path.name != INDEX)
RESULTS = ROOT / "benchmarks/results"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *RESULTS.glob("*.md")])


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_numbers_have_no_gaps() -> None:
    assert [name[:4] for name in NOTES] == [f"{number:03}-" for number in range(1, len(NOTES) + 1)]


@pytest.mark.parametrize("name", [INDEX, *NOTES])
def test_notes_are_short(name: str) -> None:
    assert len((DESIGN / name).read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("name", NOTES)
def test_titles_have_the_number_of_the_file(name: str) -> None:
    assert (DESIGN / name).read_text(encoding="utf-8").startswith(f"# {name[:3]}: ")


def test_the_index_lists_every_note_once_and_in_order() -> None:
    assert re.findall(r"\]\(([^)/]+\.md)\)", (DESIGN / INDEX).read_text(encoding="utf-8")) == NOTES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_pages_resolve(page: Path) -> None:
    broken = [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if re.match(r"[^:#]*\.md(#|$)", target) and not is_there(page, target)
    ]
    assert not broken


@pytest.mark.parametrize("note", NOTES)
def test_measurements_named_in_notes_are_there(note: str) -> None:
    names = re.findall(r"`(benchmarks/results/[^`]+\.md)`", (DESIGN / note).read_text(encoding="utf-8"))
    assert not [name for name in names if not (ROOT / name).is_file()]


def test_notes_named_in_code_are_there() -> None:
    sources = [*ROOT.glob("lance_spark/**/*.py"), *ROOT.glob("lance_spark/**/*.java"), *ROOT.glob("tests/**/*.py")]
    named = {
        (str(source.relative_to(ROOT)), name)
        for source in sources
        if source != Path(__file__)
        for name in re.findall(r"\bdesign/(\d{3}[\w.-]*)", source.read_text(encoding="utf-8"))
    }
    assert named
    assert not [(source, name) for source, name in sorted(named) if name.rstrip(".") not in NOTES]


def is_there(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    other = page.parent / path
    return other.is_file() and (not anchor or anchor in anchors(other))
