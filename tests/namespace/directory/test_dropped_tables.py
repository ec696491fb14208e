"""Dropped tables: what is found of them, and that purging touches nothing that another table needs."""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.namespace.directory import dropped_tables
from lance_spark.namespace.directory.dropped_retention import DEFAULT_RETENTION, remove_expired
from lance_spark.namespace.directory.dropped_tables import DroppedTable
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.save import create_partitioned
from lance_spark.table import location
from lance_spark.table.cleanup.auto_cleanup import DROPPED_TABLE_RETENTION, parse_retention
from lance_spark.table.location import TableLocation
from lance_spark.table.refs.tagging import create_tag
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def names(tmp_path: Path) -> DirectoryNamespace:
    names = DirectoryNamespace(str(tmp_path / "root"))
    names.create_namespace(("ns",))
    return names


def create(names: DirectoryNamespace, *identifier: str) -> str:
    uri = names.declare_table(identifier).uri
    lance_spark.write(ROWS, uri)
    return uri


def found(names: DirectoryNamespace) -> list[tuple[str, ...]]:
    return [item.name for item in names.dropped.find()]


def only(names: DirectoryNamespace) -> DroppedTable:
    (item,) = names.dropped.find()
    return item


@pytest.mark.parametrize("identifier", [("t",), ("ns", "t")])
def test_plain_drop_is_found_and_purged(names: DirectoryNamespace, identifier: tuple[str, ...]) -> None:
    uri = create(names, *identifier)
    lance_spark.write(ROWS, uri, mode="append")
    other = create(names, "other")
    names.drop_table(identifier, purge=False)
    item = only(names)
    assert item.name == identifier
    assert item.dropped_at is not None
    assert timedelta(0) <= datetime.now(timezone.utc) - item.dropped_at < timedelta(minutes=5)
    files = names.dropped.files(item)
    inside = [path for path in Path(uri).rglob("*") if path.is_file()]
    assert (files.versions, files.files) == (2, len(inside))
    assert files.num_bytes == sum(path.stat().st_size for path in inside)
    names.dropped.purge(item)
    assert found(names) == []
    assert not Path(uri).exists()
    assert lance_spark.open(other).count_rows() == 3


def test_purged_drop_leaves_nothing_to_find(names: DirectoryNamespace) -> None:
    create(names, "ns", "t")
    names.drop_table(("ns", "t"), purge=True)
    assert found(names) == []


def test_dropped_namespace_is_found_table_by_table(names: DirectoryNamespace) -> None:
    create(names, "ns", "t")
    create(names, "ns", "u")
    names.drop_namespace(("ns",), cascade=True)
    assert found(names) == [("ns", "t"), ("ns", "u")]


def test_partitioned_table_is_purged_with_its_partitions(names: DirectoryNamespace) -> None:
    entry = names.declare_table(("ns", "p"), location="parts/p")
    save_rows(create_partitioned(entry.uri, SCHEMA, BY_COUNTRY), rows(1, 2))
    names.drop_table(("ns", "p"), purge=False)
    assert names.dropped.files(only(names)).versions >= 3
    names.dropped.purge(only(names))
    assert not Path(entry.uri).exists()


def test_recreated_name_is_another_table(names: DirectoryNamespace) -> None:
    old = create(names, "t")
    names.drop_table(("t",), purge=False)
    new = create(names, "t")
    assert new != old
    names.dropped.purge(only(names))
    assert lance_spark.open(names.table_location(("t",)).uri).count_rows() == 3


@pytest.mark.parametrize("identifier", [("t",), ("ns", "t")])
def test_table_that_is_registered_again_is_not_purged(names: DirectoryNamespace, identifier: tuple[str, ...]) -> None:
    uri = create(names, *identifier)
    names.drop_table(identifier, purge=False)
    item = only(names)
    names.register_table(("ns", "again"), item.location)
    assert found(names) == []
    with pytest.raises(InvalidInputError, match="there is a table again"):
        names.dropped.purge(item)
    assert lance_spark.open(uri).count_rows() == 3


