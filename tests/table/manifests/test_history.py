"""Which version is opened: newest, by number, tag, branch and time; names, hints and junk in `_versions/`."""

from __future__ import annotations

import shutil
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.storage.local.store import LocalStore
from lance_spark.storage.paths import parse_root
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest_store import ManifestLocation, ObjectManifests
from lance_spark.table.paths import ManifestNaming, branch_path, parse_manifest_name, tag_path


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    for value in range(3):
        lance.write_dataset(rows(value), uri, mode="append")
    return uri


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("18446744073709551614.manifest", (ManifestNaming.V2, 1)),
        ("18446744073709551604.manifest", (ManifestNaming.V2, 11)),
        ("1.manifest", (ManifestNaming.V1, 1)),
        ("1234567890.manifest", (ManifestNaming.V1, 1234567890)),
        ("0.manifest", None),
        ("01.manifest", None),
        ("18446744073709551615.manifest", None),
        ("99999999999999999999.manifest", None),
        ("00000000000000000001.manifest", None),
        ("d18446744073709551614.manifest", None),
        ("18446744073709551614.manifest#1", None),
        (".tmp_18446744073709551614.manifest_x", None),
        ("latest_version_hint.json", None),
        ("manifest", None),
        (".manifest", None),
        ("-1.manifest", None),
        ("+1.manifest", None),
        ("1_0.manifest", None),
        ("\u0661.manifest", None),
    ],
)
def test_names_of_manifests(name: str, expected: tuple[ManifestNaming, int] | None) -> None:
    assert parse_manifest_name(name) == expected
    if expected is not None:
        naming, version = expected
        assert naming.file_name(version) == name


def test_the_newest_version_of_a_local_table_is_found_by_names(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = ObjectManifests(LocalStore(uri, parse_root(uri), {}))
    expected = manifests.newest_locations(1)[0]
    monkeypatch.delattr(LocalStore, "list")
    for found in (manifests.newest(), manifests.newest_to_follow()):
        assert found == expected
        assert (found.size, found.modified) == (expected.size, expected.modified)


def test_a_manifest_that_vanishes_after_its_name_was_read(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = "18446744073709551600.manifest"
    found = LocalStore.names
    monkeypatch.setattr(LocalStore, "names", lambda store, prefix: [gone, *found(store, prefix)])
    newest = ObjectManifests(LocalStore(uri, parse_root(uri), {})).newest()
    assert newest is not None
    assert newest.version == 3


def test_junk_in_versions_is_ignored(uri: str) -> None:
    folder = Path(uri) / "_versions"
    newest = folder / "18446744073709551612.manifest"
    for name in ("18446744073709551600.manifest#1", "d18446744073709551600.manifest", ".tmp_x.manifest", "x.txt"):
        shutil.copy(newest, folder / name)
    (folder / "latest_version_hint.json").write_text('{"version":99}')
    (Path(uri) / "_latest.manifest").write_bytes((folder / "18446744073709551614.manifest").read_bytes())
    assert lance_spark.open(uri).version == 3
    assert lance_spark.write(rows(9), uri, mode="append").version == 4


def test_v1_names_are_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri, enable_v2_manifest_paths=False)
    for version in range(2, 13):
        assert lance_spark.write(rows(version), uri, mode="append").version == version
    assert (tmp_path / "t" / "_versions" / "12.manifest").exists()
    assert lance.dataset(uri).version == 12
    assert lance_spark.open(uri, version=2).count_rows() == 2
    assert [entry.version for entry in lance_spark.open(uri).versions()] == list(range(1, 13))
    lance.dataset(uri).migrate_manifest_paths_v2()
    assert lance_spark.open(uri).version == 12
    lance_spark.write(rows(13), uri, mode="append")
    assert lance.dataset(uri).version == 13


def test_a_half_done_migration_is_read_but_not_written(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri, enable_v2_manifest_paths=False)
    lance.write_dataset(rows(1), uri, mode="append")
    folder = tmp_path / "t" / "_versions"
    (folder / "1.manifest").rename(folder / ManifestNaming.V2.file_name(1))
    assert lance_spark.open(uri).version == 2
    assert lance_spark.open(uri, version=1).count_rows() == 1
    with pytest.raises(UnsupportedFeatureError, match="both naming"):
        lance_spark.write(rows(2), uri, mode="append")
    assert len(list((tmp_path / "t" / "data").iterdir())) == 2


def test_folders_with_names_of_manifests_are_no_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri)
    for name in ("1.manifest", "7.manifest", ManifestNaming.V2.file_name(9)):
        (tmp_path / "t" / "_versions" / name).mkdir()
    assert lance_spark.open(uri).version == 1
    assert lance_spark.write(rows(2), uri, mode="append").version == 2
    assert [entry.version for entry in lance_spark.open(uri).versions()] == [1, 2]
    assert lance_spark.open(uri).count_rows() == 2


