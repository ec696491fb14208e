"""Compares answers of indexes that this library has built: in both libraries, with and without the index."""

from __future__ import annotations

from pathlib import Path

import lance

from tests.index.comparisons import ID, check, ids


def both(uri: str, condition: str, *, index: str, reference: str | None = None, used: bool = True) -> list[int]:
    """The ids of the rows that a filter keeps, the same in both libraries, with and without the index `index`.

    Args:
        reference: the condition as the reference library writes it.
        used: whether it must have asked the index.
    """
    scanned = check(uri, condition, reference=reference, index=index if used else None)
    found = lance.dataset(uri).to_table(filter=reference or condition, columns=[ID])
    assert ids(found) == scanned, condition
    if used:
        assert_used_by_reference(uri, reference or condition, index)
    return scanned


def assert_used_by_reference(uri: str, condition: str, index: str) -> None:
    """The reference library asks the index for the rows of a filter."""
    plan = lance.dataset(uri).scanner(filter=condition).explain_plan()
    assert "ScalarIndexQuery" in plan, plan
    assert f"@{index}(" in plan, plan


def own_folders(root: Path) -> set[str]:
    """The folders below a table that have files of index segments."""
    return {path.parent.name for path in root.glob("_indices/*/*")}
