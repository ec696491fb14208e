"""Files of old releases: bare zstd frames, nullable bytes, compressed integers, members longer than their struct."""

from __future__ import annotations

from pathlib import Path

import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.file.open_file import open_data_file
from lance_spark.layouts.base import RowRanges
from lance_spark.storage.registry import open_store
from tests.golden import make_v2_0
from tests.layouts.v2_0.files import OpenFile, encodings_of, single_rows
from tests.support.equality import assert_tables_equal


def encoding_of(path: Path, name: str) -> str:
    file = OpenFile.open(path)
    [top] = [top for top in file.schema.fields if top.name == name]
    return " ".join(str(encodings_of(file.columns[top.id])[0]).split())


@pytest.mark.parametrize("release", ["0.16.1", "0.19.2", "0.39.0"])
def test_every_type(release: str) -> None:
    expected = make_v2_0.table()
    file = OpenFile.open(make_v2_0.FOLDER / f"{release}.lance")
    assert_tables_equal(file.read(), expected)
    assert_tables_equal(file.read(RowRanges.of(17, 140)), expected.slice(17, 123))
    rows = [0, 7, 8, 100, 149]
    assert_tables_equal(file.read(single_rows(rows)), expected.take(rows))
    reader = open_data_file(open_store(str(make_v2_0.FOLDER)), f"{release}.lance")
    assert_tables_equal(reader.read_table(), expected)


def test_the_files_hold_what_they_are_here_for() -> None:
    folder = make_v2_0.FOLDER
    assert 'scheme: "zstd"' in encoding_of(folder / "0.16.1.lance", "zstd_ints")
    assert "bytes { nullable" in encoding_of(folder / "0.16.1.lance", "unique")
    assert b"\x28\xb5\x2f\xfd" in (folder / "0.19.2.lance").read_bytes()
    assert 'scheme: "zstd"' in encoding_of(folder / "0.19.2.lance", "zstd_text")
    assert 'scheme: "lz4"' in encoding_of(folder / "0.39.0.lance", "lz4_text")
    assert encoding_of(folder / "0.39.0.lance", "fsst_text").startswith("fsst")


def test_members_of_a_sliced_struct_are_too_long() -> None:
    reader = open_data_file(open_store(str(make_v2_0.FOLDER)), "0.19.2-sliced.lance")
    with pytest.raises(CorruptFileError, match="40 rows, but a member 150"):
        reader.read_table()
