"""What a directory namespace promises, on a local disk and in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.storage import open_store

ODD_NAMES = [
    "with space",
    "per%20cent",
    "a/b",
    "..",
    ".",
    "grüße-日本",
    "hash#tag",
    "what?why=1",
    "back\\slash",
    "x.lance",
]


@pytest.fixture
def namespace(root: str) -> DirectoryNamespace:
    return DirectoryNamespace(root)


def write(uri: str, *values: int) -> None:
    lance_spark.write(pa.table({"a": pa.array(values, pa.int64())}), uri, mode="append")


def read(uri: str) -> list[int]:
    values: list[int] = lance_spark.open(uri).to_table()["a"].to_pylist()
    return values


def test_a_root_that_is_not_there_is_empty(namespace: DirectoryNamespace) -> None:
    assert namespace.list_tables() == []
    assert namespace.list_namespaces() == []
    assert namespace.namespace_exists(())
    assert namespace.namespace_properties(()) == {}
    assert not namespace.table_exists(("t",))
    with pytest.raises(NotFoundError):
        namespace.table_location(("t",))


def test_namespaces_nest(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("b",), {"owner": "me"})
    namespace.create_namespace(("a",))
    namespace.create_namespace(("a", "a"))
    namespace.create_namespace(("a", "ab"))
    namespace.create_namespace(("ab",))
    assert namespace.list_namespaces() == ["a", "ab", "b"]
    assert namespace.list_namespaces(("a",)) == ["a", "ab"]
    assert namespace.list_namespaces(("ab",)) == []
    assert namespace.namespace_exists(("a", "ab"))
    assert not namespace.namespace_exists(("A",))
    assert namespace.namespace_properties(("b",)) == {"owner": "me"}
    assert namespace.namespace_properties(("a",)) == {}


def test_a_namespace_is_made_once(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("a",), {"x": "1"})
    with pytest.raises(AlreadyExistsError):
        namespace.create_namespace(("a",))
    namespace.create_namespace(("a",), {"x": "2"}, exist_ok=True)
    assert namespace.namespace_properties(("a",)) == {"x": "1"}
    namespace.declare_table(("a", "t"))
    with pytest.raises(AlreadyExistsError):
        namespace.create_namespace(("a", "t"), exist_ok=True)
    with pytest.raises(AlreadyExistsError):
        namespace.declare_table(("a",))


def test_what_is_in_a_namespace_needs_it(namespace: DirectoryNamespace) -> None:
    with pytest.raises(NotFoundError, match="no namespace a"):
        namespace.create_namespace(("a", "b"))
    with pytest.raises(NotFoundError, match="no namespace a"):
        namespace.declare_table(("a", "t"))
    for ask in (namespace.list_tables, namespace.list_namespaces, namespace.namespace_properties):
        with pytest.raises(NotFoundError, match="no namespace a"):
            ask(("a",))


def test_properties_change_one_by_one(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("a",), {"x": "1", "y": "2"})
    namespace.create_namespace(("b",), {"x": "1"})
    namespace.set_namespace_properties(("a",), {"x": None, "z": '"\\ü\n', "missing": None})
    assert namespace.namespace_properties(("a",)) == {"y": "2", "z": '"\\ü\n'}
    assert namespace.namespace_properties(("b",)) == {"x": "1"}
    namespace.set_namespace_properties(("a",), {"y": None, "z": None})
    assert namespace.namespace_properties(("a",)) == {}
    with pytest.raises(NotFoundError):
        namespace.set_namespace_properties(("c",), {"x": "1"})


def test_the_root_has_properties_too(namespace: DirectoryNamespace) -> None:
    namespace.set_namespace_properties((), {"x": "1", "y": "2"})
    namespace.create_namespace(("a",))
    namespace.set_namespace_properties((), {"x": None})
    assert namespace.namespace_properties(()) == {"y": "2"}
    with pytest.raises(InvalidInputError, match="own"):
        namespace.set_namespace_properties((), {"lance.namespace.manifest.reader_feature_flags": "1"})
    with pytest.raises(InvalidInputError, match="own"):
        namespace.set_namespace_properties((), {"table_version_management": "true"})


def test_a_declared_table_becomes_real_with_its_first_version(namespace: DirectoryNamespace, root: str) -> None:
    namespace.create_namespace(("n",))
    for identifier in (("t",), ("n", "t")):
        entry = namespace.declare_table(identifier, properties={"k": "v"})
        assert entry.is_declared
        assert namespace.table_location(identifier) == entry
        assert namespace.table_exists(identifier)
        write(entry.uri, 1, 2)
        found = namespace.table_location(identifier)
        assert (found.uri, dict(found.properties), found.is_declared) == (entry.uri, {"k": "v"}, False)
        assert read(found.uri) == [1, 2]
    assert namespace.table_location(("t",)).uri == f"{root}/t.lance"
    assert namespace.table_location(("n", "t")).uri.startswith(f"{root}/")
    assert namespace.list_tables() == ["t"]
    assert namespace.list_tables(("n",)) == ["t"]


def test_the_name_of_a_table_is_taken(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("n",))
    for identifier in (("t",), ("n", "t")):
        uri = namespace.declare_table(identifier).uri
        with pytest.raises(AlreadyExistsError):
            namespace.declare_table(identifier)
        assert namespace.table_location(identifier).uri == uri
    namespace.declare_table(("T",))
    assert namespace.list_tables() == ["T", "t"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_need_not_be_names_of_directories(namespace: DirectoryNamespace, name: str) -> None:
    namespace.create_namespace((name,))
    for identifier in ((name, name), (f"t{name}",)):
        write(namespace.declare_table(identifier).uri, 7)
        assert read(namespace.table_location(identifier).uri) == [7]
    assert namespace.list_namespaces() == [name]
    assert namespace.list_tables((name,)) == [name]
    assert namespace.list_tables() == [f"t{name}"]
    namespace.drop_table((name, name), purge=True)
    assert namespace.list_tables((name,)) == []


@pytest.mark.parametrize("identifier", [(), ("",), ("a", ""), ("a$b",), ("a\nb",), ("\ud800",), "abc", ("a", 1)])
def test_what_is_no_identifier(namespace: DirectoryNamespace, identifier: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError):
        namespace.declare_table(identifier)
    if identifier:
        with pytest.raises(InvalidInputError):
            namespace.create_namespace(identifier)


def test_a_name_with_the_delimiter_is_not_the_path(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("a",))
    namespace.declare_table(("a", "t"))
    namespace.create_namespace(("a", "n"))
    assert not namespace.table_exists(("a$t",))
    assert not namespace.namespace_exists(("a$n",))
    for ask in (namespace.list_tables, namespace.namespace_properties):
        with pytest.raises(NotFoundError):
            ask(("a$n",))
    with pytest.raises(NotFoundError):
        namespace.drop_namespace(("a$n",))
    with pytest.raises(NotFoundError):
        namespace.drop_table(("a$t",), purge=True)


def test_dropping_keeps_or_deletes_files(namespace: DirectoryNamespace, root: str) -> None:
    namespace.create_namespace(("n",))
    for identifier in (("kept",), ("n", "kept"), ("gone",), ("n", "gone")):
        entry = namespace.declare_table(identifier)
        write(entry.uri, 1)
        namespace.drop_table(identifier, purge=identifier[-1] == "gone")
        assert not namespace.table_exists(identifier)
        with pytest.raises(NotFoundError):
            namespace.drop_table(identifier, purge=False)
        if identifier[-1] == "kept":
            assert read(entry.uri) == [1]
        else:
            assert not list(open_store(entry.uri).list("", recursive=True))
    assert namespace.list_tables() == []
    assert namespace.list_tables(("n",)) == []
    if not root.startswith("memory:"):
        assert not (Path(root) / "gone.lance").exists()


def test_a_name_is_free_again_and_has_none_of_the_old_rows(namespace: DirectoryNamespace) -> None:
    for purge in (True, False, True):
        entry = namespace.declare_table(("t",))
        assert entry.is_declared
        write(entry.uri, 1)
        assert read(entry.uri) == [1]
        namespace.drop_table(("t",), purge=purge)
    assert namespace.list_tables() == []


def test_a_table_that_was_taken_out_comes_back(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("n",))
    uri = namespace.declare_table(("t",)).uri
    write(uri, 1)
    namespace.deregister_table(("t",))
    assert namespace.list_tables() == []
    entry = namespace.register_table(("t",), "t.lance", {"k": "v"})
    assert (entry.uri, dict(entry.properties), entry.is_declared) == (uri, {"k": "v"}, False)
    assert namespace.table_location(("t",)) == entry
    namespace.deregister_table(("t",))
    namespace.register_table(("n", "x"), uri)
    assert namespace.list_tables() == []
    assert read(namespace.table_location(("n", "x")).uri) == [1]


def test_what_cannot_be_registered(namespace: DirectoryNamespace, root: str) -> None:
    write(namespace.declare_table(("t",)).uri, 1)
    with pytest.raises(NotFoundError, match="no table at"):
        namespace.register_table(("x",), "nothing")
    with pytest.raises(InvalidInputError, match="belong to the table 't' too"):
        namespace.register_table(("x",), "t.lance")
    with pytest.raises(InvalidInputError, match=r"'\.\.'"):
        namespace.register_table(("x",), "../other")
    with pytest.raises(InvalidInputError, match="catalog"):
        namespace.register_table(("x",), f"{root}/__manifest")
    write(f"{root}/other", 2)
    with pytest.raises(AlreadyExistsError):
        namespace.register_table(("t",), "other")
    with pytest.raises(NotFoundError, match="no namespace n"):
        namespace.register_table(("n", "t"), "other")
    assert namespace.list_tables() == ["t"]


def test_a_table_from_elsewhere(namespace: DirectoryNamespace, root: str) -> None:
    elsewhere = f"{root}-elsewhere"
    write(elsewhere, 5)
    entry = namespace.register_table(("t",), elsewhere)
    assert read(entry.uri) == [5]
    assert namespace.table_location(("t",)) == entry
    with pytest.raises(InvalidInputError, match="outside of the root"):
        namespace.drop_table(("t",), purge=True)
    assert namespace.table_exists(("t",))
    namespace.drop_table(("t",), purge=False)
    assert read(elsewhere) == [5]


def test_a_declared_table_can_choose_its_place(namespace: DirectoryNamespace, root: str) -> None:
    namespace.create_namespace(("n",))
    entry = namespace.declare_table(("n", "t"), location="some/place")
    assert entry.uri == f"{root}/some/place"
    outside = namespace.declare_table(("n", "o"), location=f"{root}-outside")
    write(outside.uri, 1)
    assert read(f"{root}-outside") == [1]
    for taken in ("some/place", "some", "some/place/below", f"{root}/some/place", "__manifest", "", "a/../b", root):
        with pytest.raises(InvalidInputError):
            namespace.declare_table(("n", "x"), location=taken)
    assert namespace.list_tables(("n",)) == ["o", "t"]


def test_renaming_moves_no_file(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("n",))
    entry = namespace.declare_table(("t",), properties={"k": "v"})
    write(entry.uri, 1)
    namespace.rename_table(("t",), ("u",))
    assert namespace.list_tables() == ["u"]
    assert not namespace.table_exists(("t",))
    namespace.rename_table(("u",), ("n", "w"))
    assert namespace.list_tables() == []
    found = namespace.table_location(("n", "w"))
    assert (found.uri, dict(found.properties)) == (entry.uri, {"k": "v"})
    new = namespace.declare_table(("t",))
    assert new.uri != entry.uri
    with pytest.raises(AlreadyExistsError):
        namespace.rename_table(("n", "w"), ("t",))
    with pytest.raises(NotFoundError):
        namespace.rename_table(("n", "w"), ("m", "w"))
    with pytest.raises(NotFoundError):
        namespace.rename_table(("nothing",), ("x",))
    namespace.drop_table(("t",), purge=True)
    namespace.rename_table(("n", "w"), ("t",))
    assert DirectoryNamespace(namespace.root, manifest=False).list_tables() == ["t"]
    namespace.rename_table(("t",), ("z",))
    namespace.drop_table(("z",), purge=False)
    assert namespace.list_tables() == []


def test_a_namespace_with_something_in_it_stays(namespace: DirectoryNamespace) -> None:
    namespace.create_namespace(("n",))
    namespace.create_namespace(("n", "m"))
    namespace.create_namespace(("nn",))
    with pytest.raises(NotEmptyError):
        namespace.drop_namespace(("n",))
    namespace.drop_namespace(("n", "m"))
    namespace.declare_table(("n", "t"))
    with pytest.raises(NotEmptyError):
        namespace.drop_namespace(("n",))
    namespace.drop_table(("n", "t"), purge=True)
    namespace.drop_namespace(("n",))
    assert namespace.list_namespaces() == ["nn"]
    with pytest.raises(NotFoundError):
        namespace.drop_namespace(("n",))
    with pytest.raises(InvalidInputError):
        namespace.drop_namespace(())


@pytest.mark.parametrize("purge", [False, True])
def test_dropping_a_namespace_with_all_that_is_in_it(namespace: DirectoryNamespace, purge: bool) -> None:
    namespace.create_namespace(("n",))
    namespace.create_namespace(("n", "m"))
    write(listed := namespace.declare_table(("t",)).uri, 1)
    namespace.rename_table(("t",), ("n", "m", "t"))
    write(other := namespace.declare_table(("n", "t")).uri, 2)
    write(namespace.declare_table(("stays",)).uri, 3)
    namespace.drop_namespace(("n",), cascade=True, purge=purge)
    assert namespace.list_namespaces() == []
    assert namespace.list_tables() == ["stays"]
    for uri in (listed, other):
        assert bool(list(open_store(uri).list("_versions"))) is not purge


def test_directories_are_tables_of_the_root(namespace: DirectoryNamespace, root: str) -> None:
    for name in ("a.lance", "b.lance", "no-table", "c.lance/below.lance", "d$e.lance"):
        write(f"{root}/{name}", 1)
    plain = DirectoryNamespace(root, manifest=False)
    assert namespace.list_tables() == plain.list_tables() == ["a", "b", "c"]
    assert namespace.table_location(("a",)).uri == f"{root}/a.lance"
    assert not namespace.table_location(("a",)).is_declared
    for taken in (namespace.declare_table, namespace.create_namespace):
        with pytest.raises(AlreadyExistsError):
            taken(("a",))
    with pytest.raises(AlreadyExistsError):
        namespace.register_table(("a",), "no-table")
    namespace.register_table(("z",), "no-table")
    with pytest.raises(AlreadyExistsError):
        namespace.rename_table(("z",), ("a",))
    with pytest.raises(AlreadyExistsError):
        namespace.rename_table(("a",), ("a",))
    namespace.deregister_table(("a",))
    namespace.rename_table(("b",), ("x",))
    assert namespace.list_tables() == ["c", "x", "z"]
    assert plain.list_tables() == ["c"]
    assert read(namespace.table_location(("x",)).uri) == [1]


def test_a_directory_and_a_namespace_of_one_name(namespace: DirectoryNamespace, root: str) -> None:
    namespace.create_namespace(("a",))
    namespace.declare_table(("a", "t"))
    write(f"{root}/a.lance", 1)
    assert namespace.list_tables() == namespace.list_namespaces() == ["a"]
    assert read(namespace.table_location(("a",)).uri) == [1]
    assert namespace.register_listed_tables() == []
    namespace.drop_table(("a",), purge=True)
    assert namespace.list_tables() == []
    assert namespace.list_tables(("a",)) == ["t"]


def test_directories_get_rows_of_their_own(namespace: DirectoryNamespace, root: str) -> None:
    for name in ("a", "b", "c"):
        write(f"{root}/{name}.lance", 1)
    namespace.register_table(("a",), "a.lance", {"k": "v"})
    assert namespace.register_listed_tables() == ["b", "c"]
    assert namespace.register_listed_tables() == []
    assert namespace.list_tables() == ["a", "b", "c"]
    rows = lance_spark.open(f"{root}/__manifest").to_table()
    assert rows["location"].to_pylist() == ["a.lance", "b.lance", "c.lance"]
    assert namespace.table_location(("a",)).properties == {"k": "v"}


def test_a_root_without_a_catalog(root: str) -> None:
    namespace = DirectoryNamespace(root, manifest=False)
    entry = namespace.declare_table(("t",))
    assert namespace.table_location(("t",)) == entry
    assert entry.is_declared
    with pytest.raises(AlreadyExistsError):
        namespace.declare_table(("t",))
    write(entry.uri, 1)
    assert namespace.list_tables() == ["t"]
    namespace.deregister_table(("t",))
    assert namespace.list_tables() == []
    assert not namespace.table_exists(("t",))
    with pytest.raises(InvalidInputError, match="register"):
        namespace.declare_table(("t",))
    namespace.register_table(("t",), "t.lance")
    assert read(namespace.table_location(("t",)).uri) == [1]
    with pytest.raises(AlreadyExistsError):
        namespace.register_table(("t",), "t.lance")
    namespace.drop_table(("t",), purge=True)
    assert namespace.list_tables() == []
    assert namespace.list_namespaces() == []
    assert not list(open_store(f"{root}/__manifest").list("", recursive=True))


def test_what_needs_a_catalog(root: str) -> None:
    namespace = DirectoryNamespace(root, manifest=False)
    write(namespace.declare_table(("t",)).uri, 1)
    with pytest.raises(UnsupportedFeatureError):
        namespace.create_namespace(("n",))
    with pytest.raises(UnsupportedFeatureError):
        namespace.declare_table(("n", "t"))
    with pytest.raises(UnsupportedFeatureError):
        namespace.declare_table(("a/b",))
    with pytest.raises(UnsupportedFeatureError):
        namespace.declare_table(("u",), properties={"k": "v"})
    with pytest.raises(UnsupportedFeatureError):
        namespace.register_table(("u",), "t.lance")
    with pytest.raises(UnsupportedFeatureError):
        namespace.rename_table(("t",), ("u",))
    with pytest.raises(NotFoundError):
        namespace.list_tables(("n",))


def test_a_relative_root_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = DirectoryNamespace("root")
    entry = namespace.declare_table(("t",))
    monkeypatch.chdir("/")
    write(entry.uri, 1)
    assert not namespace.table_location(("t",)).is_declared


def test_a_root_given_as_a_uri(tmp_path: Path) -> None:
    namespace = DirectoryNamespace(f"file://{tmp_path}/my%20root")
    namespace.create_namespace(("a b",))
    write(namespace.declare_table(("a b", "t#1")).uri, 1)
    write(namespace.declare_table(("ü x",)).uri, 2)
    assert (tmp_path / "my root" / "ü x.lance" / "_versions").is_dir()
    plain = DirectoryNamespace(str(tmp_path / "my root"))
    assert read(plain.table_location(("a b", "t#1")).uri) == [1]
    assert read(plain.table_location(("ü x",)).uri) == [2]
    entry = plain.table_location(("ü x",))
    plain.deregister_table(("ü x",))
    plain.register_table(("y",), f"file://{tmp_path}/my%20root/%C3%BC%20x.lance")
    assert plain.table_location(("y",)).uri == entry.uri