def test_table_registered_while_clones_are_searched_is_not_purged(
    names: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = create(names, "ns", "t")
    names.drop_table(("ns", "t"), purge=False)
    item = only(names)
    users = names.dropped.users

    def register(found: DroppedTable) -> list[str]:
        result = users(found)
        names.register_table(("ns", "again"), item.location)
        return result

    monkeypatch.setattr(names.dropped, "users", register)
    with pytest.raises(InvalidInputError, match="there is a table again"):
        names.dropped.purge(item)
    assert lance_spark.open(uri).count_rows() == 3


def test_directory_with_a_live_table_in_it_is_not_a_dropped_one(names: DirectoryNamespace) -> None:
    outer = names.declare_table(("ns", "outer"), location="x/outer")
    lance_spark.write(ROWS, outer.uri)
    names.drop_table(("ns", "outer"), purge=False)
    inner = names.declare_table(("ns", "inner"), location="x/outer/inner")
    lance_spark.write(ROWS, inner.uri)
    assert found(names) == []


@pytest.mark.parametrize("clone_is", ["in the catalog", "dropped", "on a branch", "rewritten", "in an old version"])
def test_files_of_a_shallow_clone_are_kept(names: DirectoryNamespace, clone_is: str) -> None:
    source = create(names, "ns", "source")
    uri = names.declare_table(("ns", "clone")).uri
    if clone_is == "on a branch":
        lance_spark.write(ROWS, uri)
        lance_spark.open(source).create_branch("b").shallow_clone(uri + "/tree/x")
    else:
        clone = lance_spark.open(source).shallow_clone(uri)
        assert clone.count_rows() == 3
    if clone_is == "rewritten":
        lance_spark.write(ROWS, uri, mode="append").compact()
    if clone_is == "in an old version":
        lance_spark.write(ROWS, uri, mode="overwrite")
    if clone_is == "dropped":
        names.drop_table(("ns", "clone"), purge=False)
    names.drop_table(("ns", "source"), purge=False)
    item = next(item for item in names.dropped.find() if item.name == ("ns", "source"))
    with pytest.raises(InvalidInputError, match="a shallow clone; drop and purge that first"):
        names.dropped.purge(item)
    assert lance_spark.open(source).to_table().num_rows == 3
    if clone_is == "dropped":
        names.dropped.purge(next(item for item in names.dropped.find() if item.name == ("ns", "clone")))
        names.dropped.purge(item)
        assert found(names) == []


@pytest.mark.parametrize("clone_is", ["elsewhere", "in the catalog"])
def test_table_with_a_clone_is_not_purged_until_the_clone_is_gone(
    names: DirectoryNamespace, tmp_path: Path, clone_is: str
) -> None:
    source = create(names, "ns", "source")
    uri = str(tmp_path / "clone") if clone_is == "elsewhere" else names.declare_table(("clone",)).uri
    lance_spark.open(source).shallow_clone(uri)
    (tag,) = lance_spark.open(source).tags()
    refused = (
        re.escape(f"the tag {tag!r} keeps the files at {source!r} for a shallow clone at {uri!r}") + ".* without PURGE"
    )
    with pytest.raises(InvalidInputError, match=refused):
        names.drop_table(("ns", "source"), purge=True)
    with pytest.raises(InvalidInputError, match=refused):
        names.drop_namespace(("ns",), cascade=True, purge=True)
    assert names.table_exists(("ns", "source"))
    names.drop_table(("ns", "source"), purge=False)
    by_tag = f"the tag '{tag}' keeps the files.*or remove the tag, with delete_tag of lance_spark.open"
    by_catalog = "a shallow clone; drop and purge that first"
    with pytest.raises(InvalidInputError, match=by_tag if clone_is == "elsewhere" else by_catalog):
        names.dropped.purge(only(names))
    assert lance_spark.open(uri).count_rows() == 3
    if clone_is == "elsewhere":
        shutil.rmtree(uri)
        with pytest.raises(InvalidInputError, match=by_tag):
            names.dropped.purge(only(names))
        lance_spark.open(source).delete_tag(tag)
    else:
        names.drop_table(("clone",), purge=True)
    names.dropped.purge(only(names))
    assert found(names) == []


@pytest.mark.parametrize("place", ["elsewhere", "s3://nowhere/t", "..", "root/../../x", "", None])
def test_place_that_a_tag_names_is_not_opened(
    names: DirectoryNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    source = create(names, "ns", "source")
    metadata = {} if place is None else {"clone": place.replace("elsewhere", str(tmp_path / "elsewhere"))}
    create_tag(TableLocation(source), "lance-clone-x", 1, metadata=metadata)
    create_tag(TableLocation(source), "lance-clone-y", 1)
    opened: list[str] = []
    for module in (dropped_tables, location):
        made = module.open_store

        def recorded(uri: Any, *options: Any, made: Any = made) -> Any:
            opened.append(str(uri))
            return made(uri, *options)

        monkeypatch.setattr(module, "open_store", recorded)
    refused = r"the tag 'lance-clone-x' keeps .* \(1 more: lance-clone-y\); drop that with PURGE"
    with pytest.raises(InvalidInputError, match=refused):
        names.drop_table(("ns", "source"), purge=True)
    names.drop_table(("ns", "source"), purge=False)
    with pytest.raises(InvalidInputError, match=refused):
        names.dropped.purge(only(names))
    age(names, days=100)
    assert remaining(names) == [("ns", "source")]
    assert opened
    assert all(uri.startswith(names.root) for uri in opened)
    for tag in ("lance-clone-x", "lance-clone-y"):
        lance_spark.open(source).delete_tag(tag)
    age(names, days=100)
    assert remaining(names) == []


def test_clone_that_no_longer_reads_the_files_has_its_tag_removed_by_hand(
    names: DirectoryNamespace, tmp_path: Path
) -> None:
    source, uri = create(names, "ns", "source"), str(tmp_path / "clone")
    lance_spark.open(source).shallow_clone(uri)
    lance_spark.write(ROWS, uri, mode="overwrite").cleanup(older_than=timedelta(0))
    names.drop_table(("ns", "source"), purge=False)
    with pytest.raises(InvalidInputError, match="has files of its own only"):
        names.dropped.purge(only(names))
    (tag,) = lance_spark.open(source).tags()
    lance_spark.open(source).delete_tag(tag)
    names.dropped.purge(only(names))
    assert lance_spark.open(uri).count_rows() == 3


def test_tags_of_partitions_keep_a_table(names: DirectoryNamespace, tmp_path: Path) -> None:
    entry = names.declare_table(("ns", "p"))
    table = save_rows(create_partitioned(entry.uri, SCHEMA, BY_COUNTRY), rows(1, 2))
    (partition,) = table.partitions()
    place = f"{entry.uri}/{partition.location}"
    lance_spark.open(place).shallow_clone(tmp_path / "clone")
    (tag,) = lance_spark.open(place).tags()
    refused = re.escape(f"the tag {tag!r} keeps the files at {place!r}")
    with pytest.raises(InvalidInputError, match=refused):
        names.drop_table(("ns", "p"), purge=True)
    names.drop_table(("ns", "p"), purge=False)
    with pytest.raises(InvalidInputError, match=refused):
        names.dropped.purge(only(names))
    age(names, days=100)
    assert remaining(names) == [("ns", "p")]
    assert lance_spark.open(tmp_path / "clone").count_rows() == 2
    lance_spark.open(place).delete_tag(tag)
    names.dropped.purge(only(names))
    assert not Path(entry.uri).exists()


def test_namespace_with_a_table_and_its_clone_is_purged(names: DirectoryNamespace) -> None:
    source = create(names, "ns", "source")
    lance_spark.open(source).shallow_clone(names.declare_table(("ns", "clone")).uri)
    names.drop_namespace(("ns",), cascade=True, purge=True)
    assert not Path(source).exists()


def test_purged_clone_leaves_no_tag_in_its_base(names: DirectoryNamespace) -> None:
    source = create(names, "ns", "source")
    lance_spark.open(source).create_tag("kept")
    lance_spark.open(source).shallow_clone(names.declare_table(("clone",)).uri)
    names.drop_table(("clone",), purge=False)
    assert len(lance_spark.open(source).tags()) == 2
    names.dropped.purge(only(names))
    assert list(lance_spark.open(source).tags()) == ["kept"]
    assert lance.dataset(source).tags.list().keys() == {"kept"}


def test_files_outside_of_the_root_are_never_purged(names: DirectoryNamespace, tmp_path: Path) -> None:
    uri = str(tmp_path / "elsewhere")
    lance_spark.write(ROWS, uri)
    names.register_table(("ns", "t"), uri)
    names.drop_table(("ns", "t"), purge=False)
    assert found(names) == []


def test_directory_that_another_library_has_taken_out_is_found(names: DirectoryNamespace) -> None:
    lance_spark.write(ROWS, f"{names.root}/t.lance")
    Path(names.root, "t.lance", ".lance-deregistered").touch()
    assert only(names).name == ("t",)
    assert only(names).dropped_at is not None


def test_failed_purge_can_be_repeated(names: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = create(names, "ns", "t")
    names.drop_table(("ns", "t"), purge=False)

    def fails(*_: object, **__: object) -> None:
        raise StorageError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(dropped_tables, "delete_tables_in", fails)
        with pytest.raises(StorageError, match="on purpose"):
            names.dropped.purge(only(names))
    names.dropped.purge(only(names))
    assert not Path(uri).exists()


def test_record_of_a_drop_that_failed_hides_nothing(names: DirectoryNamespace) -> None:
    create(names, "ns", "t")
    names.dropped.record(("ns", "t"), names.table_location(("ns", "t")).uri.removeprefix(f"{names.root}/"))
    assert found(names) == []
    assert names.list_tables(("ns",)) == ["t"]


def age(names: DirectoryNamespace, days: float) -> None:
    """Makes all drops and the files of all tables this much older."""
    moment = datetime.now(timezone.utc) - timedelta(days=days)
    for path in Path(names.root, dropped_tables.RECORDS).glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "dropped_at": moment.isoformat()}))
    for path in Path(names.root).rglob("*"):
        os.utime(path, (moment.timestamp(), moment.timestamp()))


