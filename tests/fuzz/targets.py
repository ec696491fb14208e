"""What is fuzzed: for each target how an input is made of a seed, and what is done with it.

An input is bytes, so that it can be kept and run again; `run` lets only a `LanceError` pass.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyroaring
from lance.file import LanceFileWriter

import lance_spark
from lance_spark._proto import transaction_pb2
from lance_spark.errors import LanceError
from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.sql.parse import parse
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.open_file import open_data_file
from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import RowRanges
from lance_spark.storage import open_store
from lance_spark.storage.cache import shared
from lance_spark.table.rows.deletion_vector import DeletionFileType, DeletionVector
from tests.expr.spark_cases import filters, table
from tests.fuzz.mutate import NUMBERS, mutate_message, mutated_as, mutated_bytes
from tests.support import arrays
from tests.support.file.forced_layouts import CASES
from tests.support.file_surgery import columns_of, descriptor_of, layout_of, repacked, set_layout, with_buffer
from tests.support.guarded_memory import guarded
from tests.support.manifest_surgery import newest_manifest, with_manifest

_names = itertools.count()


@dataclass(frozen=True)
class Target:
    """How inputs are made and used."""

    make: Callable[[random.Random], bytes]
    use: Callable[[bytes], object]

    def run(self, data: bytes) -> None:
        """Uses an input. Whatever is raised beside a `LanceError` is a finding."""
        with contextlib.suppress(LanceError):
            self.use(data)


# Data files

_FORCED = ("lz4 texts", "zstd texts", "fsst", "text dictionary", "inline bitpacking", "runs", "constant text")
_ZIPPED = ("lists of vectors", "lists of binaries", "full-zip binaries", "full-zip zstd", "vectors with null items")


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


@functools.cache
def _files() -> tuple[bytes, ...]:
    tables = []
    for version in ("2.0", "2.1", "2.2"):
        tables.append((arrays.leaves_table(40, 0.3), version))
        nested = arrays.nested_table(40, 0.3, maps=version == "2.2", null_structs=version != "2.0")
        tables.append((nested, version))
    for name in (*_FORCED, *_ZIPPED):
        values, metadata = CASES[name][0].slice(0, 1200 if name in _FORCED else 40), CASES[name][1]
        tables.append((pa.table([values], schema=pa.schema([pa.field("x", values.type, metadata=metadata)])), "2.2"))
    words = pa.array([f"some text {number % 9} to compress" for number in range(400)])
    zstd = pa.field("x", words.type, metadata={"lance-encoding:compression": "zstd"})
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = pa.array([b"x" * number for number in range(400)], pa.large_binary())
    tables += [(pa.table([words, values], schema=pa.schema([zstd, blob])), version) for version in ("2.0", "2.1")]
    return tuple(_written(_folder() / f"{number}.lance", *one) for number, one in enumerate(tables))


def _written(path: Path, rows: pa.Table, version: str) -> bytes:
    with LanceFileWriter(str(path), rows.schema, version=version) as writer:
        writer.write_batch(rows)
    return path.read_bytes()


def _make_file(rng: random.Random) -> bytes:
    content = rng.choice(_files())
    columns = columns_of(content)
    number = rng.randrange(len(columns))
    column = columns[number]
    page = rng.randrange(len(column.pages)) if column.pages else None
    match rng.randrange(6):
        case 0:
            mutate_message(column, rng)
        case 1 | 2 if page is not None:
            layout = layout_of(column.pages[page])
            mutate_message(layout, rng)
            set_layout(column.pages[page], layout)
        case 3:
            descriptor = descriptor_of(content)
            mutate_message(descriptor, rng)
            return repacked(content, columns, descriptor.SerializeToString())
        case 4 | 5 if page is not None and column.pages[page].buffer_sizes:
            # Levels, offsets, chunk words, indices and compressed bytes all lie in buffers of pages.
            buffer = rng.randrange(len(column.pages[page].buffer_sizes))
            start = column.pages[page].buffer_offsets[buffer]
            data = content[start : start + column.pages[page].buffer_sizes[buffer]]
            return with_buffer(content, number, page, buffer, mutated_bytes(data, rng))
        case _:
            return mutated_bytes(content, rng)
    return repacked(content, columns)


def _use_file(data: bytes) -> None:
    store = open_store(f"memory://fuzz-{next(_names)}")
    store.put("x.lance", data)
    file = open_data_file(store, "x.lance")
    if file.num_rows > 1 << 20:
        # A page of one value may stand for any number of rows; that is no damage.
        file.read_table(rows=RowRanges.of(0, 100)).validate(full=True)
        return
    with contextlib.suppress(LanceError):
        file.read_table().validate(full=True)
    starts = np.arange(0, file.num_rows, max(1, file.num_rows // 5))
    if len(starts):
        with contextlib.suppress(LanceError):
            file.read_table(rows=RowRanges(starts, starts + 1)).validate(full=True)
        _pick(file, starts)


def _pick(file: DataFileReader, rows: np.ndarray[Any, Any]) -> None:
    """Picks rows of each field, out of memory behind whose end nothing can be read."""
    whole = file.in_memory()
    if not isinstance(file, FileReader) or whole is None:
        return
    content = guarded(whole)
    for field in file.schema.fields:
        prepared = file.prepared_field(field, file.columns)
        array = None if prepared is None else prepared.pick(content, rows)
        if array is not None:
            array.validate(full=True)


# Tables


@functools.cache
def _tables() -> tuple[Path, ...]:
    made = []
    for number, (stable, version) in enumerate(((False, "2.2"), (True, "2.2"), (False, "2.0"))):
        path = _folder() / f"table-{number}"
        rows = pa.table({"a": range(60), "s": [str(value) for value in range(60)]})
        lance.write_dataset(rows, str(path), enable_stable_row_ids=stable, data_storage_version=version)
        lance.dataset(str(path)).delete("a % 7 = 3")
        if stable:
            lance.dataset(str(path)).update({"s": "'new'"}, where="a = 5")
        lance_spark.open(str(path)).update_config({"k": "v"})
        made.append(path)
    return tuple(made)


def _with_table(data: bytes, use: Callable[[Path, bytes], object]) -> None:
    source = _tables()[data[0] % len(_tables())]
    path = _folder() / f"copy-{next(_names)}"
    shutil.copytree(source, path)
    shared.clear()
    try:
        use(path, data[1:])
    finally:
        shutil.rmtree(path)


def _exercise(path: Path) -> None:
    uri = str(path)
    table = lance_spark.open(uri)
    if table.count_rows() > 1 << 20:
        table.take([0, 1])
        return
    for use in (
        lambda: table.to_table(with_row_id=True, with_row_address=True).validate(full=True),
        lambda: table.take([0, 3]),
        lambda: table.to_table(filter="a > 5 AND s <> 'x'"),
        table.versions,
        lambda: list(table.changes(1, table.version)),
        lambda: table.delete("a = 1"),
        lambda: lance_spark.write(pa.table({"a": [1], "s": ["x"]}), uri, mode="append"),
        lambda: lance_spark.open(uri).merge(pa.table({"a": [2, 99], "s": ["x", "y"]}), on="a"),
        lambda: lance_spark.open(uri).add_columns({"n": "a + 1"}),
        lambda: lance_spark.open(uri).compact(),
    ):
        with contextlib.suppress(LanceError):
            use()


def _replaced(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def _make_manifest(rng: random.Random) -> bytes:
    number = rng.randrange(len(_tables()))
    content = newest_manifest(_tables()[number]).read_bytes()
    if rng.random() < 0.1:
        return bytes([number]) + mutated_bytes(content, rng)
    return bytes([number]) + with_manifest(content, lambda message: mutate_message(message, rng))


def _use_manifest(data: bytes) -> None:
    def use(path: Path, content: bytes) -> None:
        _replaced(newest_manifest(path), content)
        _exercise(path)

    _with_table(data, use)


def _make_transaction(rng: random.Random) -> bytes:
    number = rng.randrange(len(_tables()))
    files = sorted((_tables()[number] / "_transactions").iterdir())
    at = rng.randrange(len(files))
    return bytes([number, at]) + mutated_as(transaction_pb2.Transaction, files[at].read_bytes(), rng)


def _use_transaction(data: bytes) -> None:
    def use(path: Path, content: bytes) -> None:
        stale = lance_spark.open(str(path), version=1)
        _replaced(sorted((path / "_transactions").iterdir())[content[0]], content[1:])
        for manifest in (path / "_versions").glob("*.manifest"):
            # Without the copy of the transaction in the manifest.
            _replaced(manifest, with_manifest(manifest.read_bytes(), _without_transaction))
        with contextlib.suppress(LanceError):
            stale.delete("a = 2")
        _exercise(path)

    _with_table(data, use)


def _without_transaction(manifest: object) -> None:
    manifest.ClearField("transaction_section")  # type: ignore[attr-defined]
    manifest.ClearField("transaction_section_deprecated")  # type: ignore[attr-defined]


# Deletion files


@functools.cache
def _deletions() -> tuple[bytes, ...]:
    runs = pyroaring.BitMap(range(100, 90_000))
    runs.run_optimize()
    bitmaps = (pyroaring.BitMap(range(0, 99, 7)), pyroaring.BitMap(range(0, 90_000, 3)), runs)
    vector = DeletionVector(np.arange(0, 99, 7))
    return (
        *(bytes([1]) + bitmap.serialize() for bitmap in bitmaps),
        bytes([0]) + vector.encode(DeletionFileType.ARROW_ARRAY),
    )


def _make_deletions(rng: random.Random) -> bytes:
    content = rng.choice(_deletions())
    return content[:1] + mutated_bytes(content[1:], rng)


def _use_deletions(data: bytes) -> None:
    DeletionVector.decode(DeletionFileType(data[0] % 2), data[1:], physical_rows=100_000, num_deleted_rows=None)


# Filters


@functools.cache
def _rows() -> pa.RecordBatch:
    return table().combine_chunks().to_batches()[0]


_WORDS = """
AND OR NOT IN IS NULL LIKE ILIKE RLIKE ESCAPE BETWEEN CASE WHEN THEN ELSE END CAST AS TRUE INTERVAL DAY DATE ANY ALL
( ) [ ] { } , . : :: ; + - * / % & | ^ ~ = <> < >= <=> || ? @ => '!' '%' 1 -1 1e9 X'00' `q`
"""


def _spliced(text: str, rng: random.Random) -> str:
    """`text` with some words of other filters, or of the language, in it."""
    words = text.split(" ")
    for _ in range(rng.randint(1, 3)):
        other = rng.choice(filters()).split(" ")
        start = rng.randrange(len(other))
        piece = rng.choice(([rng.choice(_WORDS.split())], other[start : start + rng.randint(1, 5)]))
        at = rng.randrange(len(words) + 1)
        words[at : at + rng.randint(0, 1)] = piece
    return " ".join(words)


def _make_filter(rng: random.Random) -> bytes:
    text = rng.choice(filters())
    if rng.random() < 0.5:
        return _spliced(text, rng).encode(errors="surrogateescape")
    for _ in range(rng.randint(1, 3)):
        numbers = [at for at, character in enumerate(text) if character.isdigit()]
        number = rng.choice((*map(str, NUMBERS), "1e999999", "1e-400", "1e99999BD", "9" * 90, "0x", "''", "NULL"))
        match rng.randrange(4):
            case 0 if numbers:
                at = rng.choice(numbers)
                text = f"{text[:at]}{number}{text[at + 1 :]}"
            case 1:
                name = rng.choice(_rows().schema.names)
                text = f"{text} AND substring({rng.choice(('s', 'v'))}, {number}, {name}) = {name}"
            case 2:
                text = f"({text}) = (substring({rng.choice(('s', 'v'))}, {number}, {rng.choice(NUMBERS)}) = 's')"
            case _:
                text = mutated_bytes(text.encode(errors="surrogateescape"), rng).decode(errors="surrogateescape")
    return text.encode(errors="surrogateescape")


def _use_filter(data: bytes) -> None:
    evaluate_filter(parse(data.decode(errors="surrogateescape")), _rows())


TARGETS = {
    "file": Target(_make_file, _use_file),
    "manifest": Target(_make_manifest, _use_manifest),
    "transaction": Target(_make_transaction, _use_transaction),
    "deletions": Target(_make_deletions, _use_deletions),
    "filter": Target(_make_filter, _use_filter),
}


def made(target: str, seed: int) -> bytes:
    """The input of a seed; the same for ever, as long as the tables that are changed are."""
    return TARGETS[target].make(random.Random(f"{target} {seed}"))
