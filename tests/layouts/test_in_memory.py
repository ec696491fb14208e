"""Values of fixed width out of files in memory: those that the reference library wrote, and nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import LanceError
from lance_spark.file.open_file import open_data_file
from lance_spark.file.reader import FileReader
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.in_memory.columns import InMemoryFields
from lance_spark.layouts.in_memory.row_runs import run_of_rows
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.registry import parse_page
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.storage import open_store
from tests.file.reference_files import open_file, write
from tests.support.guarded_memory import allocate_guarded, guarded
from tests.support.written_files import write_file

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
WITH_DICTIONARY = ("runs of uint64", "runs of uint64, nulls", "one int16, nulls", "one int64, nulls")


def _selections(num_rows: int) -> list[RowRanges]:
    rng = np.random.default_rng(5)
    numbers = [np.sort(rng.choice(num_rows, count, replace=False)) for count in (1, 10, 999, 2500)]
    edges = np.array([0, 1, 1023, 1024, 4095, 4096, num_rows - 1])
    third = num_rows // 3
    runs = [(third, third + 700), (third, third + 2), (1024, 2048), (third - 100, num_rows - 50), (0, num_rows)]
    return [*map(RowRanges.of_numbers, [*numbers, edges]), *(RowRanges.of(*run) for run in runs)]


def _in_memory(file: FileReader, content: pa.Buffer, rows: RowRanges) -> pa.ChunkedArray | None:
    reader = file.prepared(file.schema.fields, file.columns)
    assert isinstance(reader, InMemoryFields)
    [column] = reader.in_memory or [None]
    found = None if column is None else column.read(content, rows)
    return None if found is None else pa.chunked_array(found[0])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", list(COLUMNS))
def test_values_are_those_that_were_written(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = COLUMNS[name]
    file = write(tmp_path / "x.lance", pa.table({"x": values}), version, max_page_bytes=40_000)
    content = guarded((tmp_path / "x.lance").read_bytes())
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    num_found = 0
    for rows in _selections(NUM_ROWS):
        found = _in_memory(file, content, rows)
        expected = values.take(pa.array(rows.indices()))
        if found is not None:
            num_found += 1
            found.validate(full=True)
            assert found.combine_chunks().equals(expected)
        # The same through the file, whichever way it goes.
        assert file.read(file.schema.fields, file.columns, rows)[0].combine_chunks().equals(expected)
    # All rows are left to the general way if some are null; in 2.0 they are views, if the file begins at a word. Long
    # runs of bits, and of values that can be null, are left to it as well.
    # Few different values can have a dictionary.
    has_dictionary = version == "2.2" and name in WITH_DICTIONARY
    assert has_dictionary or num_found >= len(_selections(NUM_ROWS)) - (2 if "nulls" in name or "bool" in name else 1)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", list(COLUMNS))
def test_rows_side_by_side_without_tables(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = COLUMNS[name]
    file = write(tmp_path / "x.lance", pa.table({"x": values}), version, max_page_bytes=40_000)
    content = guarded((tmp_path / "x.lance").read_bytes())
    [column] = file.encoded_columns()
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    runs = [
        (0, NUM_ROWS),
        (0, 1),
        (NUM_ROWS - 1, NUM_ROWS),
        (1023, 1025),
        (1024, 2048),
        (9_000, 21_000),
        (29_999, 30_011),
    ]
    found = [run_of_rows(column, values.type, content, start, stop - start) for start, stop in runs]
    for (start, stop), array in zip(runs, found, strict=True):
        if array is not None:
            array.validate(full=True)
            assert array.equals(values.slice(start, stop - start))
    # Bits, values that can be null, and vectors of whole pages are left to other ways.
    # So are dictionaries that are compressed.
    is_left = "bool" in name or "nulls" in name or name == "vectors" or name in WITH_DICTIONARY
    assert is_left or None not in found
    assert run_of_rows(column, values.type, content, NUM_ROWS - 5, 6) is None


@pytest.mark.parametrize("num_pages", [1, 3])
@pytest.mark.parametrize("in_runs", [False, True])
def test_rows_side_by_side_of_small_dictionaries(num_pages: int, in_runs: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    chosen = np.tile(np.repeat([0, 1], [30, 1]), 4) if in_runs else rng.integers(0, 7, 124)
    pages = [pa.table({"x": rng.integers(2**60, 2**62, 7)[chosen]}) for _ in range(num_pages)]
    # The reference compresses all dictionaries.
    path, _ = write_file(tmp_path, pages[0], "2.2", page_bytes=992, batches=pages)
    content = guarded(path.read_bytes())
    [column] = open_file(path).encoded_columns()
    layouts = [parse_page(page.type_url, page.message) for page in column.pages]
    assert len(layouts) == num_pages
    assert all(isinstance(layout, MiniBlockLayout) and layout.dictionary is not None for layout in layouts)
    values = pa.concat_tables(pages)["x"].combine_chunks()
    for start, stop in ((0, len(values)), (5, 6), (len(values) // 3, len(values) - 7)):
        found = run_of_rows(column, values.type, content, start, stop - start)
        assert found is not None
        assert found.equals(values.slice(start, stop - start))


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
            found = _in_memory(file, content, rows)
            # A short page can be all null; of 2,500 rows too many are wanted, and long runs of bits are not copied.
            assert found is not None or place == 2 or rows.num_rows == 2500 or (place == 0 and rows.num_rows > 1024)
            expected = table["x"].take(pa.array(rows.indices())).combine_chunks()
            assert found is None or found.combine_chunks().equals(expected)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name",
    ["bool", "bool, nulls", "uint64 of 21 bits, nulls", "wide", "vectors", "time", "runs of uint16", "runs of uint64"],
)
def test_damaged_files_are_left_to_the_general_way(
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
        found = _in_memory(file, guarded(content), rows)
        run = _run(file, guarded(content), rows)
        try:
            [general] = file._run(reader(rows))
        except LanceError:
            general = None
        if found is not None and general is not None:
            assert _same_bits(found, general)
        if run is not None and general is not None:
            assert _same_bits(run, general)
        refused += found is None and general is None
    return refused


def _run(file: FileReader, content: pa.Buffer, rows: RowRanges) -> pa.ChunkedArray | None:
    if rows.num_ranges > 1 or file.version is FileVersion.V2_0:
        return None
    [field] = file.schema.fields
    try:
        column = file.encoded_leaves([field])[field.id]
    except LanceError:
        return None
    found = run_of_rows(column, to_arrow_type(field), content, int(rows.starts[0]), rows.num_rows)
    return None if found is None else pa.chunked_array([found])


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
        assert _in_memory(file, content, RowRanges(starts, starts + 1)) is None
    backwards = RowRanges(np.array([5, 20], np.int64), np.array([3, 30], np.int64))
    with pytest.raises(ValueError, match="ends before it begins"):
        _in_memory(file, content, backwards)


@pytest.mark.parametrize("name", ["bool", "wide", "uint32 of 3 bits", "float64", "timestamp", "time", "decimal"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_one_value_in_all_rows(version: str, name: str, tmp_path: Path) -> None:
    values = pa.repeat(VALUES[name][0], 5000)
    path = tmp_path / "x.lance"
    file = write(path, pa.table({"x": pa.chunked_array([values])}, schema=_required(values.type)), version)
    content = pa.py_buffer(path.read_bytes())
    for rows in _selections(5000):
        expected = values.take(pa.array(rows.indices()))
        found = _in_memory(file, content, rows)
        assert found is None or found.combine_chunks().equals(expected)
        assert file.read(file.schema.fields, file.columns, rows)[0].combine_chunks().equals(expected)
    if version == "2.2" and name in ("wide", "uint32 of 3 bits"):
        assert _in_memory(file, content, RowRanges.of(5, 9)) is not None
    assert _in_memory(file, content, RowRanges.of(4990, 5001)) is None


def _required(dtype: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("x", dtype, nullable=False)])