def remaining(names: DirectoryNamespace, default: timedelta | None = DEFAULT_RETENTION) -> list[tuple[str, ...]]:
    """What is found after another drop of the catalog."""
    remove_expired(names.dropped, default)
    return found(names)


@pytest.mark.parametrize("identifier", [("t",), ("ns", "t")])
def test_files_go_when_the_retention_is_over(names: DirectoryNamespace, identifier: tuple[str, ...]) -> None:
    uri, other = create(names, *identifier), create(names, "other")
    names.drop_table(identifier, purge=False)
    age(names, days=6.9)
    assert remaining(names) == [identifier]
    age(names, days=7.1)
    assert remaining(names, None) == [identifier], "a catalog that keeps them forever"
    age(names, days=7.1)
    assert remaining(names) == []
    assert not Path(uri).exists()
    assert lance_spark.open(other).count_rows() == 3


def test_partitioned_table_goes_when_its_own_retention_is_over(names: DirectoryNamespace) -> None:
    for name, retention in (("short", "1 hour"), ("long", "forever")):
        location = f"12345678_{name}"
        entry = names.declare_table(("ns", name), location=location)
        made = create_partitioned(entry.uri, SCHEMA, BY_COUNTRY, properties={DROPPED_TABLE_RETENTION: retention})
        save_rows(made, rows(1, 2))
        names.drop_table(("ns", name), purge=False)
    age(names, days=30)
    assert remaining(names, None) == [("ns", "long")]
    age(names, days=30)
    assert remaining(names) == [("ns", "long")]