def test_versions_that_are_not_there(uri: str) -> None:
    for version in (4, 99, (1 << 63) + 5):
        with pytest.raises(NotFoundError):
            lance_spark.open(uri, version=version)
    with pytest.raises(NotFoundError, match="no tag '1'"):
        lance_spark.open(uri, version="1")
    for wrong in (0, -1, True, 1.5, 1 << 64):
        with pytest.raises(InvalidInputError):
            lance_spark.open(uri, version=wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        lance_spark.open(uri + "/nothing")
    with pytest.raises(InvalidInputError, match="one of"):
        lance_spark.open(uri, version=1, tag="t")


def test_a_detached_version_is_opened_by_its_number_only(uri: str) -> None:
    fragments = lance.fragment.write_fragments(rows(9), uri, mode="append")
    operation = lance.LanceOperation.Append(fragments)
    detached = lance.LanceDataset.commit(uri, operation, read_version=3, detached=True)
    assert lance_spark.open(uri).version == 3
    assert lance_spark.open(uri, version=detached.version).count_rows() == 4


def test_a_manifest_under_the_wrong_name_is_corrupt(uri: str) -> None:
    folder = Path(uri) / "_versions"
    shutil.copy(folder / ManifestNaming.V2.file_name(3), folder / ManifestNaming.V2.file_name(4))
    with pytest.raises(CorruptFileError, match="says 3"):
        lance_spark.open(uri)
    assert lance_spark.open(uri, version=3).count_rows() == 3


def test_times(uri: str) -> None:
    entries = lance.dataset(uri).versions()
    own = lance_spark.open(uri).versions()
    for entry, version in zip(entries, own, strict=True):
        assert version.version == entry["version"]
        assert version.timestamp.timestamp() == pytest.approx(entry["timestamp"].timestamp(), abs=1e-5)
    for number, version in enumerate(own, start=1):
        assert lance_spark.open(uri, timestamp=version.timestamp).version == number
        before = version.timestamp - timedelta(microseconds=1)
        if number > 1:
            assert lance_spark.open(uri, timestamp=before).version == number - 1
    assert lance_spark.open(uri, timestamp=datetime.now()).version == 3
    assert lance_spark.open(uri, timestamp=datetime.now(timezone(timedelta(hours=9)))).version == 3
    with pytest.raises(NotFoundError, match="or before"):
        lance_spark.open(uri, timestamp=datetime(2001, 1, 1))


def test_moments_at_the_ends_of_the_calendar(tmp_path: Path) -> None:
    dataset = lance_spark.write(pa.table({"a": [1]}), tmp_path)
    west, east = timezone(timedelta(hours=-10)), timezone(timedelta(hours=10))
    for zone in (None, west, east):
        first, last = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)
        assert lance_spark.open(tmp_path, timestamp=last).version == 1
        with pytest.raises(NotFoundError):
            lance_spark.open(tmp_path, timestamp=first)
        assert len(list(dataset.changes(first, last))) == 1
        assert dataset.cleanup(older_than=first, dry_run=True).versions == ()
    assert dataset.cleanup(older_than=timedelta.max).versions == ()
    assert dataset.remove_orphans(older_than=timedelta.max).data_files == 0


