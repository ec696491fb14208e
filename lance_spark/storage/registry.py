"""Opens stores by URI. Stores with optional clients are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from lance_spark.errors import InvalidInputError
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.manifest_table import MANAGED_VERSIONS
from lance_spark.storage.options import RENEWAL
from lance_spark.storage.paths import S3_SCHEMES, WITH_DYNAMODB, Root, UriOrPath, parse_root, split_query, uri_text

if TYPE_CHECKING:
    from lance_spark.storage.manifest_table import ManifestTable

Options = Mapping[str, str]

_STORES = {
    "file": ("local.store", "LocalStore"),
    "memory": ("memory", "MemoryStore"),
    "s3": ("s3.store", "S3Store"),
    "s3a": ("s3.store", "S3Store"),
    "s3n": ("s3.store", "S3Store"),
    "gs": ("gcs", "GcsStore"),
    "gcs": ("gcs", "GcsStore"),
    "az": ("azure", "AzureStore"),
    "abfs": ("azure", "AzureStore"),
    "abfss": ("azure", "AzureStore"),
    "adl": ("azure", "AzureStore"),
}
"""Scheme -> (module of this package, class). All other schemes use fsspec."""

KNOWN_SCHEMES = frozenset(_STORES) | {WITH_DYNAMODB}
"""The schemes of stores with a class here."""

_RENEWING = frozenset({*S3_SCHEMES, "gs", "gcs"})
"""Schemes of stores that renew credentials of a catalog."""

_WITHOUT_OPTIONS = ("file", "memory")
"""Stores without options. Options of other stores are accepted, for tables elsewhere; unknown ones are not."""

_OTHER = ("object_store", "FsspecStore")

_TABLE_OPTION = "ddb_table_name"
_TABLE_QUERY = "ddbTableName"


def open_store(uri: UriOrPath, storage_options: Options | None = None) -> ObjectStore:
    """A store rooted at `uri`.

    Args:
        uri: a local path (as text or as a `pathlib.Path`), ``file:///path``, ``memory://name`` (shared in this
            process, for tests), ``s3://``, ``gs://``, ``az://``, ``abfs://``, or any other scheme that fsspec knows.
            ``s3+ddb://`` gives the store in S3; see `open_manifest_table` for the other half.
        storage_options: credentials and endpoints, under the names of the Lance libraries (``aws_access_key_id``,
            ``aws_endpoint``, ``account_name``, ...; case does not matter) or those of the fsspec client.

    Raises:
        InvalidInputError: the URI or an option is invalid.
        StorageError: the client package for the scheme is not installed; the message names it.
    """
    uri = uri_text(uri)
    if _scheme(uri) == WITH_DYNAMODB:
        _table_of(uri, {})
        uri = "s3" + split_query(uri)[0][len(WITH_DYNAMODB) :]
    root = parse_root(uri)
    if root.scheme in _WITHOUT_OPTIONS and storage_options:
        from lance_spark.storage.options import check_known

        check_known(f"{root.scheme}://", _checked(storage_options), _known_names())
    options = _checked(storage_options)
    if root.scheme in _RENEWING and storage_options and RENEWAL in storage_options:
        options = {**options, RENEWAL: storage_options[RENEWAL]}
    return _store_type(root.scheme)(uri.rstrip("/") or "/", root, options)


def _store_type(scheme: str) -> Callable[[str, Root, Options], ObjectStore]:
    module, name = _STORES.get(scheme, _OTHER)
    store_type: Callable[[str, Root, Options], ObjectStore] = getattr(
        import_module(f"lance_spark.storage.{module}"), name
    )
    return store_type


def open_manifest_table(uri: str, storage_options: Options | None = None) -> ManifestTable | None:
    """The external manifest table of `uri`; None if the object store needs none.

    Args:
        uri: ``s3+ddb://bucket/path?ddbTableName=name``, or any other URI.
        storage_options: as for `open_store`; ``ddb_table_name`` does the same for an ``s3://`` URI, and
            ``dynamodb_endpoint`` overrides the default endpoint.

    Raises:
        InvalidInputError: the URI or an option is invalid.
        StorageError: botocore is not installed.
    """
    if not storage_options and _scheme(uri) != WITH_DYNAMODB:
        return None
    options = _checked(storage_options)
    name = _table_of(uri, options)
    if name is None:
        if _scheme(uri) == WITH_DYNAMODB:
            raise InvalidInputError(f"{uri!r} names no DynamoDB table; add ?{_TABLE_QUERY}=name")
        return None
    place = split_query(uri)[0] if _scheme(uri) == WITH_DYNAMODB else uri
    root = parse_root(place)
    if root.scheme not in S3_SCHEMES:
        raise InvalidInputError(f"{uri!r} is not in S3; the storage option {_TABLE_OPTION!r} is for tables in S3")
    open_table: Callable[[str, str, Options], ManifestTable]
    open_table = import_module("lance_spark.storage.s3.dynamodb").DynamoManifestTable
    return open_table(name, root.location, options)


def are_of_one_service(uri: str, root_uri: str, options: Options) -> bool:
    """Whether requests for `uri` go to the service that `options` were given for, with a table at `root_uri`.

    S3 and Google have their endpoint in the options or by default, so all of their buckets are of one service. Azure
    has the account in a URI or in the options, other schemes have the host. Options of a table on a local disk, which
    needs none itself, are for any store with a class here.

    >>> are_of_one_service("s3://a/x", "s3a://b/t", {}), are_of_one_service("gs://a/x", "s3://a/t", {})
    (True, False)
    """
    (scheme, service, account), (root_scheme, root_service, root_account) = _service(uri), _service(root_uri)
    if service != root_service and (root_scheme not in _WITHOUT_OPTIONS or scheme not in _STORES):
        return False
    # An account in the options that contradicts the one in the URI is refused by the store.
    return account in ("", root_account) or any(name.lower().endswith("account_name") for name in options)


def _service(uri: str) -> tuple[str, str, str]:
    """(scheme, service, host of the account if the URI has one); a service without a class here is one host."""
    root = parse_root(split_query(uri)[0])
    host = root.location.partition("/")[0]
    if root.scheme not in _STORES:
        return root.scheme, f"{root.scheme}://{host}", ""
    service, _ = _STORES[root.scheme]
    return root.scheme, service, host.partition("@")[2] if service == "azure" else ""


def _known_names() -> frozenset[str]:
    modules = (import_module(f"lance_spark.storage.{name}") for name in ("s3.options", "gcs", "azure"))
    return frozenset().union(*(module.KNOWN for module in modules))


def _table_of(uri: str, options: Options) -> str | None:
    """Name of the DynamoDB manifest table of `uri`."""
    from urllib.parse import parse_qs

    chosen = next((text for name, text in options.items() if name.lower() == _TABLE_OPTION), None)
    if _scheme(uri) != WITH_DYNAMODB:
        return chosen
    query = parse_qs(split_query(uri)[1], keep_blank_values=True)
    if "#" in uri or set(query) - {_TABLE_QUERY} or any(len(values) != 1 or not values[0] for values in query.values()):
        raise InvalidInputError(f"{uri!r}: {WITH_DYNAMODB}:// is {WITH_DYNAMODB}://bucket/path?{_TABLE_QUERY}=name")
    named = query[_TABLE_QUERY][0] if query else chosen
    if chosen is not None and named != chosen:
        raise InvalidInputError(f"{uri!r} and the storage option {_TABLE_OPTION!r} name different tables")
    return named


def _scheme(uri: str) -> str:
    return uri.partition("://")[0].lower()


def _checked(options: Options | None) -> Options:
    checked = {} if options is None else dict(options)
    for name in (MANAGED_VERSIONS, RENEWAL):
        checked.pop(name, None)
    for key, value in checked.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(f"storage option {key!r}: names and values are strings")
    return checked
