"""Small pages are decoded many at a time, and errors name their page all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from tests.file.reference_files import check, open_file, pages, some_ranges, write
from tests.support import arrays

ROWS = 150_000


def _lists() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"x": arrays.list_of(lambda k: pa.array(rng.integers(0, 99, k).astype(np.int32)), ROWS, 0.1, rng)})


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of pages that were read together."""
    seen: list[int] = []
    read_run = MiniBlockLayout.read_run

    def counted(self: MiniBlockLayout, layouts: list, pages: list, rows: RowRanges) -> object:
        seen.append(len(pages))
        return read_run(self, layouts, pages, rows)

    monkeypatch.setattr(MiniBlockLayout, "read_run", counted)
    return seen


def test_pages_of_a_list_column_are_joined(tmp_path: Path, runs: list[int]) -> None:
    expected = _lists()
    file = write(tmp_path / "x.lance", expected)
    assert len(pages(file)) >= 4
    assert file.read_table().column("x").num_chunks < len(pages(file))
    assert runs == [len(pages(file))]
    check(file, expected)


def test_pages_with_dictionaries_are_not_joined(tmp_path: Path, runs: list[int]) -> None:
    words = pa.array([f"word {i}" for i in range(50)])
    rng = np.random.default_rng(0)
    column = arrays.list_of(lambda k: words.take(pa.array(rng.integers(0, 50, k))), ROWS, 0.0, rng)
    expected = pa.table({"x": column})
    file = write(tmp_path / "x.lance", expected)
    assert len(pages(file)) >= 4
    check(file, expected)
    assert runs == []


def test_an_error_names_the_page_of_the_run(tmp_path: Path, runs: list[int]) -> None:
    path = tmp_path / "x.lance"
    file = write(path, _lists())
    number = len(pages(file)) - 2
    content = bytearray(path.read_bytes())
    # The words of the chunks: the first one claims to be far larger than it is.
    content[pages(file)[number].buffers[0].position + 1] ^= 0xFF
    path.unlink()
    path.write_bytes(content)
    damaged = open_file(path)
    for rows in (None, *some_ranges(ROWS)[1:2]):
        with pytest.raises(CorruptFileError) as caught:
            damaged.read_table(rows=rows)
        assert (caught.value.column, caught.value.page) == (0, number)
    assert runs
    # The pages before it are not affected.
    rows_before = int(sum(page.num_rows for page in pages(damaged)[:number]))
    assert damaged.read_table(rows=RowRanges.of(0, rows_before)).num_rows == rows_before