def test_property_of_a_table_wins_over_the_catalog(names: DirectoryNamespace) -> None:
    for name, retention in (("short", "1 hour"), ("long", "90 days"), ("wrong", "soon")):
        # The reference library does not know the property, and takes any value.
        lance.dataset(create(names, name)).update_config({DROPPED_TABLE_RETENTION: retention})
        names.drop_table((name,), purge=False)
    age(names, days=1)
    assert remaining(names) == [("long",), ("wrong",)]
    age(names, days=8)
    assert remaining(names) == [("long",), ("wrong",)]
    age(names, days=91)
    assert remaining(names) == [("wrong",)], "what is not understood keeps the files"


@pytest.mark.parametrize(
    "kind",
    ["deregistered", "marked by another library", "at a chosen place", "written to", "registered again", "cloned"],
)
def test_what_is_not_provably_unused_stays(names: DirectoryNamespace, tmp_path: Path, kind: str) -> None:
    location = "mine/t" if kind == "at a chosen place" else None
    uri = names.declare_table(("t",), location=location).uri
    lance_spark.write(ROWS, uri)
    if kind == "cloned":
        lance_spark.open(uri).shallow_clone(tmp_path / "clone")
    if kind == "marked by another library":
        Path(uri, ".lance-deregistered").touch()
    elif kind == "deregistered":
        names.deregister_table(("t",))
    else:
        names.drop_table(("t",), purge=False)
    age(names, days=100)
    if kind == "written to":
        lance_spark.write(ROWS, uri, mode="append")
    if kind == "registered again":
        names.register_table(("ns", "back"), only(names).location)
    remove_expired(names.dropped, timedelta(days=1))
    assert lance_spark.open(uri).to_table().num_rows in (3, 6)


