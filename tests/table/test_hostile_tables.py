"""Manifests and deletion files that are well formed and claim what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.storage.cache import shared
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.operations.update import with_rewritten_columns
from lance_spark.table.rows.deletion_vector import DeletionFileType, DeletionVector
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence
from tests.support.manifest_surgery import ManifestEdit, edit_manifest

ROWS = 200
ARROW, BITMAP = DeletionFileType.ARROW_ARRAY, DeletionFileType.BITMAP
READS: dict[str, Callable[[lance_spark.Dataset], Any]] = {
    "to_table": lambda table: table.to_table(),
    "count_rows": lambda table: table.count_rows(),
    "count_rows with a filter": lambda table: table.count_rows("a > 5"),
    "row addresses": lambda table: table.to_table(columns=[], with_row_address=True),
    "take": lambda table: table.take([1, 7]),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"a": range(ROWS)}), str(path))
    lance.dataset(str(path)).delete("a % 10 = 3")
    shared.clear()
    return path


def claims(**counts: int) -> Callable[[table_pb2.Manifest], None]:
    def edit(manifest: table_pb2.Manifest) -> None:
        fragment = manifest.fragments[0]
        fragment.physical_rows = counts.get("physical_rows", fragment.physical_rows)
        fragment.id = counts.get("id", fragment.id)
        if "deleted" in counts:
            fragment.deletion_file.num_deleted_rows = counts["deleted"]

    return edit


@pytest.fixture(autouse=True)
def allocates_little() -> Any:
    pool = pa.default_memory_pool()
    before = max(pool.max_memory(), pool.bytes_allocated() + (200 << 20))
    yield
    assert pool.max_memory() <= before


@pytest.mark.parametrize("counts", [
    {"physical_rows": 2**32 + 1},
    {"physical_rows": 2**63},
    {"physical_rows": 2**64 - 1},
    {"deleted": ROWS + 1},
    {"deleted": 2**32},
    {"deleted": 2**63, "physical_rows": 2**63},
    {"deleted": 2**32 + 1, "physical_rows": 0},
    {"id": 2**32},
    {"id": 2**63},
], ids=str)  # fmt: skip
def test_impossible_counts_are_refused_at_open(table: Path, counts: dict[str, int]) -> None:
    edit_manifest(table, claims(**counts))
    with pytest.raises(CorruptFileError, match="fragment"):
        lance_spark.open(str(table))


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("rows", [2**25, 2**31, 2**32])
def test_rows_beyond_the_data_file_are_refused(table: Path, rows: int, read: str) -> None:
    edit_manifest(table, claims(physical_rows=rows))
    opened = lance_spark.open(str(table))
    if read == "count_rows":
        # Counted from the manifest alone, as it must be for tables of many fragments.
        assert opened.count_rows() == rows - ROWS // 10
        return
    with pytest.raises(CorruptFileError, match="rows"):
        READS[read](opened)


def test_rows_of_fragment_without_file_are_bounded(table: Path) -> None:
    def edit(manifest: table_pb2.Manifest) -> None:
        del manifest.fragments[0].files[:]
        manifest.fragments[0].ClearField("deletion_file")
        manifest.fragments[0].physical_rows = 2**32

    edit_manifest(table, edit)
    with pytest.raises(CorruptFileError, match="its file has 0"):
        lance_spark.open(str(table)).to_table()


@pytest.mark.parametrize("read", ["to_table", "take", "count_rows of nulls"])
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize(
    "kind",
    [
        "fixed_size_list:fixed_size_list:float:65536:65536",
        "fixed_size_list:fixed_size_list:fixed_size_list:float:999999999:999999999:999999999",
        "fixed_size_list:float:999999999",
        "fixed_size_binary:999999999",
    ],
)
def test_nulls_of_a_type_beyond_measure_are_refused(tmp_path: Path, kind: str, version: Any, read: str) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"a": range(ROWS)}), str(path), data_storage_version=version)

    def edit(manifest: table_pb2.Manifest) -> None:
        manifest.fields.add(name="x", id=77, parent_id=-1, logical_type=kind, nullable=True)

    edit_manifest(path, edit)
    reads = {**READS, "count_rows of nulls": lambda table: table.count_rows("x IS NULL")}
    with pytest.raises(CorruptFileError, match="nulls of type"):
        reads[read](lance_spark.open(str(path)))


@pytest.mark.parametrize("counts", [{"physical_rows": 2**32 + 1}, {"id": 2**32}], ids=str)
def test_impossible_counts_are_refused_in_fragments_of_tasks(table: Path, counts: dict[str, int]) -> None:
    message = lance_spark.open(str(table)).fragments[0].to_proto()
    manifest = table_pb2.Manifest(fragments=[message])
    claims(**counts)(manifest)
    with pytest.raises(CorruptFileError):
        DataFragment.from_bytes(manifest.fragments[0].SerializeToString())


@pytest.mark.parametrize(("versions", "offsets"), [(5, range(1 << 32)), (5, [5]), (6, [1]), (1 << 31, [1])])
def test_rows_that_an_update_claims_are_refused_before_they_are_listed(versions: int, offsets: Iterable[int]) -> None:
    bitmap = pyroaring.BitMap(offsets)
    bitmap.run_optimize()
    before = table_pb2.DataFragment(id=0, physical_rows=5)
    before.files.add(path="old.lance", fields=[0], column_indices=[0], file_major_version=2, file_minor_version=1)
    before.inline_last_updated_at_versions = RowDatasetVersionSequence.uniform(versions, 1).to_bytes()
    after = table_pb2.DataFragment.FromString(before.SerializeToString())
    after.files[0].path = "new.lance"
    updated = [DataFragment.from_proto(after)]
    with pytest.raises(CorruptFileError, match=r"has changed row|row versions"):
        with_rewritten_columns(FragmentList([before]), updated, {FragmentId(0): bitmap.serialize()}, {0}, 9)


# Deletion files


def _arrow_bomb(rows: int, claimed: int | None = None) -> bytes:
    """A valid compressed file of `rows` zeros, whose first compressed buffer claims `claimed` bytes."""
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch([pa.array(np.zeros(rows, np.uint32))], schema=schema))
    content = sink.getvalue().to_pybytes()
    if claimed is None:
        return content
    prefix = (4 * rows).to_bytes(8, "little")
    assert content.count(prefix + b"\x28\xb5\x2f\xfd") == 1
    return content.replace(prefix, claimed.to_bytes(8, "little", signed=True), 1)


def decode(kind: DeletionFileType, content: bytes, rows: int | None = 1000, deleted: int | None = None) -> list[int]:
    return DeletionVector.decode(kind, content, physical_rows=rows, num_deleted_rows=deleted).offsets.tolist()


@pytest.mark.parametrize("claimed", [2**31, 2**40, 2**62, 2**63 - 1, -2, -(2**63)])
def test_arrow_deletion_file_with_claimed_bytes_is_refused(claimed: int) -> None:
    with pytest.raises(CorruptFileError, match="claims to decompress"):
        decode(ARROW, _arrow_bomb(500, claimed))


def test_arrow_deletion_file_with_too_many_rows_is_refused_before_decompression() -> None:
    bomb = _arrow_bomb(20_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(CorruptFileError, match="at most 1000"):
        decode(ARROW, bomb)
    with pytest.raises(CorruptFileError, match="at most 20"):
        decode(ARROW, bomb, None, 20)


@pytest.mark.parametrize("rows", [2**20, 2**32 - 1])
def test_bitmap_with_too_many_rows_is_refused_before_it_is_listed(rows: int) -> None:
    bitmap = pyroaring.BitMap()
    bitmap.add_range(0, rows)
    bitmap.run_optimize()
    content = bitmap.serialize()
    for limits in ((1000, None), (None, 20), (2**32, 20)):
        with pytest.raises(CorruptFileError, match="at most"):
            decode(BITMAP, content, *limits)


def test_uncompressed_buffers_of_compressed_arrow_files_are_read() -> None:
    # Arrow keeps a buffer as it is, and says so with -1, where compression does not pay.
    values = np.random.default_rng(3).permutation(1000)[:40].astype(np.uint32)
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(pa.record_batch([pa.array(values)], schema=schema))
    assert decode(ARROW, sink.getvalue().to_pybytes()) == sorted(values.tolist())


def test_arrow_deletion_file_flipped_anywhere() -> None:
    content = _arrow_bomb(1)
    for position in range(len(content)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[position] ^= flip
            try:
                found = decode(ARROW, bytes(damaged))
            except lance_spark.LanceError:
                continue
            assert len(found) <= 1000


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delete("a = 12"),
        lambda table: table.update({"a": "-1"}, "a = 12"),
        lambda table: table.merge(pa.table({"a": [12, 99]}), "a"),
        lambda table: table.compact(),
    ],
    ids=["delete", "update", "merge", "compact"],
)
def test_fragments_of_one_id_lose_no_rows(tmp_path: Path, change: Callable[[lance_spark.Dataset], object]) -> None:
    """What is said of one fragment by its id would be done to the other too. The release 0.16 wrote such tables."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(30)}), uri, max_rows_per_file=10, data_storage_version="2.0")

    def as_of_old(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[2].id = 1
        with_old_numbers(manifest)

    edit_manifest(tmp_path / "t", as_of_old)
    shared.clear()
    with pytest.raises(InvalidInputError, match=r"share an id|for the same of the fragments"):
        change(lance_spark.open(uri))
    assert lance_spark.open(uri).to_table()["a"].to_pylist() == list(range(30))


def two_fragments(path: Path) -> Path:
    """Rows 0 to 19 of `a` and `b` in two fragments, `c` in files of its own."""
    lance.write_dataset(pa.table({"a": range(20), "b": range(20)}), str(path), max_rows_per_file=10)
    lance.dataset(str(path)).add_columns({"c": "a + 1"})
    shared.clear()
    return path


def one_id_for_two_fragments(manifest: table_pb2.Manifest) -> None:
    manifest.fragments[1].id = manifest.fragments[0].id


def one_fragment_twice(manifest: table_pb2.Manifest) -> None:
    manifest.fragments.append(manifest.fragments[0])


def with_old_numbers(manifest: table_pb2.Manifest) -> None:
    """The numbers that old releases gave files of version 2.0."""
    for fragment in manifest.fragments:
        for file in fragment.files:
            file.file_major_version, file.file_minor_version = 0, 3


def one_old_fragment_twice(manifest: table_pb2.Manifest) -> None:
    one_fragment_twice(manifest)
    with_old_numbers(manifest)


def one_id_for_two_columns(manifest: table_pb2.Manifest) -> None:
    manifest.fields[1].id = manifest.fields[0].id


def one_name_for_two_columns(manifest: table_pb2.Manifest) -> None:
    manifest.fields[1].name = manifest.fields[0].name


def one_id_for_two_bases(manifest: table_pb2.Manifest) -> None:
    manifest.base_paths.add(id=1, path="/one")
    manifest.base_paths.add(id=1, path="/two")


@pytest.mark.parametrize(
    "edit",
    [
        one_id_for_two_fragments,
        one_fragment_twice,
        one_old_fragment_twice,
        one_id_for_two_columns,
        one_name_for_two_columns,
        one_id_for_two_bases,
    ],
)
def test_manifest_that_says_something_twice_is_refused_at_open(tmp_path: Path, edit: ManifestEdit) -> None:
    path = two_fragments(tmp_path / "t")
    edit_manifest(path, edit)
    with pytest.raises(CorruptFileError, match=r"two .* (one|the|have) (id|name)"):
        lance_spark.open(str(path))


def one_file_twice(manifest: table_pb2.Manifest) -> None:
    manifest.fragments[0].files.append(manifest.fragments[0].files[0])


def one_field_in_two_files(manifest: table_pb2.Manifest) -> None:
    manifest.fragments[0].files[1].fields[0] = manifest.fragments[0].files[0].fields[0]


def one_field_twice_in_a_file(manifest: table_pb2.Manifest) -> None:
    file = manifest.fragments[0].files[0]
    file.fields[1] = file.fields[0]


def one_column_for_two_fields(manifest: table_pb2.Manifest) -> None:
    file = manifest.fragments[0].files[0]
    file.column_indices[1] = file.column_indices[0]


@pytest.mark.parametrize("read", [name for name in READS if name not in ("count_rows", "row addresses")])
@pytest.mark.parametrize(
    "edit", [one_file_twice, one_field_in_two_files, one_field_twice_in_a_file, one_column_for_two_fields]
)
def test_fragment_with_two_places_for_values_is_refused(tmp_path: Path, edit: ManifestEdit, read: str) -> None:
    path = two_fragments(tmp_path / "t")
    edit_manifest(path, edit)
    with pytest.raises(CorruptFileError, match=r"two files of a fragment|two columns of the file"):
        READS[read](lance_spark.open(str(path)))


def test_two_indexes_of_one_uuid_are_refused() -> None:
    section = table_pb2.IndexSection()
    for name in ("tree", "other"):
        section.indices.add(name=name).uuid.uuid = bytes(16)
    with pytest.raises(CorruptFileError, match=r"'tree', 'other'.* have one UUID"):
        parse_indices(section.SerializeToString())


def test_fragments_in_another_order_and_dropped_columns_are_read(tmp_path: Path) -> None:
    path = two_fragments(tmp_path / "t")
    lance.dataset(str(path)).drop_columns(["b"])
    lance.dataset(str(path)).alter_columns({"path": "c", "data_type": pa.int32()})
    lance.dataset(str(path)).drop_columns(["c"])
    lance.dataset(str(path)).add_columns({"c": "a + 2"})

    def swap(manifest: table_pb2.Manifest) -> None:
        first, second = (table_pb2.DataFragment.FromString(item.SerializeToString()) for item in manifest.fragments)
        manifest.fragments[0].CopyFrom(second)
        manifest.fragments[1].CopyFrom(first)

    edit_manifest(path, swap)
    shared.clear()
    expected = lance.dataset(str(path)).to_table()
    assert lance_spark.open(str(path)).to_table().sort_by("a") == expected.sort_by("a")
    assert expected.num_rows == 20
