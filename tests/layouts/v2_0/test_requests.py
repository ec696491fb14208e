"""What is asked of the file: only the bytes that are needed, in as few rounds as the format allows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.layouts.base import RowRanges
from tests.layouts.v2_0.files import OpenFile, single_rows
from tests.support.layouts.v2_0_files import write

ROWS = 200_000
TAKEN = np.arange(7, ROWS, 40_009)
"""Rows so far apart that not even booleans are read together."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> OpenFile:
    numbers = np.arange(ROWS)
    words = [f"{i:08d}" for i in range(ROWS)]
    table = pa.table(
        {
            "int": numbers,
            "nullable": pa.array(numbers, mask=numbers % 3 == 0),
            "bool": pa.array(numbers % 2 == 0),
            "string": words,
            "list": [[i, -i] for i in range(ROWS)],
            "list_string": [[word] for word in words],
            "vector": pa.FixedSizeListArray.from_arrays(np.zeros(ROWS * 8, np.float32), 8),
            "struct": [{"a": i, "b": word} for i, word in enumerate(words)],
            "no_items": pa.array([[] if i % 2 else None for i in range(ROWS)], pa.list_(pa.string())),
        }
    )
    return write(tmp_path_factory.mktemp("requests") / "t.lance", table)


@pytest.mark.parametrize(
    ("name", "rounds", "bytes_a_row"),
    [
        ("int", 1, 8),
        ("nullable", 1, 8 + 1),
        ("bool", 1, 1),
        ("string", 2, 16 + 8),
        ("list", 2, 16 + 16),
        ("list_string", 3, 16 + 16 + 8),
        ("vector", 1, 32),
        ("struct", 2, 8 + 16 + 8),
        ("no_items", 1, 16),
    ],
)
def test_single_rows(file: OpenFile, name: str, rounds: int, bytes_a_row: int) -> None:
    file.read_field(name, single_rows(TAKEN))
    assert len([requests for requests in file.rounds if requests]) == rounds
    assert file.bytes_requested == bytes_a_row * len(TAKEN)


@pytest.mark.parametrize("name", ["int", "nullable", "string", "list", "list_string", "vector", "struct"])
def test_whole_columns_take_one_round(file: OpenFile, name: str) -> None:
    file.read_field(name, RowRanges.of(0, ROWS))
    assert len(file.rounds) == 1
    assert len(file.rounds[0]) <= 5


@pytest.mark.parametrize(("name", "num_bytes"), [("int", 800), ("bool", 13), ("string", 808 + 800)])
def test_ranges(file: OpenFile, name: str, num_bytes: int) -> None:
    file.read_field(name, RowRanges.of(1003, 1103))
    assert file.bytes_requested == num_bytes
    assert len(file.rounds[0]) == 1


def test_near_rows_are_one_request(file: OpenFile) -> None:
    file.read_field("int", single_rows([100, 200, 200 + 512, 2000, 90_000]))
    assert [length // 8 for _, length in file.rounds[0]] == [613, 1, 1]


def test_rows_that_touch_are_one_request(file: OpenFile) -> None:
    file.read_field("string", single_rows(np.arange(10, 60)))
    assert [len(requests) for requests in file.rounds] == [1, 1]


def test_nothing_is_asked_for_no_rows(file: OpenFile) -> None:
    for top in file.schema.fields:
        file.read_field(top.name, single_rows([]))
        assert file.bytes_requested == 0
