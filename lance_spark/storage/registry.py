"""From a URI to a store. Stores of optional clients are imported when a URI first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.paths import Root, parse_root

Options = Mapping[str, str]

_STORES = {
    "file": ("local", "LocalStore"),
    "memory": ("memory", "MemoryStore"),
    "s3": ("s3", "S3Store"),
    "s3a": ("s3", "S3Store"),
    "s3n": ("s3", "S3Store"),
    "gs": ("gcs", "GcsStore"),
    "gcs": ("gcs", "GcsStore"),
    "az": ("azure", "AzureStore"),
    "abfs": ("azure", "AzureStore"),
    "abfss": ("azure", "AzureStore"),
    "adl": ("azure", "AzureStore"),
}
"""Scheme -> (module of this package, class). Every other scheme is tried through fsspec."""

_OTHER = ("object_store", "FsspecStore")

_UNSUPPORTED = {
    "s3+ddb": "commits through a DynamoDB table; S3 itself has atomic commits now, so use s3:// for a table that "
    "no writer commits to through DynamoDB",
}


def open_store(uri: str, storage_options: Options | None = None) -> ObjectStore:
    """A store rooted at `uri`.

    Args:
        uri: a local path, ``file:///path``, ``memory://name`` (shared in this process, for tests), ``s3://``,
            ``gs://``, ``az://``, ``abfs://``, or any other scheme that fsspec knows.
        storage_options: credentials and endpoints, under the names of the Lance libraries (``aws_access_key_id``,
            ``aws_endpoint``, ``account_name``, ...; case does not matter) or those of the fsspec client.

    Raises:
        InvalidInputError: the URI or an option makes no sense.
        StorageError: the client package for the scheme is not installed; the message names it.
        UnsupportedFeatureError: a scheme of the Lance format that this release does not serve.
    """
    scheme = uri.partition("://")[0].lower()
    if scheme in _UNSUPPORTED:
        raise UnsupportedFeatureError(f"{scheme}:// means {_UNSUPPORTED[scheme]}", feature=f"{scheme}://")
    root = parse_root(uri)
    module, name = _STORES.get(root.scheme, _OTHER)
    store: Callable[[str, Root, Options], ObjectStore] = getattr(import_module(f"lance_spark.storage.{module}"), name)
    options = {} if storage_options is None else dict(storage_options)
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(f"storage option {key!r}: names and values are strings")
    return store(uri.rstrip("/") or "/", root, options)
