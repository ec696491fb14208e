"""Columns of every encoding, for reads of single rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance_spark
from lance_spark.file.reader import FileReader
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.fragment_reader import FragmentReader

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
