"""Columns of files of the reference library, prepared for reads of few rows: their values, and nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import LanceError
from lance_spark.file.open_file import open_data_file
from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.field_readers import prepare_field
from lance_spark.storage import open_store
from tests.file.reference_files import open_file, write
from tests.support.guarded_memory import allocate_guarded, guarded

VERSIONS = ["2.0", "2.1", "2.2"]
NUM_ROWS = 30_011


def _values() -> dict[str, pa.Array]:
    rng = np.random.default_rng(3)
    wide = rng.integers(-(2**62), 2**62, NUM_ROWS)
    found = {
        "bool": pa.array(rng.random(NUM_ROWS) < 0.5),
        "wide": pa.array(wide),
        "float64": pa.array(rng.standard_normal(NUM_ROWS)),
        "float16": pa.array(rng.standard_normal(NUM_ROWS).astype(np.float16)),
        "sorted": pa.array(np.sort(wide)),
        "timestamp": pa.array(rng.integers(0, 2**50, NUM_ROWS), pa.timestamp("us", "UTC")),
        "time": pa.array(rng.integers(0, 86_400_000, NUM_ROWS), pa.int32()).cast(pa.time32("ms")),
        "decimal": pa.array(rng.integers(0, 2**30, NUM_ROWS)).cast(pa.decimal128(25, 2)),
        "bytes": pa.array([bytes(row) for row in rng.integers(0, 256, (NUM_ROWS, 5), np.uint8)], pa.binary(5)),
        "vectors": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(3 * NUM_ROWS, np.float32)), 3),
    }
    for bits in (16, 64):
        lengths = rng.integers(1, 600, NUM_ROWS // 100)
        runs = np.repeat(rng.integers(0, 60_000, len(lengths)), lengths)
        found[f"runs of uint{bits}"] = pa.array(runs[:NUM_ROWS].astype(f"u{bits // 8}"))
        found[f"one int{bits}"] = pa.array(np.full(NUM_ROWS, -77, f"i{bits // 8}"))
    for bits in (8, 16, 32, 64):
        # Few different wide values get a dictionary.
        for width in (3 if bits < 64 else 21, bits - 3):
            numbers = rng.integers(0, 2 ** min(width, 62), NUM_ROWS).astype(f"u{bits // 8}")
            found[f"uint{bits} of {width} bits"] = pa.array(numbers)
    return found


VALUES = _values()


def _columns() -> Iterator[tuple[str, pa.Array]]:
    rng = np.random.default_rng(4)
    for name, values in VALUES.items():
        yield name, values
        # A fixed-size list without values has no form that all versions share.
        if not pa.types.is_fixed_size_list(values.type):
            nulls = pa.array(rng.random(NUM_ROWS) < 0.1)
            yield f"{name}, nulls", pa.compute.if_else(nulls, pa.scalar(None, values.type), values)


COLUMNS = dict(_columns())
WITH_LEVELS = ("one int16, nulls", "one int64, nulls")
"""Pages of one value with levels, in version 2.2, are decoded."""


def _selections(num_rows: int) -> list[RowRanges]:
    rng = np.random.default_rng(5)
    numbers = [np.sort(rng.choice(num_rows, count, replace=False)) for count in (1, 10, 999, 2500)]
    edges = np.array([0, 1, 1023, 1024, 4095, 4096, num_rows - 1])
    third = num_rows // 3
    runs = [(third, third + 700), (third, third + 2), (1024, 2048), (third - 100, num_rows - 50), (0, num_rows)]
    return [*map(RowRanges.of_numbers, [*numbers, edges]), *(RowRanges.of(*run) for run in runs)]


def _picked(file: FileReader, content: pa.Buffer, rows: RowRanges) -> pa.Array | None:
    """Rows of the only column out of other content of the file; None if they cannot be picked."""
    [field] = file.schema.fields
    prepared = prepare_field(file.version, field, {field.id: file.encoded_columns()[0]}, content)
    return None if prepared is None else prepared.pick(content, rows.indices())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", list(COLUMNS))
def test_values_are_those_that_were_written(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = COLUMNS[name]
    file = write(tmp_path / "x.lance", pa.table({"x": values}), version, max_page_bytes=40_000)
    content = guarded((tmp_path / "x.lance").read_bytes())
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    for rows in _selections(NUM_ROWS):
        picked = _picked(file, content, rows)
        expected = values.take(pa.array(rows.indices()))
        assert picked is not None or (name in WITH_LEVELS and version == "2.2")
        if picked is not None:
            picked.validate(full=True)
            assert picked.equals(expected)
        # The same through the page reader.
        assert file.read(file.schema.fields, file.columns, rows)[0].combine_chunks().equals(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_of_other_kinds_beside_them(version: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    texts = pa.array([f"text {number}" for number in rng.integers(0, 10**9, NUM_ROWS).tolist()])
    inner = pa.StructArray.from_arrays([VALUES["wide"], texts], ["number", "text"])
    lists = pa.ListArray.from_arrays(np.arange(NUM_ROWS + 1, dtype=np.int32), VALUES["float64"])
    table = pa.table(
        {"t": texts, "w": VALUES["wide"], "in": inner, "b": COLUMNS["bool, nulls"], "l": lists, "v": VALUES["vectors"]}
    )
    write(tmp_path / "x.lance", table, version, max_page_bytes=40_000)
    for names in (table.column_names, ["w", "v"], ["in", "t"], ["l", "b", "t"]):
        file = open_file(tmp_path / "x.lance")
        for rows in _selections(NUM_ROWS) * 2:
            expected = table.select(names).take(pa.array(rows.indices()))
            assert file.read_table(names, rows).combine_chunks().equals(expected.combine_chunks())


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_of_any_length(version: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    lengths = [9, 7, 8, 4097, 13, 1024, 1023, 5000]
    chunks = [pa.array(rng.random(length) < 0.5) for length in lengths]
    # The short ones are flat, the long ones packed; two have nulls.
    numbers = [pa.array(rng.integers(0, 900, length), pa.int32()) for length in lengths]
    some_null = [pa.array(piece, mask=rng.random(len(piece)) < len(piece) % 2 * 0.2) for piece in numbers]
    for place, pieces in enumerate((chunks, numbers, some_null)):
        table = pa.table({"x": pa.chunked_array(pieces)})
        path = tmp_path / f"{place}.lance"
        file = write(path, table, version, data_cache_bytes=1)
        content = pa.py_buffer(path.read_bytes())
        for rows in _selections(sum(lengths)):
            picked = _picked(file, content, rows)
            assert picked is not None
            assert picked.equals(table["x"].take(pa.array(rows.indices())).combine_chunks())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name",
    ["bool", "bool, nulls", "uint64 of 21 bits, nulls", "wide", "vectors", "time", "runs of uint16", "runs of uint64"],
)
def test_damaged_files_have_the_values_of_the_page_reader_or_none(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lance"
    write(path, pa.table({"x": COLUMNS[name].slice(0, 5000)}), version, max_page_bytes=4_000)
    content = path.read_bytes()
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    rng = np.random.default_rng(len(name))
    starts = _header_bytes(open_file(path))
    num_refused = 0
    for number in range(60):
        damaged = bytearray(content)
        if number % 2:
            places = rng.integers(0, len(content), 2)
        else:
            places = rng.choice(starts, 2)
        for place in places.tolist():
            damaged[place] = int(rng.integers(0, 256))
        num_refused += _refused(bytes(damaged), f"{name} {version} {number}")
    assert version == "2.0" or num_refused > 0


def _header_bytes(file: FileReader) -> np.ndarray:
    """Places at which pages say how long something is."""
    [column] = file.encoded_columns()
    found = [np.arange(buffer.position, buffer.position + 16) for page in column.pages for buffer in page.buffers]
    return np.concatenate(found)


def _refused(content: bytes, name: str) -> int:
    store = open_store("memory://in-memory-damage")
    store.put(name, content)
    try:
        file = open_data_file(store, name)
        assert isinstance(file, FileReader)
        reader = file.prepared(file.schema.fields, file.columns)
    except LanceError:
        return 0
    refused = 0
    for rows in _selections(5000)[1:]:
        try:
            picked = _picked(file, guarded(content), rows)
        except LanceError:
            picked = None
        try:
            [decoded] = file._run(reader(rows))
        except LanceError:
            decoded = None
        if picked is not None and decoded is not None:
            assert _same_bits(pa.chunked_array([picked]), decoded)
        refused += picked is None and decoded is None
    return refused


def _same_bits(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Equal, where NaN is equal to itself: damaged numbers can be any."""
    if pa.types.is_fixed_size_list(one.type):
        ours, theirs = (each.combine_chunks().flatten().to_numpy() for each in (one, other))
        return bool(np.array_equal(ours, theirs, equal_nan=True))
    return bool(one.equals(other))


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_that_are_not_there_are_refused(version: str, tmp_path: Path) -> None:
    path = tmp_path / "x.lance"
    file = write(path, pa.table({"x": COLUMNS["wide"]}), version)
    content = pa.py_buffer(path.read_bytes())
    for rows in ([NUM_ROWS], [-1], [5, NUM_ROWS + 3]):
        starts = np.array(rows, np.int64)
        assert _picked(file, content, RowRanges(starts, starts + 1)) is None


@pytest.mark.parametrize("name", ["bool", "wide", "uint32 of 3 bits", "float64", "timestamp", "time", "decimal"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_one_value_in_all_rows(version: str, name: str, tmp_path: Path) -> None:
    values = pa.repeat(VALUES[name][0], 5000)
    path = tmp_path / "x.lance"
    file = write(path, pa.table({"x": pa.chunked_array([values])}, schema=_required(values.type)), version)
    content = pa.py_buffer(path.read_bytes())
    for rows in _selections(5000):
        expected = values.take(pa.array(rows.indices()))
        picked = _picked(file, content, rows)
        assert picked is not None
        assert picked.equals(expected)
        assert file.read(file.schema.fields, file.columns, rows)[0].combine_chunks().equals(expected)
    assert _picked(file, content, RowRanges.of(4990, 5001)) is None


def _required(dtype: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("x", dtype, nullable=False)])
