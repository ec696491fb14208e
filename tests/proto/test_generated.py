"""The checked-in modules are what the .proto files say."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import descriptor_pool

GENERATE = Path(__file__).parents[2] / "proto" / "generate.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", GENERATE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_regenerating_gives_no_difference(generator: ModuleType, tmp_path: Path) -> None:
    generator.generate(tmp_path)
    assert generator.modules(tmp_path) == generator.modules(generator.TARGET)


@pytest.mark.parametrize(
    ("module", "messages"),
    [
        ("encodings_v2_0", ["lance.encodings.ArrayEncoding", "lance.encodings.ColumnEncoding"]),
        ("encodings_v2_1", ["lance.encodings21.PageLayout"]),
        ("file", ["lance.file.FileDescriptor", "lance.file.Schema", "lance.file.Metadata"]),
        ("file2", ["lance.file.v2.ColumnMetadata", "lance.file.v2.Encoding"]),
        ("index", ["lance.table.BTreeIndexDetails", "lance.table.ZoneMapIndexDetails"]),
        ("index_details", ["lance.index.pb.BloomFilterIndexDetails", "lance.index.pb.VectorIndexDetails"]),
        ("rowids", ["lance.table.RowIdSequence", "lance.table.RowDatasetVersionSequence"]),
        ("table", ["lance.table.Manifest", "lance.table.IndexSection"]),
        ("transaction", ["lance.table.Transaction"]),
    ],
)
def test_messages_have_the_names_that_type_urls_say(module: str, messages: list[str]) -> None:
    importlib.import_module(f"lance_spark._proto.{module}_pb2")
    pool = descriptor_pool.Default()
    for message in messages:
        assert pool.FindMessageTypeByName(message).file.name == f"lance_spark/_proto/{module}.proto"
