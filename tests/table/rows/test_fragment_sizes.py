"""Sizes of fragments as columns say what the parsed fragments say."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.file_version import FileVersion
from lance_spark.table.rows.fragment import DataFragment, FragmentList
from lance_spark.table.rows.fragment_sizes import FileKind


def _file(size: int, fields: list[int], minor: int = 1) -> table_pb2.DataFile:
    return table_pb2.DataFile(
        path="f.lance", fields=fields, file_major_version=2, file_minor_version=minor, file_size_bytes=size
    )


def test_columns_of_all_fragments() -> None:
    messages = [
        table_pb2.DataFragment(id=4, physical_rows=10, files=[_file(100, [0, 1]), _file(7, [2])]),
        table_pb2.DataFragment(id=5),
        table_pb2.DataFragment(id=9, physical_rows=1 << 32, files=[_file(0, [0, 1], 0)]),
        table_pb2.DataFragment(id=11, physical_rows=3, files=[_file((1 << 64) - 1, [0, 1])]),
    ]
    sizes = FragmentList(messages).sizes
    assert sizes.physical_rows.tolist() == [10, 0, 1 << 32, 3]
    assert sizes.fragments.tolist() == [0, 0, 2, 3]
    assert np.array_equal(sizes.size_bytes, [100.0, 7.0, np.nan, float(1 << 64)], equal_nan=True)
    assert [sizes.file_kinds[kind] for kind in sizes.kinds] == [
        FileKind((0, 1), FileVersion.V2_1),
        FileKind((2,), FileVersion.V2_1),
        FileKind((0, 1), FileVersion.V2_0),
        FileKind((0, 1), FileVersion.V2_1),
    ]
    assert len(sizes.file_kinds) == 3
    assert [sizes.num_files(0, stop) for stop in range(5)] == [0, 2, 2, 3, 4]
    assert sizes.num_files(1, 2) == 0
    assert sizes.num_files(2, 4) == 2


def test_bytes_of_a_fragment_are_those_of_its_files_or_unknown() -> None:
    whole = table_pb2.DataFragment(id=4, physical_rows=10, files=[_file(100, [0, 1]), _file(7, [2])])
    partly = table_pb2.DataFragment(id=5, physical_rows=10, files=[_file(100, [0, 1]), _file(0, [2])])
    assert DataFragment.from_proto(whole).size_bytes == 107
    assert DataFragment.from_proto(partly).size_bytes is None


def test_no_fragments() -> None:
    sizes = FragmentList().sizes
    assert (len(sizes.physical_rows), len(sizes.size_bytes), sizes.num_files(0, 0)) == (0, 0, 0)


def test_an_unknown_version_is_corrupt() -> None:
    with pytest.raises(CorruptFileError, match=r"no Lance file version is numbered 2\.77"):
        _ = FragmentList([table_pb2.DataFragment(files=[_file(1, [0], 77)])]).sizes
