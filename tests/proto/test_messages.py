"""Our messages name every member that the reference library writes: nothing ends up among unknown fields."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark._proto import table_pb2, transaction_pb2
from tests.support.proto.messages import unknown_members


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t"
    data = pa.table({"a": range(2000), "s": [str(i) for i in range(2000)]})
    dataset = lance.write_dataset(data, str(path), max_rows_per_file=500, enable_stable_row_ids=True)
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a < 10")
    dataset.update({"s": "'x'"}, where="a < 100")
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(data.slice(0, 5))
    dataset.add_columns({"b": "a * 2"})
    dataset.alter_columns({"path": "s", "name": "t"})
    dataset.update_config({"some.key": "value"})
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    dataset.drop_columns(["b"])
    dataset.shallow_clone(str(path) + "_clone", dataset.version)
    dataset.restore()
    return path


def test_manifests(table: Path) -> None:
    paths = [*(table / "_versions").glob("*.manifest"), *(Path(f"{table}_clone") / "_versions").glob("*.manifest")]
    assert len(paths) > 10
    for path in paths:
        content = path.read_bytes()
        (position,) = struct.unpack("<Q", content[-16:-8])
        manifest = table_pb2.Manifest.FromString(content[position + 4 : -16])
        assert list(unknown_members(manifest)) == []
        assert manifest.HasField("transaction_section")


def test_transactions(table: Path) -> None:
    operations = set()
    for path in (table / "_transactions").glob("*.txn"):
        transaction = transaction_pb2.Transaction.FromString(path.read_bytes())
        assert list(unknown_members(transaction)) == []
        operations.add(transaction.WhichOneof("operation"))
    assert operations >= {"overwrite", "create_index", "delete", "update", "merge", "project", "rewrite", "restore"}


def test_index_sections(table: Path) -> None:
    newest = sorted((table / "_versions").glob("*.manifest"))[0].read_bytes()
    (position,) = struct.unpack("<Q", newest[-16:-8])
    manifest = table_pb2.Manifest.FromString(newest[position + 4 : -16])
    (size,) = struct.unpack_from("<I", newest, manifest.index_section)
    start = manifest.index_section + 4
    section = table_pb2.IndexSection.FromString(newest[start : start + size])
    assert [index.name for index in section.indices]
    assert list(unknown_members(section)) == []
