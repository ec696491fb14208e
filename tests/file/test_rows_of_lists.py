"""Few, many and consecutive rows of lists whose pages have many chunks, by both libraries' writers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.layouts.base import RowRanges
from tests.file.reference_files import pages, write
from tests.support import arrays as made
from tests.support.equality import assert_arrays_equal
from tests.support.strategies import arrays, data_types

EXAMPLES = int(os.environ.get("LANCE_EXAMPLES", "25"))
VERSIONS = ["2.0", "2.1", "2.2"]


def taken(values: pa.Array, rows: list[int]) -> pa.Array:
    """By slices, because Arrow's own take is wrong for some nested lists of fixed size."""
    return pa.concat_arrays([values.slice(row, 1) for row in rows] or [values.slice(0, 0)])


@st.composite
def wanted(draw: st.DrawFn, num_rows: int) -> list[int]:
    """Ascending rows: single ones, runs, first and last ones."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.sampled_from([1, 2, 20, 300]))
    run = draw(st.sampled_from([1, 1, 3, 400]))
    starts = rng.integers(0, num_rows, count)
    chosen = {int(start + step) for start in starts for step in range(run)} | ({0, num_rows - 1} if run == 3 else set())
    return sorted(row for row in chosen if row < num_rows)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_any_lists(tmp_path: Path, version: str) -> None:
    uri = tmp_path / "t"
    inner = data_types(maps=version == "2.2", max_leaves=3)
    lists = st.one_of(inner.map(pa.list_), inner.map(pa.large_list))

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(arrays(lists, max_length=9000, null_structs=version != "2.0"), st.booleans(), st.data())
    def check(values: pa.Array, by_reference: bool, data: st.DataObject) -> None:
        if len(values) == 0:
            return
        shutil.rmtree(uri, ignore_errors=True)
        values = pa.concat_arrays([values])
        table = pa.table({"c": values})
        if by_reference:
            lance.write_dataset(table, str(uri), data_storage_version=version)
        else:
            lance_spark.write(table, str(uri), file_format_version=version)
        dataset = lance_spark.open(str(uri))
        for _ in range(4):
            rows = data.draw(wanted(len(values)))
            assert_arrays_equal(dataset.take(rows)["c"], taken(values, rows))

    check()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("item", ["int32", "bool", "string", "words", "struct", "nested", "vector"])
@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_lists_over_several_chunks(tmp_path: Path, version: str, item: str, null_share: float) -> None:
    """Lists of up to thousands of items, between stretches of empty and null ones, as a scan and pylance have them."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(0, 4, 6000)
    lengths[rng.integers(0, len(lengths), 30)] = rng.integers(1000, 9000, 30)
    lengths[2000:4000] = 0
    lengths[2500] = 5000
    nulls = rng.random(len(lengths)) < null_share
    lengths[nulls] = 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("<i4")
    items = _items(item, int(offsets[-1]), null_share, rng)
    mask = pa.array(nulls) if null_share else None
    values = pa.ListArray.from_arrays(pa.array(offsets), items, mask=mask)
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"c": values}), uri, data_storage_version=version)
    ours, theirs = lance_spark.open(uri), lance.dataset(uri)
    assert_arrays_equal(ours.to_table()["c"], values)
    for size in (1, 7, 300, 5000):
        rows = np.sort(rng.choice(len(values), size, replace=False)).tolist()
        assert_arrays_equal(ours.take(rows)["c"], taken(values, rows))
        assert_arrays_equal(ours.take(rows)["c"], theirs.take(rows)["c"].cast(values.type))


def _items(item: str, count: int, null_share: float, rng: np.random.Generator) -> pa.Array:
    if item == "words":
        return pa.array([f"word {number}" for number in range(40)]).take(pa.array(rng.integers(0, 40, count)))
    if item == "struct":
        fields = {"a": made.leaf(pa.int64(), count, null_share, rng), "b": made.leaf(pa.string(), count, 0.1, rng)}
        return made.struct_of(fields, 0.0, rng)
    if item == "nested":
        return made.list_of(lambda k: made.leaf(pa.int16(), k, null_share, rng), count, null_share, rng)
    if item == "vector":
        return made.leaf(pa.list_(pa.float32(), 3), count, null_share, rng)
    return made.leaf({"int32": pa.int32(), "bool": pa.bool_(), "string": pa.string()}[item], count, null_share, rng)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_ranges_of_rows(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(3)
    values = made.list_of(lambda k: made.leaf(pa.int32(), k, 0.1, rng), 60_000, 0.1, rng)
    file = write(tmp_path / "x.lance", pa.table({"x": values}), version)
    assert len(pages(file)) > 1
    for cuts in ([0, 1], [59_999, 60_000], [5, 30_000], [1, 2, 2, 3, 9000, 9001], [100, 20_000, 20_001, 59_000]):
        rows = RowRanges(np.array(cuts[0::2]), np.array(cuts[1::2]))
        expected = pa.concat_arrays([values.slice(a, b - a) for a, b in zip(cuts[0::2], cuts[1::2], strict=True)])
        assert_arrays_equal(file.read_table(rows=rows)["x"], expected)