def test_tags_and_branches(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.tags.create("v1.0", 2)
    side = dataset.create_branch("team/side", 2)
    lance.write_dataset(rows(7, 8), side.uri, mode="append")
    dataset.tags.create("on-side", ("team/side", 3))
    own = lance_spark.open(uri)
    assert {name: (tag.version, tag.branch) for name, tag in own.tags().items()} == {
        "v1.0": (2, None),
        "on-side": (3, "team/side"),
    }
    (branch,) = own.branches().values()
    assert (branch.name, branch.parent, branch.parent_version) == ("team/side", None, 2)
    assert lance_spark.open(uri, tag="v1.0").count_rows() == 2
    assert lance_spark.open(uri, tag="on-side").to_table()["a"].to_pylist() == [0, 1, 7, 8]
    assert lance_spark.open(uri, branch="team/side").version == 3
    assert lance_spark.open(uri, branch="team/side", version=2).count_rows() == 2
    assert lance_spark.open(uri, branch="main").version == 3
    assert lance_spark.open(uri, branch="team/side", tag="on-side").version == 3
    assert [entry.version for entry in lance_spark.open(uri, branch="team/side").versions()] == [2, 3]
    with pytest.raises(InvalidInputError, match="branch"):
        lance_spark.open(uri, branch="team/side", tag="v1.0")
    for wrong in ({"tag": "nope"}, {"branch": "nope"}, {"branch": "team"}):
        with pytest.raises(NotFoundError):
            lance_spark.open(uri, **wrong)


@pytest.mark.parametrize("name", ["", "..", "a..b", ".a", "a.", "a.lock", "a b", "a\\b", "é", "../../x"])
def test_names_of_tags(name: str) -> None:
    with pytest.raises(InvalidInputError):
        tag_path(name)


def test_names_of_branches() -> None:
    assert branch_path("feature/x") == "_refs/branches/feature%2Fx.json"
    assert branch_path("é") == "_refs/branches/%C3%A9.json"
    for name in ("", "/a", "a/", "a//b", "a/../b", "..", "a..b", "a b", "a\\b", "a.lock", "a/b.lock", ".", "../../x"):
        with pytest.raises(InvalidInputError):
            branch_path(name)


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"version": "1"}', '{"version": 0}', '{"version": 1, "branch": 7}', "[" * 100000]
)
def test_damaged_tags(uri: str, text: str) -> None:
    lance.dataset(uri).tags.create("t", 2)
    (Path(uri) / "_refs" / "tags" / "t.json").write_text(text)
    with pytest.raises(CorruptFileError):
        lance_spark.open(uri, tag="t")
    assert lance_spark.open(uri).version == 3


def test_many_versions_need_one_page_of_the_listing() -> None:
    from itertools import islice

    from lance_spark.storage.base import ObjectInfo
    from lance_spark.table.manifests.history import History

    names = sorted(ManifestNaming.V2.path(version) for version in range(1, 5000))
    seen = 0

    class Listing:
        uri = "x"

        def list(self, prefix: str):  # type: ignore[no-untyped-def]
            nonlocal seen
            for name in names:
                seen += 1
                yield ObjectInfo(name, 1)

    history = History(Listing())  # type: ignore[arg-type]
    location = history.latest_location()
    assert location is not None
    assert location.version == 4999
    assert seen == 1000
    assert len(list(islice(history.locations(), 5000))) == 4999


def test_the_newest_version_may_vanish_between_listing_and_reading(uri: str) -> None:
    location = TableLocation(uri)
    newest = location.history.latest_location()
    assert newest is not None
    (Path(uri) / newest.path).unlink()
    assert location.history.load_latest().manifest.version == 2


def test_a_table_that_is_created_while_it_is_looked_for() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    location = TableLocation(uri)

    class Late(History):
        def latest_location(self) -> ManifestLocation | None:
            found = super().latest_location()
            if found is None:
                lance_spark.write(pa.table({"a": [1]}), uri)
            return found

    location.history = Late(location.store)
    assert location.latest() is None
    assert lance_spark.open(uri).version == 1
