"""`CHANGELOG.md` has the form of Keep a Changelog 1.1.0."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "CHANGELOG.md").read_text().splitlines()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def headings(level: int) -> list[str]:
    """The texts of the headings of a level."""
    return [line.removeprefix("#" * level + " ") for line in LINES if line.startswith("#" * level + " ")]


def releases() -> list[tuple[tuple[int, ...], date]]:
    """The versions with their dates, which are all headings of the second level but the one of unreleased changes."""
    found = []
    for heading in headings(2)[1:]:
        release = re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", heading)
        assert release, heading
        found.append((tuple(map(int, release[1].split("."))), date.fromisoformat(release[2])))
    return found


def test_newest_changes_come_first() -> None:
    assert headings(1) == ["Changelog"]
    assert headings(2)[0] == "[Unreleased]"
    assert releases() == sorted(releases(), reverse=True)


def test_changes_are_grouped_by_kind() -> None:
    assert headings(3)
    assert set(headings(3)) <= KINDS
    assert not [line for line in LINES if line.startswith("####")]


def test_version_without_an_entry_is_unreleased() -> None:
    version = re.search(r'^version = "(\d+\.\d+\.\d+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    unreleased = "\n".join(LINES).partition("## [Unreleased]")[2].partition("\n## [")[0]
    released = [number for number, _ in releases()]
    assert tuple(map(int, version[1].split("."))) in released or version[1] in unreleased
