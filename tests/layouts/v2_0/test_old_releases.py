"""Files of old releases: bare zstd frames, nullable bytes, compressed integers, members longer than their struct."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.cli.inspect import describe_columns
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.open_file import open_data_file
from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.wire import fields_to_proto
from lance_spark.storage.cache import shared
from lance_spark.storage.registry import open_store
from tests.golden import make_v2_0
from tests.layouts.v2_0.files import OpenFile, encodings_of, single_rows
from tests.support.equality import assert_tables_equal
from tests.support.manifest_surgery import edit_manifest


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


def first_release() -> FileReader:
    reader = open_data_file(open_store(str(make_v2_0.FOLDER)), "0.13.0.lance")
    assert isinstance(reader, FileReader)
    return reader


def test_texts_that_are_lists_of_bytes_and_structs_that_are_not_packed() -> None:
    expected, reader = make_v2_0.table(), first_release()
    assert_tables_equal(reader.read_table(), expected)
    for name in expected.column_names:
        assert_tables_equal(reader.read_table([name]), expected.select([name]))
    [field] = [field for field in reader.schema.fields if field.name == "unique"]
    column = reader.columns[field.id]
    assert column + 1 not in reader.columns.values()
    [row] = [row for row in describe_columns(reader) if row["name"] == "unique"]
    assert (row["column"], row["pages"][0]["encodings"][0]) == (column, "list")


def test_table_of_the_first_release(tmp_path: Path) -> None:
    """Its data file stands in a table, as each of three fragments."""
    expected, reader = make_v2_0.table(), first_release()
    lance.write_dataset(pa.table({"a": range(3)}), str(tmp_path), data_storage_version="2.0", max_rows_per_file=1)
    for number in range(3):
        shutil.copyfile(make_v2_0.FOLDER / "0.13.0.lance", tmp_path / "data" / f"{number}.lance")

    def edit(manifest: table_pb2.Manifest) -> None:
        del manifest.fields[:]
        manifest.fields.extend(fields_to_proto(reader.schema.fields))
        for number, fragment in enumerate(manifest.fragments):
            fragment.physical_rows = make_v2_0.ROWS
            del fragment.files[:]
            fragment.files.add(
                path=f"{number}.lance",
                fields=reader.columns.keys(),
                column_indices=reader.columns.values(),
                file_minor_version=3,
            )

    edit_manifest(tmp_path, edit)
    shared.clear()
    table, whole = lance_spark.open(str(tmp_path)), pa.concat_tables([expected] * 3)
    # The reference library reads neither blobs nor packed structs of such a file.
    names = [name for name in expected.column_names if name not in ("blob", "packed")]
    assert_tables_equal(table.to_table(blob_handling="all_binary"), whole)
    with pytest.raises(UnsupportedFeatureError, match="'blob' has its values in pages"):
        table.to_table()
    assert_tables_equal(lance.dataset(str(tmp_path)).to_table(names).combine_chunks(), whole.select(names))
    assert_tables_equal(
        table.take([0, 7, 149, 150, 401], blob_handling="all_binary"), whole.take([0, 7, 149, 150, 401])
    )
    assert table.count_rows("unique = 'value 77'") == 3
    assert table.to_table(["int"], "words = 'word 2'").num_rows == 3 * expected["words"].to_pylist().count("word 2")
    compacted = table.drop_columns(["blob"]).compact(target_rows_per_fragment=1000)
    assert len(compacted.fragments) == 1
    assert_tables_equal(compacted.to_table(), whole.drop_columns(["blob"]))


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
