"""A few rows of lists of strings in full-zip pages, copied straight from mapped files: the same as those of Arrow."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.encodings.blocks import VariableWidthBlock
from lance_spark.layouts.page_form import ListedValues
from lance_spark.layouts.prepared.field import PreparedField, prepared_field
from tests.support.guarded_memory import guarded
from tests.support.table.single_rows import encoded, opened, picked
from tests.table.reading.counted_rows import counted_rows
from tests.table.reading.damaged_reads import check_damaged_reads, damaged_contents

ROWS = 3000
INDICES = [17, 3, 3, ROWS - 1, 0, 1023, 1024, 10, 2000]
ZIPPED = {"lance-encoding:compression": "none", "lance-encoding:structural-encoding": "fullzip"}


def lists(dtype: pa.DataType, kind: str = "full") -> pa.Array:
    """Lists of 1 to 5 strings; some of them null or empty, or with nulls, as `kind` says."""
    random = np.random.default_rng(11)
    found: list[list[str | None] | None] = []
    for row in range(ROWS):
        own: list[str | None] = [f"{row} " + "x" * int(random.integers(0, 90)) for _ in range(random.integers(1, 6))]
        if row % 7 == 3:
            own = own if kind == "full" else [*own, None] if kind == "null strings" else []
        found.append(None if kind == "null lists" and row % 11 == 5 else own)
    return pa.array(found, pa.large_list(pa.large_string())).cast(dtype)


def written(uri: str, values: pa.Array, writer: str = "own", item: dict[str, str] | None = None) -> None:
    """A table of one column."""
    own = values.type.value_field.with_metadata(ZIPPED if item is None else item)
    dtype = pa.large_list(own) if pa.types.is_large_list(values.type) else pa.list_(own)
    data = pa.table([values.cast(dtype)], schema=pa.schema([pa.field("x", dtype, metadata=own.metadata)]))
    if writer == "reference":
        lance.write_dataset(data, uri, data_storage_version="2.2")
    else:
        lance_spark.write(data, uri, file_format_version="2.2")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each part of a column that was copied."""
    return counted_rows(monkeypatch, (PreparedField, "pick"))


@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("kind", ["full", "null strings", "empty lists", "null lists"])
@pytest.mark.parametrize(
    "dtype", [pa.list_(pa.string()), pa.large_list(pa.large_binary()), pa.list_(pa.large_binary())], ids=str
)
def test_values(tmp_path: Path, dtype: pa.DataType, kind: str, writer: str, taken: list[int]) -> None:
    uri, values = str(tmp_path / "t"), lists(dtype, kind)
    written(uri, values, writer)
    for indices in (INDICES, sorted(set(INDICES)), [5], list(range(ROWS - 1, 0, -2))):
        found = opened(uri).take(indices)
        found.validate(full=True)
        assert found["x"].to_pylist() == values.take(pa.array(indices)).to_pylist()
    assert taken == [9, 8, 1, ROWS // 2]


def prepared(uri: str, content: bytes) -> PreparedField | None:
    """The column, in memory behind whose end nothing can be read."""
    column, _ = encoded(uri)
    field = opened(uri).manifest.schema.fields[0]
    return prepared_field(field, {field.children[0].id: column}, guarded(content))


@pytest.mark.slow
def test_damaged_pages(tmp_path: Path) -> None:
    """Each list is read, or none; nothing behind the file is touched."""
    values = lists(pa.list_(pa.string()))
    written(str(tmp_path / "t"), values)
    column, content = encoded(str(tmp_path / "t"))
    check_damaged_reads(partial(picked, str(tmp_path / "t")), column.pages, content, values)


def as_lists(found: ListedValues) -> list[list[bytes]]:
    """The strings of some lists."""
    assert isinstance(found.values, VariableWidthBlock)
    ends = np.frombuffer(found.values.offsets, f"i{found.values.bits_per_offset // 8}")
    data = bytes(found.values.data)
    texts = [data[start:stop] for start, stop in pairwise(ends)]
    return [texts[start:stop] for start, stop in pairwise(found.bounds)]


@pytest.mark.parametrize("item", [ZIPPED, {"lance-encoding:compression": "none"}], ids=["full zip", "mini-block"])
@pytest.mark.parametrize("kind", ["full", "null strings", "empty lists", "null lists"])
def test_lists_without_arrays(tmp_path: Path, kind: str, item: dict[str, str]) -> None:
    """Lists as they lie in memory; only where nothing is null and none is empty."""
    uri, values = str(tmp_path / "t"), lists(pa.list_(pa.binary()), kind)
    written(uri, values, item=item)
    column, content = encoded(uri)
    rows = np.array(INDICES, np.int64)
    data = guarded(content)
    whole = prepared(uri, content)
    assert whole is not None
    found = whole.listed(data, rows)
    if kind == "full":
        assert found is not None
        assert as_lists(found) == values.take(pa.array(rows)).to_pylist()
    else:
        assert found is None
        full = np.array([0, 1, 2, 4], np.int64)
        some = whole.listed(data, full)
        assert some is None or as_lists(some) == values.take(pa.array(full)).to_pylist()
    for damaged in damaged_contents(column.pages, content, 200):
        field = prepared(uri, damaged)
        kept = None if field is None else field.listed(guarded(damaged), rows)
        assert kept is None or len(as_lists(kept)) == len(rows)
