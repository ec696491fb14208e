"""Signed sources: descriptions by which the writer of one table copies the blobs of another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath
from lance.blob import Blob, blob_array
from lance.blob import blob_field as reference_field

import lance_spark
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.file import blob_writer
from lance_spark.schema.blob import blob_field
from lance_spark.spark.blobs.columns import with_signed_sources
from lance_spark.storage.base import ByteRange, ObjectStore
from lance_spark.storage.local.store import LocalStore
from lance_spark.storage.paths import parse_root
from lance_spark.table import base_places
from lance_spark.table.bases import BasePath, Bases
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.blobs.blob_columns import objects_only, parsed, sources_in, with_blob_descriptors
from lance_spark.table.reading.blobs.signed_sources import (
    SignedSource,
    SignedSources,
    signed_source,
    without_signature,
)
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import BaseId
from lance_spark.table.writing.write import FragmentWriter

KEY = b"k" * 32
KIB = 1 << 10
VALUES = [b"small", None, b"", b"x" * (3000 * KIB), b"y" * (70 * KIB)]


def written(uri: str) -> Dataset:
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("img")])
    return lance_spark.write(pa.table({"id": range(len(VALUES)), "img": VALUES}, schema=schema), uri)


def described(table: Dataset, key: bytes = KEY) -> list[pa.RecordBatch]:
    """The rows of a table as scans of a session return them."""
    bases = table.location.bases(table.manifest)
    schema = with_blob_descriptors(table.lance_schema, table.file_version, with_source=True)
    scan = Scan.of(schema, bases)
    batches = [batch for fragment in table.manifest.fragments for batch in scan.read([fragment])]
    return [with_signed_sources(batch, bases, key) for batch in batches]


def copied(batches: list[pa.RecordBatch], table: Dataset, others: SignedSources) -> list[bytes | None]:
    """The values that the writer of `table` copies, read back."""
    store = table.location.store
    sources = sources_in(table.location.bases(table.manifest), table.location.store.uri, None, others)
    with FragmentWriter(store, table.lance_schema, blob_source=sources) as writer:
        for batch in batches:
            writer.write(batch)
        (fragment,) = writer.close()
    bases = table.location.bases(table.manifest)
    schema = with_blob_descriptors(table.lance_schema, table.file_version, with_source=True)
    rows = list(Scan.of(schema, bases).read([fragment]))
    reader = table.blob_reader()
    return [value for batch in rows for value in reader.to_binary(batch.column("img")).to_pylist()]


def test_values_of_other_tables_are_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = written(str(tmp_path / "a b%c")), written(str(tmp_path / "target"))
    batches = described(source)
    monkeypatch.setattr(blob_writer, "COPY_BYTES", 512 * KIB)
    asked: list[int] = []
    read_range = LocalStore.read_range

    def counted(self: LocalStore, path: str, part: ByteRange) -> pa.Buffer:
        if path.endswith(".blob"):
            asked.append(part.length)
        return read_range(self, path, part)

    monkeypatch.setattr(LocalStore, "read_range", counted)
    assert copied(batches, target, SignedSources(KEY)) == VALUES
    assert max(asked) == 512 * KIB
    assert sum(asked) >= 3000 * KIB


def test_only_the_own_session_is_trusted(tmp_path: Path) -> None:
    source, target = written(str(tmp_path / "source")), written(str(tmp_path / "target"))
    for batches, others in (
        (described(source), SignedSources()),
        (described(source), SignedSources(b"another key")),
        (described(source, key=b""), SignedSources(KEY)),
        (described(target, key=b""), SignedSources(KEY)),
    ):
        with pytest.raises(InvalidInputError, match="no table that this session has read"):
            copied(batches, target, others)
    # Plain sources are of the table itself, and what moves its rows needs no key.
    assert copied(described(target, key=b""), target, SignedSources()) == VALUES
    assert copied(described(target), target, SignedSources(KEY)) == VALUES


@pytest.mark.parametrize("text", ["@", "@x", "@x /t", "@x /t "])
def test_damaged_sources_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="no source of a blob"):
        SignedSource.of(text)


def test_open_blob_reads_signed_descriptions(tmp_path: Path) -> None:
    source = written(str(tmp_path / "source"))
    (batch,) = described(source)
    text = batch.column("img")[0]["source"].as_py()
    assert text.startswith("@")
    assert without_signature(text) == f":{source.manifest.fragments[0].files[0].path}"
    assert source.blob_reader().to_binary(batch.column("img")).to_pylist() == VALUES


def test_files_below_other_bases_have_their_folder_in_the_source(tmp_path: Path) -> None:
    source = written(str(tmp_path / "source"))
    bases = Bases(
        source.location.store,
        (BasePath(BaseId(2), str(tmp_path / "source"), True), BasePath(BaseId(3), str(tmp_path / "flat"), False)),
    )
    shared = SignedSource.of(signed("2:f.lance", bases))
    flat = SignedSource.of(signed("7f|3:f.lance", bases))
    assert shared is not None
    assert flat is not None
    assert (shared.root, shared.folder, shared.source) == (source.uri, f"{tmp_path}/source/data", "2:f.lance")
    assert (flat.folder, flat.source) == (f"{tmp_path}/flat", "7f|3:f.lance")
    store, path = SignedSources(KEY).file(flat, parsed(flat.source))
    assert (store.uri, path) == (f"{tmp_path}/flat", "f.lance")
    with pytest.raises(CorruptFileError, match="leaves its folder"):
        SignedSources(KEY).file(flat, parsed("3:../f.lance"))


def signed(source: str, bases: Bases) -> str:
    return signed_source(source, parsed(source), bases, KEY)


def newest_bases(uri: str, options: dict[str, str] | None) -> Bases:
    table = lance_spark.open(uri, storage_options=options)
    return table.location.bases(table.manifest)


def test_references_below_a_base_become_absolute_in_other_tables(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    (folder / "film").write_bytes(b"0123456789")
    source, target = str(tmp_path / "source"), written(str(tmp_path / "target"))
    schema = pa.schema([reference_field("img")])
    rows = pa.table([blob_array([Blob.from_uri((folder / "film").as_uri(), 2, 3)])], schema=schema)
    base = DatasetBasePath(folder.as_uri(), name="objects", is_dataset_root=False, id=1)
    lance.write_dataset(rows, source, initial_bases=[base], data_storage_version="2.2")
    table = lance_spark.open(source)
    (description,) = table.to_table()["img"].to_pylist()
    assert (description["kind"], description["blob_id"], description["blob_uri"]) == (3, 1, "film")
    text = signed(f":{table.manifest.fragments[0].files[0].path}", table.location.bases(table.manifest))
    others = SignedSources(KEY, newest_bases=newest_bases)
    sources = sources_in(target.location.bases(target.manifest), target.location.store.uri, None, others)
    assert sources.reference(text, 1, "film") == (0, (folder / "film").as_uri())
    own = sources_in(table.location.bases(table.manifest), table.location.store.uri, None, SignedSources(KEY))
    assert own.reference(text, 1, "film") == (1, "film")
    assert objects_only("/tables/t", None, SignedSources(KEY)).reference(text, 0, "s3://b/film") == (0, "s3://b/film")


def test_objects_of_other_services_get_no_storage_options(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: dict[str, Mapping[str, str] | None] = {}

    def open_store(uri: str, options: Mapping[str, str] | None) -> ObjectStore:
        opened[uri] = options
        return LocalStore(uri, parse_root("/tables"), {})

    monkeypatch.setattr(base_places, "open_store", open_store)
    secret = {"aws_secret_access_key": "secret"}
    sources = objects_only("s3://bucket/t", secret)
    for uri in ("s3://other/films/a", "gs://bucket/films/a", "http://host/films/a"):
        sources.object_at(uri)
    assert opened == {"s3://other/films/": secret, "gs://bucket/films/": {}, "http://host/films/": {}}
