"""What becomes of indices when fragments or fields go, as the reference library sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pyroaring
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage import open_store
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import (
    of_schema,
    parse_indices,
    with_indices,
    without_fields,
    without_fragments,
)
from lance_spark.table.manifests.manifest_file import ManifestFile

KINDS = ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"]


def index(number: int, fields: list[int], fragments: list[int], name: str = "i") -> IndexMetadata:
    return IndexMetadata.of(bytes([number] * 16), name, fields, 1, fragments)


def section(*indices: IndexMetadata) -> bytes:
    made = with_indices(None, indices)
    assert made is not None
    return made


def told(data: bytes | None) -> list[tuple[str, list[int]]]:
    return [(found.uuid[:2], sorted(found.fragment_ids())) for found in parse_indices(data)]


def test_fragments_leave_the_bitmaps() -> None:
    before = section(index(1, [0], [0, 1, 2]), index(2, [1, 2], [1]), index(3, [3], [5]))
    assert told(without_fragments(before, [1, 2, 9])) == [("01", [0]), ("02", []), ("03", [5])]
    assert told(without_fragments(before, [1], fields=[2, 7])) == [("01", [0, 1, 2]), ("02", []), ("03", [5])]


@pytest.mark.parametrize("fragments", [[], [7, 8]])
def test_what_is_not_concerned_stays_byte_by_byte(fragments: list[int]) -> None:
    before = section(index(1, [0], [0, 1, 2]))
    assert without_fragments(before, fragments) is before
    assert without_fields(before, [4]) is before
    assert without_fragments(None, fragments) is None


def test_fields_take_their_indices_along() -> None:
    carried = index(3, [0], [0])
    carried.message.covering_fields.append(9)
    before = section(index(1, [0, 1], [0]), index(2, [2], [0]), carried)
    assert [name for name, _ in told(without_fields(before, [1, 9]))] == ["02"]
    schema = from_arrow_schema(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    assert [name for name, _ in told(of_schema(before, schema))] == ["01"]
    assert without_fields(before, [0, 2]) is None


def test_members_that_are_unknown_here_stay() -> None:
    unknown = b"\xba\x3e\x02hi"  # Field 999, two bytes.
    message = table_pb2.IndexMetadata.FromString(index(1, [0], [0, 1]).to_bytes() + unknown)
    before = section(IndexMetadata.from_proto(message)) + unknown
    after = without_fragments(before, [1])
    assert after is not None
    assert after.count(b"hi") == 2
    assert told(after) == [("01", [0])]


def test_an_index_that_does_not_tell_what_it_covers_goes() -> None:
    old = IndexMetadata.from_proto(table_pb2.IndexMetadata(name="old", uuid=table_pb2.UUID(uuid=bytes(16))))
    system = IndexMetadata.from_proto(table_pb2.IndexMetadata(name="__lance_x", uuid=table_pb2.UUID(uuid=bytes(16))))
    assert [found.name for found in parse_indices(without_fragments(section(old), [1]))] == []
    assert [found.name for found in parse_indices(without_fragments(section(system), [1]))] == ["__lance_x"]


def test_a_new_index_replaces_the_one_with_its_uuid() -> None:
    before = section(index(1, [0], [0]), index(2, [1], [0]))
    after = with_indices(before, [index(1, [0], [4])], removed=[index(2, [1], [0]).uuid])
    assert told(after) == [("01", [4])]


@pytest.mark.parametrize(
    "damage",
    [
        lambda message: message.indices[0].uuid.ClearField("uuid"),
        lambda message: setattr(message.indices[0], "fragment_bitmap", b"\x01\x02\x03"),
        lambda message: setattr(message.indices[0], "fragment_bitmap", message.indices[0].fragment_bitmap[:-1]),
    ],
)
def test_damage(damage: Callable[[table_pb2.IndexSection], None]) -> None:
    message = table_pb2.IndexSection.FromString(section(index(1, [0], [0, 1, 2])))
    damage(message)
    with pytest.raises(CorruptFileError):
        without_fragments(message.SerializeToString(), [1])
    with pytest.raises(CorruptFileError):
        without_fragments(b"\x0a\xff", [1])


def test_the_uuid_names_the_folder_of_the_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), uri).create_scalar_index("a", "BTREE")
    (found,) = parse_indices(lance_spark.open(uri).manifest.index_section)
    assert (tmp_path / "t" / "_indices" / found.uuid).is_dir()
    assert (found.name, found.fields, list(found.fragment_ids())) == ("a_idx", {0}, [0])


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", KINDS)
def test_pylance_scans_what_an_index_no_longer_covers(tmp_path: Path, kind: str, stable: bool) -> None:
    """The rows of an index have moved; its old metadata comes back with fewer fragments, or none."""
    for kept in ([], [0, 3]):
        uri = str(tmp_path / f"{len(kept)}")
        table = pa.table({"a": [number % 10 for number in range(50)]})
        lance.write_dataset(table, uri, max_rows_per_file=10, enable_stable_row_ids=stable)
        lance.dataset(uri).create_scalar_index("a", kind)
        before = lance_spark.open(uri).manifest.index_section
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=25)
        history = History(open_store(uri))
        file = history.load_latest()
        stale = without_fragments(before, set(range(50)) - set(kept))
        location = history.latest_location()
        assert location is not None
        changed = ManifestFile(replace(file.manifest, index_section=stale), file.transaction).encode()
        open_store(uri).put(location.path, changed)
        dataset = lance.dataset(uri)
        assert [pyroaring.BitMap(found["fragment_ids"]) for found in dataset.list_indices()] == [pyroaring.BitMap(kept)]
        assert dataset.to_table(filter="a = 5").num_rows == 5
        dataset.optimize.optimize_indices()
        assert lance.dataset(uri).to_table(filter="a = 5").num_rows == 5
        assert lance.dataset(uri).count_rows() == 50
