"""Arrays of random nested types, messy ones among them, in one page and in many."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.strategies import arrays
from tests.support.written_files import assert_file_holds, write_file

PAGE_BYTES = st.sampled_from([1, 100, 1000, 8 << 20])
_QUIET = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_any_array(tmp_path: Path, version: str) -> None:
    @_QUIET
    @given(arrays(maps=version == "2.2", null_structs=version != "2.0"), PAGE_BYTES)
    def check(array: pa.Array, page_bytes: int) -> None:
        table = pa.table({"c": array})
        path, _ = write_file(tmp_path, table, version, page_bytes=page_bytes)
        assert_file_holds(path, table)

    check()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_any_array_in_batches(tmp_path: Path, version: str) -> None:
    @_QUIET
    @given(
        arrays(maps=version == "2.2", null_structs=version != "2.0"),
        PAGE_BYTES,
        st.lists(st.integers(0, 60), max_size=4),
    )
    def check(array: pa.Array, page_bytes: int, cuts: list[int]) -> None:
        table = pa.table({"c": array})
        edges = [0, *sorted(min(cut, len(array)) for cut in cuts), len(array)]
        batches = [table.slice(start, stop - start) for start, stop in pairwise(edges)]
        path, _ = write_file(tmp_path, table, version, page_bytes=page_bytes, batches=batches)
        assert_file_holds(path, table)

    check()
