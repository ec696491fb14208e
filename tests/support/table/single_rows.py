"""Columns of every encoding, for reads of single rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark.file.reader import FileReader
from lance_spark.layouts.field_readers import prepare_field
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.fragment_reader import FragmentReader
from tests.support.guarded_memory import guarded

Rows = np.ndarray[Any, Any]

ROWS = 30_000


NULLS = {
    "none": lambda rows: rows < 0,
    "some": lambda rows: rows % 7 == 3,
    "late": lambda rows: (rows > ROWS * 0.8) & (rows % 3 == 0),
}


INDICES = [17, 3, 3, ROWS - 1, 0, 1023, 1024, 10, 4096, 29_000, 25_001, 12_345]


def opened(uri: str) -> Dataset:
    dataset = lance_spark.open(uri)
    assert isinstance(dataset, Dataset)
    return dataset


def encoded(uri: str) -> tuple[Any, bytes]:
    """(the first column of the first file, all of the file)."""
    dataset = opened(uri)
    fragment = dataset.manifest.fragments[0]
    reader = FragmentReader(fragment, dataset.plan().bases).open_file(fragment.files[0])
    assert isinstance(reader, FileReader)
    return reader.encoded_columns()[0], Path(uri, "data", fragment.files[0].path).read_bytes()


def picked(uri: str, content: bytes, rows: Rows) -> pa.Array | None:
    """Rows of the first field of the first file, out of other content of the file; None if they cannot be picked."""
    dataset = opened(uri)
    fragment = dataset.manifest.fragments[0]
    reader = FragmentReader(fragment, dataset.plan().bases).open_file(fragment.files[0])
    assert isinstance(reader, FileReader)
    (field, *_), data = dataset.manifest.schema.fields, guarded(content)
    numbers = fragment.files[0].columns()
    columns = dict(zip(numbers, reader.encoded_columns_at([*numbers.values()]), strict=True))
    prepared = prepare_field(reader.version, field, columns, data)
    return None if prepared is None else prepared.pick(data, rows)
