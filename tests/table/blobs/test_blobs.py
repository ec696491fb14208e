"""Blob columns of files of 2.2, written and read by this library and by the reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.blob import Blob, blob_array
from lance.blob import blob_field as reference_field

import lance_spark
from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError, NotFoundError, UnsupportedFeatureError
from lance_spark.file import blob_writer, joined_reader
from lance_spark.file_version import FileVersion
from lance_spark.schema.blob import blob_field
from lance_spark.storage.base import ByteRange
from lance_spark.storage.local.store import LocalStore
from lance_spark.storage.meter import READS
from lance_spark.table.reading.blobs import binary_scan
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.blobs.blob_file import BlobReader
from lance_spark.table.reading.reader import ScanReader
from lance_spark.table.reading.scan import Scan

KIB = 1 << 10
VALUES = [b"hello", None, b"", b"x" * 64 * KIB, b"y" * (64 * KIB + 1), b"z" * 99_999, b"w" * 4096 * KIB]
VALUES += [b"v" * (4096 * KIB + 1), b"q"]
"""One of each size class, the limits of the classes among them."""


def sizes(inline: int = 10, dedicated: int = 1000, pack: int = 600) -> dict[str, int]:
    return {
        "inline_size_threshold": inline,
        "dedicated_size_threshold": dedicated,
        "pack_file_size_threshold": pack,
    }


def rows(values: list[bytes | None], first_id: int = 0, **limits: int) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("img", **limits)])
    return pa.table({"id": range(first_id, first_id + len(values)), "img": values}, schema=schema)


def rows_of_reference(values: list[Any], first_id: int = 0, **limits: int) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64()), reference_field("img", **limits)])
    ids = pa.array(range(first_id, first_id + len(values)), pa.int64())
    return pa.table([ids, blob_array(values)], schema=schema)


def by_us(uri: str, values: list[bytes | None], **limits: int) -> None:
    lance_spark.write(rows(values, **limits), uri)


def by_reference(uri: str, values: list[bytes | None], **limits: int) -> None:
    lance.write_dataset(rows_of_reference(values, **limits), uri, data_storage_version="2.2")


WRITERS = [pytest.param(by_us, id="ours"), pytest.param(by_reference, id="reference")]
Writer = Callable[..., None]


def content(uri: str) -> dict[int, bytes | None]:
    """The values by id, as both libraries read them."""
    ours = lance_spark.open(uri).to_table(blob_handling="all_binary")
    theirs = lance.dataset(uri).scanner(blob_handling="all_binary").to_table()
    found = dict(zip(ours["id"].to_pylist(), ours["img"].to_pylist(), strict=True))
    assert found == dict(zip(theirs["id"].to_pylist(), theirs["img"].to_pylist(), strict=True))
    assert len(found) == ours.num_rows
    return found


def sidecars(root: str) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in Path(root).rglob("*.blob"))


def described(uri: str) -> list[Any]:
    found: list[Any] = lance_spark.open(uri).to_table()["img"].to_pylist()
    return found


@pytest.mark.parametrize("limits", [{}, sizes(), sizes(0, 5, 6), sizes(inline=1 << 30)], ids=str)
def test_descriptions_and_sidecars_are_those_of_pylance(tmp_path: Path, limits: dict[str, int]) -> None:
    values = [*VALUES[:6], b"a" * 11, b"b" * 500, b"c" * 500, b"d" * 1000, b"e" * 1001, *VALUES[6:]]
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    by_us(ours, values, **limits)
    by_reference(theirs, values, **limits)
    assert described(ours) == described(theirs)
    assert described(ours) == lance.dataset(ours).to_table()["img"].to_pylist()
    assert [os.path.basename(path) for path in sidecars(ours)] == [os.path.basename(path) for path in sidecars(theirs)]
    assert content(ours) == dict(enumerate(values))


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_rows_keep_their_blobs_through_all_operations(tmp_path: Path, writer: Writer, stable_row_ids: bool) -> None:
    uri = str(tmp_path / "t")
    if stable_row_ids:
        lance_spark.write(rows(VALUES, **sizes()), uri, enable_stable_row_ids=True)
    else:
        writer(uri, VALUES, **sizes())
    expected = dict(enumerate(VALUES))
    lance_spark.write(rows([b"appended", None, b"x" * 700], 100), uri, mode="append")
    expected |= {100: b"appended", 101: None, 102: b"x" * 700}
    assert content(uri) == expected
    lance.write_dataset(rows_of_reference([b"theirs", b"y" * 1001], 200), uri, mode="append")
    expected |= {200: b"theirs", 201: b"y" * 1001}
    lance_spark.open(uri).update({"id": "id + 1000"}, "id % 3 = 0")
    expected = {number + 1000 if number % 3 == 0 else number: value for number, value in expected.items()}
    assert content(uri) == expected
    lance_spark.open(uri).update({"img": b"new"}, "id = 1")
    lance_spark.open(uri).update({"img": None}, "id = 4")
    expected |= {1: b"new", 4: None}
    source = pa.table({"id": [2, 77], "img": pa.array([b"m" * 900, b"n"], pa.binary())})
    lance_spark.open(uri).merge(source, "id")
    lance_spark.open(uri).merge(pa.table({"id": [5, 78]}), "id")
    expected |= {2: b"m" * 900, 77: b"n", 78: None}
    assert content(uri) == expected
    lance_spark.open(uri).delete("id = 8")
    lance_spark.open(uri).compact()
    del expected[8]
    assert content(uri) == expected
    assert len(lance_spark.open(uri).fragments) == 1
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=3)
    lance_spark.open(uri).update({"id": "id"}, "img IS NOT NULL")
    assert content(uri) == expected
    lance_spark.open(uri).cleanup(timedelta(0))
    assert content(uri) == expected
    stems = {os.path.dirname(path) for path in sidecars(uri)}
    assert stems <= {f"data/{path.stem}" for path in Path(uri, "data").glob("*.lance")}


def test_blob_inside_of_a_struct(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    member = pa.struct([pa.field("n", pa.int64()), blob_field("img", **sizes())])
    values = [{"n": 1, "img": b"a" * 700}, {"n": 2, "img": None}, None, {"n": 4, "img": b"small"}]
    lance_spark.write(pa.table({"s": pa.array(values, member)}, schema=pa.schema([pa.field("s", member)])), uri)
    lance_spark.open(uri).update({"s.n": "s.n + 1"}, "s.n < 4")
    expected = [values[2], {**values[3]}, {"n": 2, "img": b"a" * 700}, {"n": 3, "img": None}]
    assert lance_spark.open(uri).to_table(blob_handling="all_binary")["s"].to_pylist() == expected
    found = lance.dataset(uri).take_blobs("s.img", indices=[1, 2])
    assert [item and item.readall() for item in found] == [b"small", b"a" * 700]
    ours = lance_spark.open(uri).take_blobs("s.img", indices=[2, 3, 0])
    assert [item and item.readall() for item in ours] == [b"a" * 700, None, None]
    assert lance_spark.open(uri).count_rows("s.img.size > 100") == 1


def test_older_declaration_becomes_a_struct_as_in_pylance(tmp_path: Path) -> None:
    table = rows([b"abc"])
    lance_spark.write(table, str(tmp_path / "ours"))
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version="2.2")
    ours, theirs = (lance_spark.open(str(tmp_path / name)).lance_schema for name in ("ours", "theirs"))
    assert ours.fields == theirs.fields


def test_references_are_followed_only_if_allowed(tmp_path: Path) -> None:
    target = tmp_path / "out side.bin"
    target.write_bytes(b"0123456789")
    place = target.as_uri()
    uri = str(tmp_path / "t")
    values = [Blob(uri=place), Blob(uri=place, position=3, size=4), b"own"]
    lance_spark.write(rows_of_reference(values), uri)
    dataset = lance_spark.open(uri)
    with pytest.raises(InvalidInputError, match="allow_external_blobs"):
        dataset.to_table(blob_handling="all_binary")
    with pytest.raises(InvalidInputError, match="allow_external_blobs"):
        dataset.take_blobs("img", indices=[0])
    expected = [b"0123456789", b"3456", b"own"]
    found = dataset.to_table(blob_handling="all_binary", allow_external_blobs=True)
    assert found["img"].to_pylist() == expected
    assert [item.readall() for item in lance.dataset(uri).take_blobs("img", indices=[0, 1, 2])] == expected
    dataset.update({"id": "id + 1"})
    moved = lance_spark.open(uri).read_blobs("img", indices=[0, 1, 2], allow_external_blobs=True)
    assert [value for _, value in moved] == expected
    target.unlink()
    with pytest.raises(NotFoundError):
        lance_spark.open(uri).read_blobs("img", indices=[0], allow_external_blobs=True)


def test_files_and_values_of_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    by_us(uri, VALUES, **sizes())
    lance_spark.write(rows(VALUES, 100), uri, mode="append")
    dataset = lance_spark.open(uri).delete("id = 3")
    numbers = dataset.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    addresses, ids = numbers["_rowaddr"].to_pylist(), numbers["_rowid"].to_pylist()
    wanted = [16, 0, 4, 4, 1]
    expected = [(VALUES[:3] + VALUES[4:] + VALUES)[place] for place in wanted]
    by_address = dataset.read_blobs("img", addresses=[addresses[place] for place in wanted])
    assert by_address == list(zip([addresses[place] for place in wanted], expected, strict=True))
    assert dataset.read_blobs("img", ids=[ids[place] for place in wanted]) == by_address
    assert dataset.read_blobs("img", indices=wanted) == by_address
    theirs = [item and item.readall() for item in lance.dataset(uri).take_blobs("img", indices=wanted)]
    assert theirs == expected
    file = dataset.take_blobs("img", indices=[5])[0]
    assert file is not None
    assert (file.size, file.readable(), file.seekable()) == (4096 * KIB, True, True)
    file.seek(-3, os.SEEK_END)
    assert (file.read(10), file.read(1), file.tell()) == (b"www", b"", file.size)
    assert file.read_ranges([(0, 2), (file.size - 1, 5), (file.size, 1)]) == [b"ww", b"w", b""]
    with pytest.raises(InvalidInputError):
        file.read_range(file.size + 1, 1)
    for arguments in ({"addresses": [3]}, {"ids": [1 << 40]}, {"ids": [-1]}):
        with pytest.raises(NotFoundError):
            dataset.take_blobs("img", **arguments)
    for arguments in ({}, {"ids": [0], "indices": [0]}, {"ids": ["a"]}, {"indices": [17]}):
        with pytest.raises(InvalidInputError):
            dataset.take_blobs("img", **arguments)
    with pytest.raises(InvalidInputError, match="not a blob column"):
        dataset.take_blobs("id", indices=[0])
    with pytest.raises(NotFoundError):
        dataset.take_blobs("none", indices=[0])


@pytest.mark.parametrize("small_file_bytes", [0, 1 << 20], ids=["pages of few files", "joined files"])
@pytest.mark.parametrize("write", [by_us, by_reference])
def test_values_of_several_fragments_are_read_together(
    tmp_path: Path, write: Writer, small_file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    write(uri, VALUES, **sizes())
    for number in range(1, 4):
        more = [value and bytes([number]) + value for value in VALUES]
        lance_spark.write(rows(more, 100 * number), uri, mode="append")
    dataset = lance_spark.open(uri).delete("id IN (3, 104)")
    wanted = np.random.default_rng(3).permutation(dataset.count_rows()).tolist()
    expected = [item and item.readall() for item in lance.dataset(uri).take_blobs("img", indices=wanted)]

    def alone(*_: object) -> None:
        raise AssertionError("a fragment is read alone")

    monkeypatch.setattr(joined_reader, "_SMALL_FILE_BYTES", small_file_bytes)
    monkeypatch.setattr(ScanReader, "_fragment", alone)
    for indices, values in ((wanted, expected), (wanted[:3], expected[:3])):
        assert [value for _, value in dataset.read_blobs("img", indices=indices)] == values
    assert dataset.to_table(["id", "img"], blob_handling="all_binary")["img"].to_pylist() == [
        value for _, value in sorted(zip(wanted, expected, strict=True))
    ]


def test_filters_limits_and_projections_with_bytes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    by_us(uri, VALUES, **sizes())
    dataset = lance_spark.open(uri)
    found = dataset.to_table(["img", "id"], filter="img.size > 100", limit=2, offset=1, blob_handling="all_binary")
    assert found.column_names == ["img", "id"]
    assert found.to_pylist() == [{"img": VALUES[4], "id": 4}, {"img": VALUES[5], "id": 5}]
    assert dataset.to_table(["id"], "img IS NULL", blob_handling="all_binary").to_pylist() == [{"id": 1}]
    with pytest.raises(InvalidInputError, match="blob_handling"):
        dataset.to_table(blob_handling="bytes")


def test_bytes_come_in_small_batches_and_can_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_scan, "BATCH_BYTES", 200 * KIB)
    by_us(str(tmp_path / "a"), VALUES)
    batches = list(lance_spark.open(str(tmp_path / "a")).scan(blob_handling="all_binary"))
    assert [batch.num_rows for batch in batches] == [5, 1, 1, 1, 1]
    copy = lance_spark.write(batches, str(tmp_path / "b"))
    assert content(copy.uri) == dict(enumerate(VALUES))


def test_copying_holds_few_bytes_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    values: list[bytes | None] = [bytes([number]) * 300 * KIB for number in range(20)]
    by_us(uri, values, **sizes(inline=0, dedicated=1 << 20, pack=1 << 30))
    monkeypatch.setattr(blob_writer, "COPY_BYTES", 512 * KIB)
    asked: list[int] = []
    read_ranges = LocalStore.read_ranges

    def counted(self: LocalStore, path: str, ranges: Any) -> Any:
        if path.endswith(".blob"):
            asked.append(sum(item.length for item in ranges))
        return read_ranges(self, path, ranges)

    monkeypatch.setattr(LocalStore, "read_ranges", counted)
    lance_spark.open(uri).update({"id": "id"})
    assert len(asked) == 10
    assert max(asked) <= 2 * 300 * KIB
    assert content(uri) == dict(enumerate(values))


def test_size_limit_of_files_counts_sidecars(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = rows([b"a" * 100 * KIB] * 8)
    lance_spark.write(table.to_batches(max_chunksize=2), uri, max_bytes_per_file=150 * KIB)
    assert len(lance_spark.open(uri).fragments) == 4
    lance_spark.write(rows([b"a"], 50), uri, mode="append")
    lance_spark.open(uri).update({"id": "id"})
    assert len(content(uri)) == 9


@pytest.mark.parametrize("step", ["write", "commit"])
def test_failed_write_leaves_no_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    uri = str(tmp_path / "t")
    by_us(uri, [b"first"])
    good = rows([b"a" * 100 * KIB, b"b" * 5000 * KIB], 10).to_batches()[0]

    def batches() -> Any:
        yield good
        if step == "write":
            raise OSError("the source broke")

    if step == "commit":

        def no_commit(self: LocalStore, path: str, data: Any) -> Any:
            raise lance_spark.StorageError("the disk is full")

        monkeypatch.setattr(LocalStore, "put", no_commit)
        monkeypatch.setattr(LocalStore, "put_if_absent", no_commit)
    with pytest.raises((OSError, LanceError)):
        lance_spark.write(batches(), uri, mode="append", schema=good.schema)
    assert sidecars(uri) == []
    assert len(list(Path(uri, "data").glob("*.lance"))) == 1


def test_sidecars_without_a_data_file_are_removed_as_orphans(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    by_us(uri, VALUES)
    kept = sidecars(uri)
    folder = Path(uri, "data", "0" * 24 + "ab" * 13)
    folder.mkdir()
    (folder / f"1{'0' * 31}.blob").write_bytes(b"left by a killed task")
    lance_spark.open(uri).remove_orphans(timedelta(0))
    assert sidecars(uri) == kept
    assert content(uri) == dict(enumerate(VALUES))


def test_what_is_no_blob_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    by_us(uri, [b"a"])
    table = lance_spark.open(uri).to_table()
    with pytest.raises(InvalidInputError, match="descriptions of blobs"):
        lance_spark.write(table, uri, mode="append")
    with pytest.raises(InvalidInputError, match="binary values, or structs"):
        lance_spark.write(pa.table({"img": ["text"]}), uri, mode="append")
    with pytest.raises(InvalidInputError, match="bytes or None"):
        lance_spark.open(uri).update({"img": "id + 1"})
    with pytest.raises(InvalidInputError, match="part of the blob"):
        lance_spark.open(uri).update({"img.data": b"x"})
    both = pa.array([{"data": b"a", "uri": "s3://b/c"}], pa.struct([("data", pa.large_binary()), ("uri", pa.string())]))
    with pytest.raises(InvalidInputError, match="both"):
        lance_spark.write(pa.table({"img": both}), uri, mode="append")
    in_list = pa.field("l", pa.list_(blob_field("item")))
    lists = pa.table({"l": pa.array([[b"a"]], in_list.type)}, schema=pa.schema([in_list]))
    with pytest.raises(UnsupportedFeatureError, match="in lists"):
        lance_spark.write(lists, str(tmp_path / "l"))
    metadata = {**blob_field("img").metadata, b"lance-encoding:blob-inline-size-threshold": b"many"}
    wrong = pa.schema([pa.field("img", pa.large_binary(), metadata=metadata)])
    with pytest.raises(InvalidInputError, match="not a number of bytes"):
        lance_spark.write(pa.table({"img": [b"a"]}, schema=wrong), str(tmp_path / "m"))
    assert content(uri) == {0: b"a"}


def test_lost_and_short_sidecars_are_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    by_us(uri, [b"a" * 100 * KIB, b"b" * 200 * KIB])
    (sidecar,) = sidecars(uri)
    os.truncate(Path(uri, sidecar), 150 * KIB)
    dataset = lance_spark.open(uri)
    assert dataset.read_blobs("img", indices=[0])[0][1] == b"a" * 100 * KIB
    with pytest.raises(lance_spark.CorruptFileError, match="blob"):
        dataset.read_blobs("img", indices=[1])
    with pytest.raises(lance_spark.CorruptFileError, match="blob"):
        dataset.update({"id": "id + 1"})
    Path(uri, sidecar).unlink()
    with pytest.raises(NotFoundError, match="blob"):
        dataset.take_blobs("img", indices=[0])[0].read(1)  # type: ignore[union-attr]
    assert dataset.version == lance_spark.open(uri).version


@pytest.mark.parametrize("merges", [False, True], ids=["add_columns", "merge_schema"])
def test_blob_column_is_added_to_a_table(tmp_path: Path, merges: bool) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"id": [1, 2]}), uri)
    if merges:
        lance_spark.write(rows([b"three"], 3), uri, mode="append", merge_schema=True)
    else:
        lance_spark.open(uri).add_columns(blob_field("img"))
        lance_spark.write(rows([b"three"], 3), uri, mode="append")
    lance_spark.open(uri).update({"img": b"x" * 100_000}, "id = 1")
    lance_spark.open(uri).update({"id": "id + 10"}, "id > 1")
    assert content(uri) == {1: b"x" * 100_000, 12: None, 13: b"three"}
    lance_spark.write(pa.table({"id": [1]}), str(tmp_path / "old"), file_format_version="2.1")
    with pytest.raises(UnsupportedFeatureError, match=r"version 2\.2"):
        lance_spark.open(str(tmp_path / "old")).add_columns(blob_field("img"))


def test_parts_of_values_are_read_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(bytes(range(200)) * 1000)
    uri = str(tmp_path / "t")
    values = [bytes(range(200)) * times for times in (100, 1000, 40_000)]
    by_us(uri, [*values, None, b""], inline_size_threshold=30_000)
    lance.write_dataset(
        rows_of_reference([Blob.from_uri(outside.as_uri())], 5),
        uri,
        mode="append",
        allow_external_blob_outside_bases=True,
    )
    files = lance_spark.open(uri).take_blobs("img", indices=range(6), buffer_size=16, allow_external_blobs=True)
    assert [row and row["kind"] for row in described(uri)] == [0, 1, 2, None, 0, 3]
    for file, size in zip((files[0], files[1], files[2], files[5]), (20_000, 200_000, 8_000_000, 200_000), strict=True):
        assert file is not None
        assert file.size == size
        before = READS.counts
        assert file.read_range(size - 150, 100) == bytes(range(50, 150))
        assert file.read_range(size - 5, 100) == bytes(range(195, 200))
        assert ((READS.counts - before).requests, (READS.counts - before).num_bytes) == (2, 105)
        file.seek(-190, os.SEEK_END)
        assert file.read(3) == bytes([10, 11, 12])
        assert (READS.counts - before).num_bytes == 105 + 16


def test_scan_of_parts_reads_only_these_bytes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = [bytes(range(200)) * times for times in (100, 1000, 40_000)]
    by_us(uri, [*values, None, b"", b"ab"], inline_size_threshold=30_000)
    dataset = lance_spark.open(uri)
    schema = with_blob_descriptors(dataset.lance_schema, FileVersion.V2_2, with_source=True)
    bases = dataset.location.bases(dataset.manifest)
    scan = Scan.of(schema, bases, columns=["img"])
    batches = list(scan.read(dataset.manifest.fragments))
    before = READS.counts
    found = list(binary_scan.with_bytes(batches, BlobReader(bases), ranges={"img": ByteRange(1, 60)}))
    assert (READS.counts - before).num_bytes == 60 * 3 + 1
    part = bytes(range(1, 61))
    assert [value for batch in found for value in batch["img"].to_pylist()] == [part, part, part, None, b"", b"b"]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_values_of_older_file_versions_are_read(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    values = [b"first", None, b"", b"x" * 100_000, b"last"]
    lance.write_dataset(rows(values), uri, data_storage_version=version)
    dataset = lance_spark.open(uri)
    assert dataset.to_table(blob_handling="all_binary")["img"].to_pylist() == values
    changed = dataset.delete("id = 2")
    assert changed.read_blobs("img", indices=[3, 0, 1, 3]) == [(4, b"last"), (0, b"first"), (1, None), (4, b"last")]
    assert changed.read_blobs("img", addresses=[3]) == [(3, values[3])]
    assert sorted(changed.to_table()["id"].to_pylist()) == [0, 1, 3, 4]


def test_lists_of_blobs_are_read_as_descriptions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    item = pa.field("l", pa.list_(blob_field("item")))
    table = pa.table({"l": pa.array([[b"a", b"bc"], None], item.type)}, schema=pa.schema([item]))
    lance.write_dataset(table, uri, data_storage_version="2.2")
    found = lance_spark.open(uri).to_table()
    assert found["l"].to_pylist() == lance.dataset(uri).to_table()["l"].to_pylist()
    assert [value["size"] for value in found["l"][0].as_py()] == [1, 2]
    with pytest.raises(UnsupportedFeatureError, match="has blobs in lists"):
        lance_spark.open(uri).to_table(blob_handling="all_binary")
    with pytest.raises(UnsupportedFeatureError, match="in lists"):
        lance_spark.open(uri).update({"l": None})


@pytest.mark.parametrize("writer", [by_us, by_reference])
def test_compaction_reads_no_byte_of_values_that_have_a_sidecar(
    tmp_path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    values: list[bytes | None] = [b"a" * 5000, b"small", b"b" * 3000, None]
    writer(uri, values, **sizes())
    lance_spark.write(rows([b"c" * 4000], 100), uri, mode="append")
    read: list[str] = []
    read_range, read_ranges = LocalStore.read_range, LocalStore.read_ranges

    def noted(self: LocalStore, path: str, byte_range: ByteRange) -> pa.Buffer:
        read.append(path)
        return read_range(self, path, byte_range)

    def all_noted(self: LocalStore, path: str, byte_ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        read.append(path)
        return read_ranges(self, path, byte_ranges)

    monkeypatch.setattr(LocalStore, "read_range", noted)
    monkeypatch.setattr(LocalStore, "read_ranges", all_noted)
    before = set(sidecars(uri))
    lance_spark.open(uri).compact()
    assert not [path for path in read if path.endswith(".blob")]
    assert len(set(sidecars(uri)) - before) == 3
    monkeypatch.undo()
    assert content(uri) == dict(enumerate(values)) | {100: b"c" * 4000}
    blobs = lance.dataset(uri).take_blobs("img", indices=[0, 2, 4])
    assert [blob.readall() for blob in blobs] == [b"a" * 5000, b"b" * 3000, b"c" * 4000]


def test_a_sidecar_of_another_size_is_not_copied(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    by_us(uri, [b"a" * 5000, b"b" * 3000], **sizes())
    lance_spark.write(rows([b"c"], 100), uri, mode="append")
    longer, shorter = sorted(sidecars(uri), key=lambda path: -Path(uri, path).stat().st_size)
    with Path(uri, longer).open("ab") as file:
        file.write(b"more")
    lance_spark.open(uri).compact()
    assert content(uri)[0] == b"a" * 5000
    lance_spark.open(uri).restore(2)
    os.truncate(Path(uri, shorter), 2999)
    with pytest.raises(CorruptFileError):
        lance_spark.open(uri).compact()
    assert lance_spark.open(uri).count_rows() == 3
