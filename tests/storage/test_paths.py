from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.storage.paths import (
    Root,
    absolute_uri,
    folder_path,
    is_listed,
    object_path,
    parse_root,
    uri_text,
    with_absolute_path,
)


@given(st.lists(st.sampled_from(["a", "b.c", "..", ".", "", "...", "%2e%2e", "\\", "x\0", " "]), max_size=5))
def test_an_accepted_path_stays_below_the_root(parts: list[str]) -> None:
    path = "/".join(parts)
    try:
        accepted = object_path(path)
    except InvalidInputError:
        return
    assert accepted == path
    resolved = os.path.normpath(os.path.join("/root/table", accepted))
    assert resolved == f"/root/table/{path}"


@given(st.text(max_size=20))
def test_any_text_is_accepted_or_refused(path: str) -> None:
    try:
        assert object_path(path) == path
        assert folder_path(f"{path}/") == path
    except InvalidInputError:
        assert not path or "\\" in path or "\0" in path or set(path.split("/")) & {"", ".", ".."}


def test_folders() -> None:
    assert folder_path("") == ""
    assert folder_path("/") == ""
    assert folder_path("data/") == folder_path("data") == "data"
    with pytest.raises(InvalidInputError):
        folder_path("data//")


def test_what_is_listed() -> None:
    assert is_listed("data/.tmp_1")
    assert is_listed(".tmp_lance_spark_1/x")
    for path in ["data/.tmp_lance_spark_1", "data/", "a//b", "back\\slash", "lone\ud800surrogate"]:
        assert not is_listed(path)


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/tmp/t.lance", Root("file", "/tmp/t.lance")),
        ("/tmp/t.lance/", Root("file", "/tmp/t.lance")),
        ("/tmp/a%20b#c?d", Root("file", "/tmp/a%20b#c?d")),
        ("/tmp/c:/d", Root("file", "/tmp/c:/d")),
        ("/", Root("file", "/")),
        ("file:///tmp/a%20b", Root("file", "/tmp/a b")),
        ("file:/tmp/t", Root("file", "/tmp/t")),
        ("file://localhost/tmp/t", Root("file", "/tmp/t")),
        ("FILE:///tmp/t/", Root("file", "/tmp/t")),
        ("memory://x", Root("memory", "x")),
        ("memory://a%20b/c", Root("memory", "a%20b/c")),
        ("s3://bucket", Root("s3", "bucket")),
        ("s3://bucket/a/b/", Root("s3", "bucket/a/b")),
        ("s3a://bucket/a%20b%23%3F", Root("s3a", "bucket/a b#?")),
        ("S3://Bucket/Key", Root("s3", "Bucket/Key")),
        ("gs://bucket/ü", Root("gs", "bucket/ü")),
        ("abfss://c@account.dfs.core.windows.net/p", Root("abfss", "c@account.dfs.core.windows.net/p")),
    ],
)
def test_roots(uri: str, root: Root) -> None:
    assert parse_root(uri) == root


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "s3://",
        "s3:///key",
        "s3://bucket//key",
        "s3://bucket/../other",
        "s3://bucket/%2e%2e/other",
        "s3://bucket/a#b",
        "s3://bucket/a?versionId=1",
        "s3://bucket/%ff",
        "s3://bucket/%00",
        "file://host/path",
        "file:relative",
        "file://",
        "simplecache::s3://bucket/key",
        "/nul\0byte",
        "/lone\ud800surrogate",
    ],
)
def test_no_roots(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_root(uri)


def test_a_relative_root_is_fixed_when_it_is_parsed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_root("t.lance") == Root("file", str(tmp_path / "t.lance"))
    assert parse_root("a/../t.lance") == Root("file", str(tmp_path / "t.lance"))
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse_root("~/t.lance") == Root("file", "/home/someone/t.lance")


def test_uri_text_takes_text_and_paths(tmp_path: Path) -> None:
    assert uri_text("s3://bucket/a") == "s3://bucket/a"
    assert uri_text(tmp_path / "a b%20") == f"{tmp_path}/a b%20"


@pytest.mark.parametrize("wrong", [None, 3, b"/tmp/t", ["/tmp/t"]])
def test_uri_text_refuses_other_types(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match=r"give a str or a pathlib\.Path"):
        uri_text(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("uri", ["s3://bucket/table", "file:///tmp/table", "memory://x/y"])
def test_uri_text_refuses_a_path_that_was_made_of_a_uri(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="give the URI as a str"):
        uri_text(Path(uri))


def test_absolute_uri_keeps_uris_and_resolves_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_uri("t/") == f"{tmp_path}/t"
    assert absolute_uri("/a/b") == "/a/b"
    assert absolute_uri("s3://b/my%20t/") == "s3://b/my%20t"
    assert absolute_uri("file:///a/b") == "file:///a/b"


@pytest.mark.parametrize("uri", ["/data/t", "/data/t/", "s3://bucket/t/", "memory://t", "file:///data/t"])
def test_message_has_an_absolute_place_as_it_is(uri: str) -> None:
    assert with_absolute_path(uri) == uri


def test_message_has_a_relative_path_with_the_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_absolute_path("data/t") == f"data/t ({tmp_path}/data/t)"
    assert with_absolute_path("~/t") == f"~/t ({Path.home()}/t)"
