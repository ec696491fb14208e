"""Compaction after an epoch of a streaming query."""

from __future__ import annotations

import logging
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark.spark.streaming.auto_compaction import compact_after_epoch
from lance_spark.table.access import open_dataset


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three versions with one fragment each, by the reference library."""
    root = tmp_path / "t.lance"
    for first in (0, 10, 20):
        lance.write_dataset(pa.table({"id": list(range(first, first + 10))}), root, mode="append")
    return root


@pytest.mark.slow
def test_compaction_runs_when_it_would_rewrite_enough_files(table: Path) -> None:
    assert not compact_after_epoch(open_dataset(str(table)), 4, "t")
    assert lance.dataset(table).version == 3
    assert compact_after_epoch(open_dataset(str(table)), 3, "t")
    found = lance.dataset(table)
    assert len(found.get_fragments()) == 1
    assert found.to_table().column("id").to_pylist() == list(range(30))


def test_compaction_that_fails_is_logged_and_changes_nothing(table: Path, caplog: pytest.LogCaptureFixture) -> None:
    next((table / "data").iterdir()).unlink()
    with caplog.at_level(logging.WARNING):
        assert not compact_after_epoch(open_dataset(str(table)), 3, "shop.orders")
    assert "committed to shop.orders, but the compaction after it failed" in caplog.text
    assert lance.dataset(table).version == 3
