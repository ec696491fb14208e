"""Every operation of the protocol of catalogs, tried in one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import lance.namespace
from lance.namespace import RestAdapter

import lance_spark
from lance_spark.catalog import Catalog
from lance_spark.errors import InvalidInputError, NotEmptyError, UnsupportedFeatureError
from lance_spark.namespace.opening import CatalogPlace, renewed
from lance_spark.storage.manifest_table import MANAGED_VERSIONS
from lance_spark.storage.options import RENEWAL
from tests.support.tried_catalogs import CLASS, ROWS, Tried
from tests.support.vending_server import vending

NONE = "-"
"""A catalog in which there is nothing to try: it sends no credentials, or keeps no versions."""

_VIEW = json.dumps({"format": 1, "query": "SELECT 1 AS one", "columns": '{"type":"struct","fields":[]}'})
_KEEPS = {"manifest_enabled": "true", "table_version_tracking_enabled": "true"}
_CREDENTIALS = "expires_at_millis", "4102444800000"


class SendingNamespace(lance.namespace.DirectoryNamespace):
    """A class with the interface `LanceNamespace` that sends credentials which end."""

    numbers = iter(range(1_000_000))

    def describe_table(self, request: Any) -> Any:
        answer = super().describe_table(request)
        answer.storage_options = {"aws_access_key_id": f"KEY{next(self.numbers)}", _CREDENTIALS[0]: _CREDENTIALS[1]}
        return answer


def _lists_namespaces(tried: Tried) -> None:
    name = tried.database()
    assert name in tried.names.list_namespaces()
    assert tried.names.namespace_exists((name,))


def _has_properties(tried: Tried) -> None:
    assert tried.names.namespace_properties((tried.database(owner="ann"),))["owner"] == "ann"


def _alters(tried: Tried) -> None:
    name = tried.database(owner="ann")
    tried.names.set_namespace_properties((name,), {"owner": "bob"})
    assert tried.names.namespace_properties((name,))["owner"] == "bob"


def _nests(tried: Tried) -> None:
    name = tried.database()
    tried.names.create_namespace((name, "inner"))
    assert tried.names.list_namespaces((name,)) == ["inner"]
    tried.catalog.create_table((name, "inner", "t"), ROWS)


def _drops(tried: Tried) -> None:
    name = tried.database()
    tried.names.drop_namespace((name,))
    assert not tried.names.namespace_exists((name,))


def _cascades(tried: Tried) -> None:
    name = tried.database()
    tried.written(name)
    tried.names.drop_namespace((name,), cascade=True)
    assert not tried.names.namespace_exists((name,))


def _cascades_to_files(tried: Tried) -> str:
    name = tried.database()
    uri = tried.written(name)
    tried.names.drop_namespace((name,), cascade=True, purge=True)
    return "no" if _is_table(uri) else "yes"


def _creates(tried: Tried) -> None:
    name = tried.database()
    uri = tried.written(name)
    assert tried.names.list_tables((name,)) == ["t"]
    assert lance.dataset(uri).count_rows() == 3


def _places(tried: Tried) -> None:
    name, where = tried.database(), str(tried.folder / "chosen")
    entry = tried.names.declare_table((name, "t"), location=where)
    lance_spark.write(ROWS, entry.uri, storage_options=dict(entry.storage_options))
    assert lance.dataset(where).count_rows() == 3


def _commits(tried: Tried) -> None:
    name = tried.database()
    tried.written(name)
    first = tried.catalog.open_table((name, "t"))
    first.append(ROWS)
    assert tried.catalog.open_table((name, "t")).count_rows() == 6
    assert tried.catalog.open_table((name, "t"), version=first.version).count_rows() == 3


def _partitions(tried: Tried) -> None:
    name = tried.database()
    tried.catalog.create_table((name, "p"), ROWS, partition_by=["k"]).append(ROWS)
    assert tried.catalog.open_table((name, "p")).count_rows("k = 'x'") == 4
    assert tried.names.list_tables((name,)) == ["p"]


def _registers(tried: Tried) -> None:
    name = tried.database()
    root = tried.served or (Path(tried.place.root) if tried.place.root else tried.folder)
    lance.write_dataset(ROWS, root / "files.lance")
    tried.names.register_table((name, "r"), "files.lance" if tried.served else str(root / "files.lance"))
    assert tried.catalog.open_table((name, "r")).count_rows() == 3


def _renames(tried: Tried) -> None:
    name = tried.database()
    uri = tried.written(name)
    tried.names.rename_table((name, "t"), (name, "u"))
    assert tried.names.list_tables((name,)) == ["u"]
    assert tried.names.table_location((name, "u")).uri.rstrip("/") == uri.rstrip("/")


def _deregisters(tried: Tried) -> None:
    name = tried.database()
    uri = tried.written(name)
    tried.names.deregister_table((name, "t"))
    assert tried.names.list_tables((name,)) == []
    assert lance.dataset(uri).count_rows() == 3


def _purges(tried: Tried) -> None:
    name = tried.database()
    uri = tried.written(name)
    tried.names.drop_table((name, "t"), purge=True)
    assert tried.names.list_tables((name,)) == []
    assert not _is_table(uri)


def _is_table(uri: str) -> bool:
    try:
        lance.dataset(uri)
    except (ValueError, OSError):
        return False
    return True


def _views(tried: Tried) -> None:
    name = tried.database()
    tried.names.create_view((name, "v"), _VIEW)
    tried.names.replace_view((name, "v"), _VIEW.replace("one", "two"))
    tried.names.rename_view((name, "v"), (name, "w"))
    assert json.loads(tried.names.view((name, "w"))) == json.loads(_VIEW.replace("one", "two"))
    assert (tried.names.list_views((name,)), tried.names.list_tables((name,))) == (["w"], [])
    tried.names.drop_view((name, "w"))


def _renews(tried: Tried) -> str | None:
    """Credentials that end are fetched again by what stands in the storage options."""
    if tried.kind == "rest":
        with vending(tried.bucket, life_seconds=60.0) as vendor:
            place = CatalogPlace("rest", settings={"uri": vendor.uri})
            _require_renewal(place, ("t",))
        return None
    if tried.kind == CLASS:
        _require_renewal(CatalogPlace(f"{__name__}.SendingNamespace", settings=tried.place.settings), _table(tried))
        return None
    server = None if tried.outer is None else tried.outer.server
    if tried.kind not in ("iceberg", "polaris", "unity"):
        return NONE
    identifier = _table(tried)
    location = "s3://bucket/t"
    if tried.kind == "unity":
        server.tables[f"unity.{'.'.join(identifier)}"]["storage_location"] = location
    elif tried.kind == "polaris":
        server.generic[identifier[:1], "t"]["base-location"] = location
    else:
        server.tables[identifier[:1], "t"].location = location

    def give(key: str) -> None:
        keys = {"access_key_id": key, "secret_access_key": "s"}
        server.vended = {"READ_WRITE": {"aws_temp_credentials": keys, "expiration_time": int(_CREDENTIALS[1])}}
        config = {"s3.access-key-id": key, "s3.secret-access-key": "s"}
        config["s3.session-token-expires-at-ms"] = _CREDENTIALS[1]
        server.storage_credentials = [{"prefix": "s3://", "config": config}]

    give("first")
    _require_renewal(tried.place, identifier, lambda: give("second"))
    return None


def _table(tried: Tried) -> tuple[str, ...]:
    name = tried.database()
    tried.written(name)
    return (name, "t")


def _require_renewal(
    place: CatalogPlace, identifier: tuple[str, ...], passing: Callable[[], None] | None = None
) -> None:
    options = place.open().table_location(identifier).storage_options
    if passing is not None:
        passing()
    assert renewed(options[RENEWAL])["aws_access_key_id"] != options["aws_access_key_id"]


def _manages(tried: Tried) -> str | None:
    """The server keeps the versions of its tables."""
    if tried.kind not in ("rest", CLASS):
        return NONE
    properties = {"root": str(tried.folder / "managed"), **_KEEPS}
    with RestAdapter("dir", properties, host="127.0.0.1", port=0) as adapter:
        served = CatalogPlace("rest", settings={"uri": f"http://127.0.0.1:{adapter.port}"})
        served.open().create_namespace(("db",))
        Catalog(served).create_table(("db", "t"), ROWS).append(ROWS)
        if tried.kind == "rest":
            assert MANAGED_VERSIONS in served.open().table_location(("db", "t")).storage_options
            tables = lance.namespace.RestNamespace(uri=f"http://127.0.0.1:{adapter.port}")
            assert lance.dataset(namespace_client=tables, table_id=["db", "t"]).count_rows() == 6
        else:
            place = CatalogPlace("lance.namespace.DirectoryNamespace", settings=properties)
            assert Catalog(place).open_table(("db", "t")).count_rows() == 6
    return None


OPERATIONS: Mapping[str, Callable[[Tried], str | None]] = {
    "`SHOW NAMESPACES`, `CREATE NAMESPACE`": _lists_namespaces,
    "properties of a new namespace": _has_properties,
    "`ALTER NAMESPACE`": _alters,
    "namespaces in namespaces": _nests,
    "`DROP NAMESPACE`": _drops,
    "`DROP NAMESPACE ... CASCADE`": _cascades,
    "CASCADE deletes files of tables": _cascades_to_files,
    "`CREATE TABLE`, `SHOW TABLES`": _creates,
    "`CREATE TABLE ... LOCATION`": _places,
    "commits, time travel": _commits,
    "partitioned tables": _partitions,
    "`system.register_table`": _registers,
    "`ALTER TABLE ... RENAME TO`": _renames,
    "`system.deregister_table`": _deregisters,
    "`DROP TABLE ... PURGE`": _purges,
    "[views](../reference/sql.md#views)": _views,
    "credentials that are renewed": _renews,
    "versions that the server keeps": _manages,
}
"""Trials by the name of their row."""


def outcome(tried: Tried, operation: Callable[[Tried], str | None]) -> str:
    """The cell of a table: `yes`; `NONE`; or `no`, with the feature that the error names."""
    try:
        return operation(tried) or "yes"
    except UnsupportedFeatureError as error:
        return f"no: {error.feature.partition(' of ')[0]}"
    except (InvalidInputError, NotEmptyError):
        return "no"
