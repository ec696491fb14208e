"""Files under other bases: clones, branches, imported folders, other stores."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.storage import open_store
from lance_spark.storage.remote import RemoteStore
from lance_spark.table.base_places import resolved
from lance_spark.table.bases import BasePath, Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.rows.fragment import BaseId, FragmentList
from tests.support.equality import assert_tables_equal


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/data/a", "/tables/t", "/data/a"),
        ("s3://b/a", "/tables/t", "s3://b/a"),
        ("/etc", "s3://bucket/t", "s3://bucket/etc"),
        ("file:///data/a", "s3://bucket/t", "file:///data/a"),
    ],
)
def test_where_a_base_is(path: str, root: str, expected: str) -> None:
    assert resolved(path, root) == expected


@pytest.mark.parametrize("stable", [False, True])
def test_a_shallow_clone_and_what_is_added_to_it(tmp_path: Path, stable: bool) -> None:
    uri, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    dataset = lance.write_dataset(rows(*range(20)), uri, max_rows_per_file=6, enable_stable_row_ids=stable)
    dataset.delete("a % 4 = 1")
    dataset.shallow_clone(clone, 2)
    assert_tables_equal(lance_spark.open(clone).to_table(), lance.dataset(uri).to_table())
    appended = lance_spark.write(rows(100, 101), clone, mode="append")
    assert appended.manifest.base_paths
    assert appended.manifest.reader_flags & appended.manifest.writer_flags & 16
    assert_tables_equal(appended.to_table(), lance.dataset(clone).to_table())
    lance.dataset(clone).delete("a = 100")
    assert_tables_equal(lance_spark.open(clone).to_table(), lance.dataset(clone).to_table())
    assert lance_spark.open(uri).count_rows() == 15
    scan = pickle.loads(pickle.dumps(lance_spark.open(clone).plan(with_row_id=True)))
    found = [batch for fragment in lance_spark.open(clone).fragments for batch in scan.read([fragment])]
    expected = lance.dataset(clone).scanner(with_row_id=True).to_table()
    assert_tables_equal(pa.Table.from_batches(found), expected)


def moved_to_base(uri: str, base: BasePath) -> None:
    """Rewrites version 1 so that its data files lie under `base`."""
    location = TableLocation(uri)
    file = location.history.load_latest()
    fragments = [
        replace(fragment, files=tuple(replace(data_file, base_id=base.id) for data_file in fragment.files))
        for fragment in file.manifest.fragments
    ]
    manifest = replace(
        file.manifest,
        fragments=FragmentList(fragment.to_proto() for fragment in fragments),
        base_paths=(base,) if base.path else (),
        reader_flags=16,
        writer_flags=16,
    )
    location.store.put("_versions/18446744073709551614.manifest", ManifestFile(manifest, file.transaction).encode())


@pytest.mark.parametrize("is_dataset_root", [True, False])
@pytest.mark.parametrize("remote", [True, False])
def test_data_files_in_another_store(tmp_path: Path, is_dataset_root: bool, remote: bool) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1, 2, 3), uri, max_rows_per_file=2)
    target = f"memory://base-{uuid.uuid4().hex}" if remote else str(tmp_path / "elsewhere")
    store = open_store(target)
    for path in (tmp_path / "t" / "data").iterdir():
        store.put(f"data/{path.name}" if is_dataset_root else path.name, path.read_bytes())
        path.unlink()
    moved_to_base(uri, BasePath(BaseId(3), target, is_dataset_root, name="cold"))
    dataset = lance_spark.open(uri)
    assert dataset.to_table() == rows(1, 2, 3)
    assert dataset.take([2])["a"].to_pylist() == [3]
    again = lance_spark.write(rows(4), uri, mode="append")
    assert again.to_table() == rows(1, 2, 3, 4)
    assert again.manifest.base_paths[0].name == "cold"
    if not remote:
        assert_tables_equal(lance.dataset(uri).to_table(), rows(1, 2, 3, 4))


def test_a_base_that_the_manifest_does_not_have_is_corrupt(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri)
    moved_to_base(uri, BasePath(BaseId(3), "", True))
    with pytest.raises(CorruptFileError, match="base path 3"):
        lance_spark.open(uri).to_table()


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = lance_spark.write(rows(1, 2), "t").plan()
    fragments = lance_spark.open("t").fragments
    data = pickle.dumps(plan)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    for scan in (plan, pickle.loads(data)):
        assert [batch.num_rows for fragment in fragments for batch in scan.read([fragment])] == [2]


def test_bases_open_their_stores_where_they_are_used(tmp_path: Path) -> None:
    bases = Bases(open_store(str(tmp_path)), (BasePath(BaseId(0), "nonsense-scheme://x", True),))
    copy = pickle.loads(pickle.dumps(bases))
    assert copy.root.uri == str(tmp_path)


@pytest.fixture
def requested() -> Iterator[tuple[str, list[str]]]:
    """(URL of an HTTP server, paths of the requests that it got)."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("options", [None, {"aws_access_key_id": "k"}])
