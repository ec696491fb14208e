"""Manifest files: those of the reference library, our own, where the transaction is, and damage."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.rows import fragment as rows_fragment
from lance_spark.table.rows.fragment import FragmentId

# The manifest of the smallest table, written by hand and read by the reference library: columns a: int64 not null and
# s: string, one data file, fields 21 and 23 both at offset 0.
WORKED_EXAMPLE = bytes.fromhex(
    """
    7e000000 12243030 30303030 30302d30 3030302d 34303030 2d383030 302d3030
    30303030 30303030 3031b206 550a1c12 180a0764 2e6c616e 63651202 00011a02
    00012002 280230fd 04200312 17120161 20ffffff ffffffff ffff012a 05696e74
    36343801 121c1201 73180120 ffffffff ffffffff ff012a06 73747269 6e673001
    38028600 00000a17 12016120 ffffffff ffffffff ff012a05 696e7436 3438010a
    1c120173 180120ff ffffffff ffffffff 012a0673 7472696e 67300138 02121c12
    180a0764 2e6c616e 63651202 00011a02 00012002 280230fd 04200318 013a0608
    80e2cfaa 0658006a 0f0a056c 616e6365 12063134 2e302e32 7a0c0a05 6c616e63
    65120332 2e32a801 00b80100 82000000 00000000 00000200 4c414e43
    """
)


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def message_of(data: bytes) -> table_pb2.Manifest:
    (position,) = struct.unpack("<Q", data[-16:-8])
    return table_pb2.Manifest.FromString(data[position + 4 : -16])


def test_the_worked_example() -> None:
    file = ManifestFile.decode(WORKED_EXAMPLE, "example")
    manifest = file.manifest
    assert [(field.name, field.id, field.logical_type, field.nullable) for field in manifest.schema.fields] == [
        ("a", 0, "int64", False),
        ("s", 1, "string", True),
    ]
    (fragment,) = manifest.fragments
    assert (fragment.id, fragment.physical_rows, fragment.num_rows) == (0, 3, 3)
    (data_file,) = fragment.files
    assert (data_file.path, data_file.version, data_file.size_bytes) == ("d.lance", FileVersion.V2_2, 637)
    assert data_file.columns() == {0: 0, 1: 1}
    assert (manifest.version, manifest.max_fragment_id, manifest.file_version) == (1, 0, FileVersion.V2_2)
    assert manifest.writer_version is not None
    assert (manifest.writer_version.library, manifest.writer_version.version) == ("lance", "14.0.2")
    assert file.transaction is not None
    transaction = Transaction.from_bytes(file.transaction)
    assert transaction.uuid == "00000000-0000-4000-8000-000000000001"
    assert isinstance(transaction.operation, Overwrite)
    assert transaction.operation.schema == manifest.schema
    assert ManifestFile.decode(file.encode(), "again") == file


def test_manifests_of_pylance_survive_a_round_trip(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(rows(*range(100)), uri, enable_stable_row_ids=True, max_rows_per_file=30)
    dataset.update_config({"lance.x": "1"})
    dataset.update_metadata({"owner": "me"})
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a % 5 = 0")
    dataset.add_columns({"b": "a * 2"})
    dataset.drop_columns(["b"])
    location = TableLocation(uri)
    kinds = []
    for entry in dataset.versions():
        file = location.history.load(entry["version"])
        again = ManifestFile.decode(file.encode(), "again")
        assert again == file
        assert message_of(file.encode()).fragments == message_of(again.encode()).fragments
        transaction = location.history.transaction(file)
        assert transaction is not None
        kinds.append(transaction.operation.kind)
    assert kinds == [
        OperationKind.OVERWRITE,
        OperationKind.UPDATE_CONFIG,
        OperationKind.UPDATE_CONFIG,
        OperationKind.CREATE_INDEX,
        OperationKind.DELETE,
        OperationKind.MERGE,
        OperationKind.PROJECT,
    ]
    latest = location.history.load_latest().manifest
    assert latest.config == {"lance.x": "1"}
    assert latest.table_metadata == {"owner": "me"}
    assert latest.index_section is not None
    assert latest.has_stable_row_ids


def test_what_we_write_says_what_others_need(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1, 2, 3), uri, commit_message="hello")
    data = (tmp_path / "t" / "_versions" / "18446744073709551614.manifest").read_bytes()
    message = message_of(data)
    assert message.HasField("transaction_section")
    assert message.transaction_section == message.transaction_section_deprecated == 0
    assert message.writer_version.library == "lance_spark"
    assert message.max_fragment_id == 0
    assert message.data_format.version == "2.2"
    assert (message.reader_feature_flags, message.writer_feature_flags) == (0, 0)
    (transaction_file,) = (tmp_path / "t" / "_transactions").iterdir()
    assert transaction_file.name == message.transaction_file
    (length,) = struct.unpack("<I", data[:4])
    assert data[4 : 4 + length] == transaction_file.read_bytes()
    lance_spark.write(rows(4), uri, mode="append")
    appended = TableLocation(uri).history
    operation = appended.transaction(appended.load_latest())
    assert operation is not None
    assert isinstance(operation.operation, Append)
    assert operation.read_version == 1


@pytest.mark.parametrize("fields", [(21,), (23,), (21, 23), ()])
def test_the_transaction_is_found_in_either_field_or_in_its_file(tmp_path: Path, fields: tuple[int, ...]) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri)
    path = tmp_path / "t" / "_versions" / "18446744073709551614.manifest"
    data = path.read_bytes()
    (position,) = struct.unpack("<Q", data[-16:-8])
    message = message_of(data)
    if 21 not in fields:
        message.ClearField("transaction_section_deprecated")
    if 23 not in fields:
        message.ClearField("transaction_section")
    content = message.SerializeToString()
    path.write_bytes(data[:position] + struct.pack("<I", len(content)) + content + data[-16:])
    history = TableLocation(uri).history
    file = history.load(1)
    assert (file.transaction is not None) == bool(fields)
    transaction = history.transaction(file)
    assert transaction is not None
    assert isinstance(transaction.operation, Overwrite)
    if not fields:
        for leftover in (tmp_path / "t" / "_transactions").iterdir():
            leftover.unlink()
        assert history.transaction(file) is None


def _with_fragments(count: int, *, writer: bool = True) -> bytes:
    """The manifest of as many fragments, with a member that is unknown here."""
    message = message_of(WORKED_EXAMPLE)
    [first] = message.fragments
    for number in range(1, count):
        added = message.fragments.add()
        added.CopyFrom(first)
        added.id = number
        added.MergeFromString(b"\xba\x3e\x02hi")  # Field 999, two bytes.
    for name in ("transaction_section", "transaction_section_deprecated", *([] if writer else ["writer_version"])):
        message.ClearField(name)
    content = message.SerializeToString()
    return struct.pack("<I", len(content)) + content + struct.pack("<QHH4s", 0, 0, 2, b"LANC")


@pytest.mark.parametrize("writer", [True, False])
def test_fragments_are_written_as_they_were_read(writer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _with_fragments(20, writer=writer)
    before = ManifestFile.decode(data, "x").manifest
    new = replace(before.fragments[0], id=FragmentId(20))
    appended = before.fragments.appended([new])
    twice = appended.appended([replace(new, id=FragmentId(21))])
    for fragments in (before.fragments, appended, twice):
        file = ManifestFile(replace(before, fragments=fragments), None)
        assert message_of(file.encode()) == file.manifest.to_proto()
        assert ManifestFile.decode(file.encode(), "x").manifest.fragments.messages == fragments.messages
    # Row counts of old writers are not trusted, and not written again.
    assert (before.fragments[0].physical_rows is None) is not writer
    serialized: list[int] = []
    monkeypatch.setattr(rows_fragment, "_manifest_bytes", lambda messages: serialized.append(len(messages)) or b"")
    before.fragments.appended([new]).to_manifest_bytes()
    assert serialized == ([1] if writer else [20, 1])


@pytest.mark.slow
def test_the_name_of_the_transaction_is_near_the_end(tmp_path: Path) -> None:
    # `History.is_replaced` reads 16 KiB for it.
    uri = str(tmp_path / "t")
    for value in range(150):
        lance_spark.write(pa.table({"a": [value]}), uri, mode="append" if value else "create")
    dataset = lance_spark.open(uri)
    newest = dataset.location.history.latest_location()
    assert newest is not None
    data = dataset.location.store.read(newest.path).to_pybytes()
    assert len(data) > 10_000
    assert dataset.manifest.transaction_file.encode() in data[-1000:]
    assert len(lance.dataset(uri).get_fragments()) == 150


def test_an_unknown_operation_is_unknown() -> None:
    unknown = Transaction.from_bytes(b"\x12\x01u" + b"\xfa\x0a\x00")  # member 175, of no kind that is known
    assert unknown.operation.kind is OperationKind.UNKNOWN
    assert unknown.uuid == "u"


def patched(**changes: object) -> bytes:
    file = ManifestFile.decode(WORKED_EXAMPLE, "example")
    message = file.manifest.to_proto()
    for name, value in changes.items():
        setattr(message, name, value)
    content = message.SerializeToString()
    return struct.pack("<I", len(content)) + content + struct.pack("<QHH4s", 0, 0, 2, b"LANC")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", CorruptFileError),
        (b"LANC", CorruptFileError),
        (WORKED_EXAMPLE[:-1], CorruptFileError),
        (WORKED_EXAMPLE + b"x", CorruptFileError),
        (WORKED_EXAMPLE[:130] + b"\xff" + WORKED_EXAMPLE[131:], CorruptFileError),
        (patched(index_section=1 << 60), CorruptFileError),
        (patched(transaction_section=0), CorruptFileError),
        (patched(fragment_tree=b"x"), UnsupportedFeatureError),
    ],
)
def test_wrong_files(data: bytes, error: type[LanceError]) -> None:
    with pytest.raises(error):
        ManifestFile.decode(data, "m")


def test_paths_may_not_leave_their_base() -> None:
    file = ManifestFile.decode(WORKED_EXAMPLE, "example")
    for path in ("../d.lance", "/etc/passwd", "a/../../b", "s3://other/x", "", "a\\..\\b", "a\0"):
        (fragment,) = file.manifest.fragments
        message = fragment.to_proto()
        message.files[0].path = path
        with pytest.raises(CorruptFileError):
            type(fragment).from_proto(message)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_manifests_raise_nothing_else(data: st.DataObject) -> None:
    content = bytearray(WORKED_EXAMPLE)
    if data.draw(st.integers(0, 3)) == 0:
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        file = ManifestFile.decode(bytes(content), "m")
        list(file.manifest.fragments)
        assert file.manifest.timestamp is not None
        if file.transaction is not None:
            Transaction.from_bytes(file.transaction)
    except LanceError:
        return


def test_unknown_content_of_fragments_survives_an_append(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri)
    location = TableLocation(uri)
    file = location.history.load_latest()
    message = file.manifest.fragments.messages[0]
    stranger = table_pb2.DataFragment.FromString(message.SerializeToString() + b"\xfa\x0a\x03abc")
    manifest = replace(file.manifest, fragments=type(file.manifest.fragments)([stranger]))
    path = "_versions/18446744073709551614.manifest"
    location.store.put(path, ManifestFile(manifest, file.transaction).encode())
    lance_spark.write(rows(2), uri, mode="append")
    kept = TableLocation(uri).history.load_latest().manifest.fragments.messages[0]
    assert kept.SerializeToString() == stranger.SerializeToString()
