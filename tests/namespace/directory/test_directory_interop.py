"""The same namespace for us and for the reference library: what one makes, the other lists, opens, drops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace

import lance_spark
from lance_spark.errors import AlreadyExistsError, NotEmptyError, NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from tests.support.moto import S3Bucket

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})


class Reference:
    """The reference library's namespace, with plain arguments."""

    def __init__(self, root: str, **properties: str) -> None:
        self._namespace = ReferenceNamespace(root=root, **properties)

    def create_namespace(self, *path: str, **properties: str) -> None:
        self._namespace.create_namespace(spec.CreateNamespaceRequest(id=list(path), properties=properties or None))

    def drop_namespace(self, *path: str) -> None:
        self._namespace.drop_namespace(spec.DropNamespaceRequest(id=list(path)))

    def create_table(self, *identifier: str) -> str:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ROWS.schema) as writer:
            writer.write_table(ROWS)
        body = sink.getvalue().to_pybytes()
        location = self._namespace.create_table(spec.CreateTableRequest(id=list(identifier)), body).location
        return str(location)

    def declare_table(self, *identifier: str, **properties: str) -> None:
        self._namespace.declare_table(spec.DeclareTableRequest(id=list(identifier), properties=properties or None))

    def register_table(self, *identifier: str, location: str) -> None:
        self._namespace.register_table(spec.RegisterTableRequest(id=list(identifier), location=location))

    def deregister_table(self, *identifier: str) -> None:
        self._namespace.deregister_table(spec.DeregisterTableRequest(id=list(identifier)))

    def drop_table(self, *identifier: str) -> None:
        self._namespace.drop_table(spec.DropTableRequest(id=list(identifier)))

    def describe_table(self, *identifier: str) -> Any:
        return self._namespace.describe_table(spec.DescribeTableRequest(id=list(identifier), check_declared=True))

    def namespace_properties(self, *path: str) -> dict[str, str]:
        return dict(self._namespace.describe_namespace(spec.DescribeNamespaceRequest(id=list(path))).properties or {})

    def tables(self, *path: str) -> list[str]:
        return sorted(self._namespace.list_tables(spec.ListTablesRequest(id=list(path))).tables)

    def namespaces(self, *path: str) -> list[str]:
        return sorted(self._namespace.list_namespaces(spec.ListNamespacesRequest(id=list(path))).namespaces)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def catalog_rows(root: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lance.dataset(f"{root}/__manifest").to_table().to_pylist()
    return rows


def test_what_pylance_makes_is_ours(root: str) -> None:
    theirs, ours = Reference(root), DirectoryNamespace(root)
    theirs.create_namespace("n", owner="me", odd='"ü\n')
    theirs.create_namespace("n", "m")
    theirs.create_table("t")
    theirs.create_table("n", "t")
    theirs.create_table("n", "with space/and ü")
    theirs.declare_table("n", "later", k="v")
    assert ours.list_namespaces() == ["n"]
    assert ours.list_namespaces(("n",)) == ["m"]
    assert ours.namespace_properties(("n",)) == {"owner": "me", "odd": '"ü\n'}
    assert ours.list_tables() == ["t"]
    assert ours.list_tables(("n",)) == ["later", "t", "with space/and ü"]
    for identifier in (("t",), ("n", "t"), ("n", "with space/and ü")):
        entry = ours.table_location(identifier)
        assert not entry.is_declared
        assert lance_spark.open(entry.uri).to_table() == ROWS
    declared = ours.table_location(("n", "later"))
    assert declared.is_declared
    assert declared.properties == {"k": "v"}
    lance_spark.write(ROWS, declared.uri)
    assert theirs.describe_table("n", "later").is_only_declared is False


def test_what_we_make_is_the_references(root: str) -> None:
    theirs, ours = Reference(root), DirectoryNamespace(root)
    ours.create_namespace(("n",), {"owner": "me", "odd": '"ü\n'})
    ours.create_namespace(("n", "m"))
    for identifier in (("t",), ("n", "t"), ("n", "with space/and ü"), ("n", "m", "t")):
        lance_spark.write(ROWS, ours.declare_table(identifier, properties={"k": "v"}).uri)
    ours.declare_table(("n", "later"))
    assert theirs.namespaces() == ["n"]
    assert theirs.namespaces("n") == ["m"]
    assert theirs.namespace_properties("n") == {"owner": "me", "odd": '"ü\n'}
    assert theirs.tables() == ["t"]
    assert theirs.tables("n") == ["later", "t", "with space/and ü"]
    for identifier in (("t",), ("n", "t"), ("n", "with space/and ü"), ("n", "m", "t")):
        found = theirs.describe_table(*identifier)
        assert found.is_only_declared is False
        assert lance.dataset(found.location).to_table() == ROWS
    # Without listings of directories the rows alone count.
    rows_only = Reference(root, dir_listing_enabled="false")
    assert rows_only.tables() == ["t"]
    assert rows_only.describe_table("t").properties == {"k": "v"}
    assert theirs.describe_table("n", "later").is_only_declared is True
    assert (Path(root) / "t.lance" / ".lance-reserved").read_bytes().startswith(b"reserved")


def test_the_table_of_the_catalog_is_the_references(tmp_path: Path) -> None:
    schemas = []
    for name in ("theirs", "ours"):
        root = str(tmp_path / name)
        if name == "ours":
            DirectoryNamespace(root).create_namespace(("n",), {"a": "b"})
            DirectoryNamespace(root).declare_table(("n", "t"))
        else:
            Reference(root).create_namespace("n", a="b")
            Reference(root).declare_table("n", "t")
        found = lance.dataset(f"{root}/__manifest")
        schemas.append(found.schema)
        rows = found.to_table().to_pylist()
        assert rows[1].pop("location").endswith("_n$t")
        assert rows == [
            {
                "object_id": "n",
                "object_type": "namespace",
                "location": None,
                "metadata": '{"a":"b"}',
                "base_objects": None,
            },
            {"object_id": "n$t", "object_type": "table", "metadata": None, "base_objects": None},
        ]
        assert found.lance_schema.field("object_id").is_unenforced_primary_key()
    assert schemas[0].equals(schemas[1], check_metadata=True)


def test_both_change_one_catalog(root: str) -> None:
    theirs, ours = Reference(root), DirectoryNamespace(root)
    theirs.create_namespace("n")
    ours.create_namespace(("n", "ours"), {"k": "v"})
    theirs.create_namespace("n", "theirs")
    with pytest.raises(AlreadyExistsError):
        ours.create_namespace(("n", "theirs"))
    with pytest.raises(spec.errors.NamespaceAlreadyExistsError):
        theirs.create_namespace("n", "ours")
    with pytest.raises(NotEmptyError):
        ours.drop_namespace(("n",))
    ours.set_namespace_properties(("n",), {"set": "by us"})
    theirs.drop_namespace("n", "ours")
    ours.drop_namespace(("n", "theirs"))
    assert theirs.namespaces("n") == ours.list_namespaces(("n",)) == []
    assert theirs.namespace_properties("n") == {"set": "by us"}


def test_each_drops_what_the_other_made(root: str) -> None:
    theirs, ours = Reference(root), DirectoryNamespace(root)
    ours.create_namespace(("n",))
    for identifier in (("t",), ("n", "t")):
        theirs.create_table(*identifier)
        ours.drop_table(identifier, purge=True)
        assert theirs.tables(*identifier[:-1]) == []
        uri = ours.declare_table(identifier).uri
        lance_spark.write(ROWS, uri)
        theirs.drop_table(*identifier)
        assert ours.list_tables(identifier[:-1]) == []
        assert not Path(uri).exists()
    assert sorted(path.name for path in Path(root).iterdir()) == ["__manifest"]
    assert [row["object_id"] for row in catalog_rows(root)] == ["n"]


def test_taking_tables_out_and_in(root: str) -> None:
    theirs, ours = Reference(root), DirectoryNamespace(root)
    ours.create_namespace(("n",))
    theirs.create_table("t")
    ours.deregister_table(("t",))
    assert theirs.tables() == []
    ours.register_table(("t",), "t.lance")
    assert theirs.tables() == ["t"]
    assert lance.dataset(theirs.describe_table("t").location).to_table() == ROWS
    ours.rename_table(("t",), ("n", "renamed"))
    assert theirs.tables() == []
    assert theirs.tables("n") == ["renamed"]
    assert lance.dataset(theirs.describe_table("n", "renamed").location).to_table() == ROWS
    theirs.deregister_table("n", "renamed")
    assert ours.list_tables(("n",)) == []
    theirs.register_table("n", "again", location="t.lance")
    assert lance_spark.open(ours.table_location(("n", "again")).uri).to_table() == ROWS


def test_a_root_of_directories_only(root: str) -> None:
    for name in ("a", "b", "gone"):
        lance.write_dataset(ROWS, f"{root}/{name}.lance")
    (Path(root) / "gone.lance" / ".lance-deregistered").touch()
    (Path(root) / "reserved.lance").mkdir()
    (Path(root) / "reserved.lance" / ".lance-reserved").write_bytes(b"reserved")
    ours, theirs = DirectoryNamespace(root), Reference(root, manifest_enabled="false")
    assert ours.list_tables() == theirs.tables() == ["a", "b", "reserved"]
    assert ours.table_location(("reserved",)).is_declared
    # Our first row makes a catalog beside the directories.
    lance_spark.write(ROWS, ours.declare_table(("new",)).uri)
    assert ours.list_tables() == theirs.tables() == Reference(root).tables() == ["a", "b", "new", "reserved"]
    assert ours.register_listed_tables() == ["a", "b", "reserved"]
    assert Reference(root, dir_listing_enabled="false").tables() == ["a", "b", "new", "reserved"]
    with pytest.raises(NotFoundError):
        ours.table_location(("gone",))


def test_properties_of_the_root_stay_through_changes_of_both(root: str) -> None:
    theirs, ours = Reference(root), DirectoryNamespace(root)
    ours.set_namespace_properties((), {"schema": "{}", "gone": "x"})
    theirs.create_namespace("n")
    ours.set_namespace_properties((), {"gone": None})
    ours.create_namespace(("m",))
    assert ours.namespace_properties(()) == {"schema": "{}"}
    manifest = lance.dataset(f"{root}/__manifest")
    assert manifest.metadata["schema"] == "{}"
    manifest.update_metadata({"from": "outside"})
    assert ours.namespace_properties(()) == {"schema": "{}", "from": "outside"}


def test_columns_and_rows_of_others_stay(root: str) -> None:
    ours = DirectoryNamespace(root)
    ours.create_namespace(("n",))
    ours.create_namespace(("n", "x"))
    manifest = lance.dataset(f"{root}/__manifest")
    added = [pa.field("partition_field_year", pa.int32()), pa.field("read_version", pa.uint64())]
    manifest.add_columns(added)
    schema = lance.dataset(f"{root}/__manifest").schema
    others = [
        {"object_id": "n$view", "object_type": "view", "metadata": "not json", "base_objects": ["n$a", "n$b"]},
        {"object_id": "n$x$p", "object_type": "namespace", "partition_field_year": 2024, "read_version": 2**63},
    ]
    lance.write_dataset(pa.Table.from_pylist(others, schema=schema), f"{root}/__manifest", mode="append")
    before = {row["object_id"]: row for row in catalog_rows(root)}
    ours.declare_table(("n", "t"))
    ours.set_namespace_properties(("n", "x"), {"k": "v"})
    ours.rename_table(("n", "t"), ("n", "u"))
    ours.drop_table(("n", "u"), purge=True)
    after = {row["object_id"]: row for row in catalog_rows(root)}
    before["n$x"]["metadata"] = '{"k":"v"}'
    assert after == before
    assert lance.dataset(f"{root}/__manifest").schema.equals(schema, check_metadata=True)
    ids = [field.id() for field in lance.dataset(f"{root}/__manifest").lance_schema.fields()]
    assert ids == [field.id() for field in manifest.lance_schema.fields()]
    assert ours.list_tables(("n",)) == []
    assert ours.list_namespaces(("n",)) == ["x"]
    assert not ours.table_exists(("n", "view"))
    with pytest.raises(AlreadyExistsError):
        ours.declare_table(("n", "view"))
    with pytest.raises(UnsupportedFeatureError, match="view"):
        ours.drop_namespace(("n",), cascade=True)
    ours.drop_namespace(("n", "x"), cascade=True)


def test_a_column_of_others_that_must_not_be_null_stops_new_rows(root: str) -> None:
    ours = DirectoryNamespace(root)
    ours.create_namespace(("n",), {"k": "v"})
    lance.dataset(f"{root}/__manifest").add_columns({"level": "1"})
    with pytest.raises(UnsupportedFeatureError, match="level"):
        ours.create_namespace(("m",))
    with pytest.raises(UnsupportedFeatureError, match="level"):
        ours.declare_table(("t",))
    assert ours.list_tables() == []
    ours.set_namespace_properties(("n",), {"k": None})
    assert catalog_rows(root) == [
        {
            "object_id": "n",
            "object_type": "namespace",
            "location": None,
            "metadata": None,
            "base_objects": None,
            "level": 1,
        }
    ]


def test_rows_that_others_delete_or_append_are_seen(root: str) -> None:
    ours = DirectoryNamespace(root)
    for name in ("a", "b", "c"):
        ours.create_namespace((name,))
    manifest = lance.dataset(f"{root}/__manifest")
    manifest.delete("object_id = 'b'")
    new = pa.Table.from_pylist([{"object_id": "d", "object_type": "namespace"}], schema=manifest.schema)
    manifest.merge_insert("object_id").when_not_matched_insert_all().execute(new)
    manifest.create_scalar_index("object_id", "BTREE")
    assert ours.list_namespaces() == ["a", "c", "d"]
    ours.create_namespace(("b",))
    ours.create_namespace(("e",))
    assert ours.list_namespaces() == Reference(root).namespaces() == ["a", "b", "c", "d", "e"]


@pytest.mark.slow
def test_a_namespace_in_s3(s3_bucket: S3Bucket) -> None:
    root, options = s3_bucket.folder(), s3_bucket.storage_options
    ours = DirectoryNamespace(root, options)
    theirs = Reference(root, **{f"storage.{key}": value for key, value in options.items()})
    ours.create_namespace(("n",), {"k": "v"})
    theirs.create_namespace("n", "m")
    for identifier in (("t",), ("n", "t ü%"), ("n", "m", "t")):
        entry = ours.declare_table(identifier)
        lance_spark.write(ROWS, entry.uri, storage_options=options)
        found = theirs.describe_table(*identifier)
        assert lance.dataset(found.location, storage_options=options).to_table() == ROWS
    assert theirs.tables("n") == ours.list_tables(("n",)) == ["t ü%"]
    assert theirs.tables() == ours.list_tables() == ["t"]
    theirs.create_table("u")
    assert lance_spark.open(ours.table_location(("u",)).uri, storage_options=options).to_table() == ROWS
    ours.drop_table(("u",), purge=True)
    ours.deregister_table(("t",))
    assert theirs.tables() == ours.list_tables() == []
    ours.drop_namespace(("n",), cascade=True, purge=True)
    assert theirs.namespaces() == []
    keys = [entry["Key"] for entry in s3_bucket.client().list_objects_v2(Bucket=s3_bucket.name)["Contents"]]
    prefix = root.removeprefix(f"s3://{s3_bucket.name}/")
    assert {key.removeprefix(f"{prefix}/").partition("/")[0] for key in keys if key.startswith(f"{prefix}/")} == {
        "__manifest",
        ".lance-dropped",
        "t.lance",
    }