@pytest.mark.parametrize("is_dataset_root", [True, False])
def test_a_manifest_does_not_choose_requests_by_other_schemes(
    tmp_path: Path, requested: tuple[str, list[str]], options: dict[str, str] | None, is_dataset_root: bool
) -> None:
    url, paths = requested
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1, 2), uri)
    moved_to_base(uri, BasePath(BaseId(3), f"{url}/x", is_dataset_root))
    dataset = lance_spark.open(uri, storage_options=options)
    for read in (dataset.to_table, lambda: dataset.take([0]), lambda: dataset.count_rows("a > 1")):
        with pytest.raises(UnsupportedFeatureError, match=f"base path 3 of {uri} is '{url}/x'.* s3,.* copy its files"):
            read()
    assert paths == []


def base_store(root: str, options: dict[str, str], path: str) -> RemoteStore:
    store = Bases(open_store(root, options), (BasePath(BaseId(1), path, True),), options).folder(BaseId(1))
    assert isinstance(store, RemoteStore)
    return store


def options_in(store: RemoteStore) -> dict[str, str]:
    """The storage options that a store was opened with, which travel in its pickle."""
    options = store.__reduce__()[1][2]
    assert isinstance(options, dict)
    return options


ACCOUNT = "abfss://c@mine.dfs.core.windows.net"
KEY, SAS = {"aws_access_key_id": "k"}, {"sas_token": "s"}


@pytest.mark.parametrize(
    ("root", "options", "path", "expected"),
    [
        ("s3://a/t", KEY, "s3://b/t", KEY),
        ("s3://a/t", KEY, "s3a://b/t", KEY),
        ("/a/t", KEY, "s3://b/t", KEY),
        ("s3://a/t", {"token": "of S3"}, "gs://b/t", {}),
        ("s3://a/t", KEY, "gs://b/t", {}),
        (f"{ACCOUNT}/t", SAS, "abfss://other@mine.dfs.core.windows.net/t", SAS),
        (f"{ACCOUNT}/t", SAS, "az://other/t", SAS),
        (f"{ACCOUNT}/t", SAS, "abfss://c@other.dfs.core.windows.net/t", {}),
        ("az://c/t", SAS, f"{ACCOUNT}/t", {}),
        ("az://c/t", SAS | {"account_name": "mine"}, f"{ACCOUNT}/t", SAS | {"account_name": "mine"}),
        ("http://a.test/t", {"encoded": "true"}, "http://a.test/u", {"encoded": "true"}),
    ],
)
def test_storage_options_go_to_no_other_service(
    root: str, options: dict[str, str], path: str, expected: dict[str, str]
) -> None:
    for package, schemes in {"gcsfs": ("gs:",), "adlfs": ("az:", "abfss:"), "aiohttp": ("http:",)}.items():
        if path.startswith(schemes):
            pytest.importorskip(package, reason=f"{package} is not installed")
    assert options_in(base_store(root, options, path)) == expected
    own = {"timeout": "3s"} if not path.startswith("http:") else {"block_size": "1"}
    scoped = {f"base_1.{name}": value for name, value in own.items()} | {"base_2.timeout": "4s"}
    bases = Bases(open_store(root, options), (BasePath(BaseId(1), path, True),), options | scoped)
    store = bases.folder(BaseId(1))
    assert isinstance(store, RemoteStore)
    assert options_in(store) == expected | own


def test_a_reference_to_another_service_gets_no_storage_options() -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    bases = Bases(open_store("s3://a/t", KEY), (), KEY)
    places = {uri: bases.other(uri) for uri in ("s3://b/images", "http://a.test/images")}
    assert {uri: options_in(store) for uri, store in places.items() if isinstance(store, RemoteStore)} == {
        "s3://b/images": KEY,
        "http://a.test/images": {},
    }


def test_a_base_path_in_the_store_of_the_table_is_followed_by_any_scheme() -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    assert base_store("http://a.test/t", {}, "http://a.test/u").uri == "http://a.test/u"
    with pytest.raises(UnsupportedFeatureError, match=r"base path 1 of http://a\.test/t is 'http://b\.test/u'"):
        base_store("http://a.test/t", {}, "http://b.test/u")