def test_searches_are_apart(names: DirectoryNamespace) -> None:
    create(names, "t")
    assert remaining(names) == []
    names.drop_table(("t",), purge=False)
    age(names, days=8)
    last = Path(names.root, dropped_tables.RECORDS, "searches", "last")
    os.utime(last)
    assert remaining(names) == [("t",)], "the last search was just now"
    os.utime(last, (0, 0))
    assert remaining(names) == []


def test_failure_of_a_search_is_logged(names: DirectoryNamespace, caplog: pytest.LogCaptureFixture) -> None:
    create(names, "t")
    names.drop_table(("t",), purge=False)
    age(names, days=8)
    Path(names.root, dropped_tables.RECORDS, "x.json").write_text("{")
    remove_expired(names.dropped, DEFAULT_RETENTION)
    assert "CALL system.purge(expired => true)" in caplog.text


@pytest.mark.parametrize("manifest", [True, False])
def test_table_whose_files_are_being_deleted_gets_no_name(
    names: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch, manifest: bool
) -> None:
    create(names, "t")
    names.drop_table(("t",), purge=False)
    item, others = only(names), DirectoryNamespace(names.root, manifest=manifest)
    delete = dropped_tables.delete_tables_in

    def register(*given: Any, **named: Any) -> None:
        for _ in range(2):
            with pytest.raises(InvalidInputError, match="are being deleted, as those of a dropped table"):
                others.register_table(("t",), item.location)
        assert not others.table_exists(("t",))
        delete(*given, **named)

    monkeypatch.setattr(dropped_tables, "delete_tables_in", register)
    names.dropped.purge(item)
    assert found(names) == []
    assert not list(Path(names.root, dropped_tables.RECORDS).rglob("*t.lance*"))


def test_claim_of_a_killed_purge_is_taken_over_when_it_is_old(names: DirectoryNamespace) -> None:
    create(names, "t")
    names.drop_table(("t",), purge=False)
    claim = Path(names.root, dropped_tables.RECORDS, "claims", "t.lance")
    claim.parent.mkdir()
    claim.touch()
    with pytest.raises(InvalidInputError, match="are being deleted already; if that was stopped, remove"):
        names.dropped.purge(only(names))
    os.utime(claim, (0, 0))
    names.dropped.purge(only(names))
    assert not claim.exists()


@pytest.mark.parametrize(("text", "days"), [("7 days", 7), ("36h", 1.5), ("FOREVER", None), ("0s", 0)])
def test_retention_is_a_length_of_time_or_forever(text: str, days: float | None) -> None:
    assert parse_retention(text) == (None if days is None else timedelta(days=days))


@pytest.mark.parametrize("text", ["", "7", "soon", "-1 day", "never"])
def test_other_retentions_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="or forever"):
        parse_retention(text)
