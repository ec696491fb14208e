"""URIs of base paths, and the storage options that are sent there.

A manifest is not trusted to choose where requests and credentials go: a base path is followed into the store of the
table and into stores of a known scheme, and storage options go only to the service that they were given for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.paths import parse_root
from lance_spark.storage.registry import KNOWN_SCHEMES, are_of_one_service
from lance_spark.table.rows.fragment import BaseId

_SCOPED = re.compile(r"base_([0-9]{1,10})\.(.+)")

# The URI of a base path has no query: reading files does not need the commit service.
_COMMON_SCHEMES = {"s3a": "s3", "s3n": "s3", "s3+ddb": "s3", "gcs": "gs"}


def options_of(storage_options: Mapping[str, str] | None, base_id: BaseId | None = None) -> dict[str, str] | None:
    """The storage options of a base path, or of the table's own root: ``base_<id>.<key>`` is `key` for that one only.

    >>> options_of({"key": "all", "base_1.key": "one"}, BaseId(1)), options_of({"key": "all", "base_1.key": "one"})
    ({'key': 'one'}, {'key': 'all'})
    """
    if not storage_options:
        return None
    common, own = _split(storage_options, base_id)
    return common | own


def options_at(
    uri: str, root_uri: str, storage_options: Mapping[str, str] | None, base_id: BaseId | None = None
) -> dict[str, str] | None:
    """The storage options of a table for another place: in another service only those of the base path itself.

    >>> options_at("s3://b/t", "s3://a/t", {"token": "t"}), options_at("gs://b/t", "s3://a/t", {"token": "t"})
    ({'token': 't'}, {})
    """
    options = options_of(storage_options, base_id)
    if not storage_options or options is None or are_of_one_service(uri, root_uri, options):
        return options
    return _split(storage_options, base_id)[1]


def open_place(
    uri: str, root_uri: str, storage_options: Mapping[str, str] | None, base_id: BaseId | None = None
) -> ObjectStore:
    """The store of a place that a table at `root_uri` names."""
    return open_store(uri, options_at(uri, root_uri, storage_options, base_id))


def _split(storage_options: Mapping[str, str], base_id: BaseId | None) -> tuple[dict[str, str], dict[str, str]]:
    """(options of the table, options of the base path alone)."""
    scoped = {key: match for key in storage_options if isinstance(key, str) and (match := _SCOPED.fullmatch(key))}
    common = {key: value for key, value in storage_options.items() if key not in scoped}
    return common, {match[2]: storage_options[key] for key, match in scoped.items() if int(match[1]) == base_id}


def base_path_of(root_uri: str) -> str:
    """The path of a table's root for manifests of other tables: absolute, with a scheme that every reader knows.

    >>> base_path_of("s3a://bucket/my%20table"), base_path_of("/tables/a/"), base_path_of("file:///tables/my%20t")
    ('s3://bucket/my%20table', '/tables/a', '/tables/my t')
    """
    root = parse_root(root_uri)
    if root.scheme == "file":
        return root.location
    scheme = _COMMON_SCHEMES.get(root.scheme, root.scheme)
    return f"{scheme}://{root_uri.partition('://')[2].partition('?')[0].rstrip('/')}"


def resolved(path: str, root_uri: str) -> str:
    """The URI of a base path. A path without a scheme is in the same store as the table's root.

    >>> resolved("/tables/a", "s3://bucket/tables/b")
    's3://bucket/tables/a'
    >>> resolved("/tables/a", "/tables/b"), resolved("gs://x/y", "s3://bucket/b")
    ('/tables/a', 'gs://x/y')
    """
    if "://" in path or "://" not in root_uri:
        return path
    root = urlsplit(root_uri)
    return f"{root.scheme}://{root.netloc}/{path.lstrip('/')}"


def followed(path: str, base_id: BaseId, root_uri: str) -> str:
    """The URI of a base path whose files may be read: of a known scheme, or in the store of the table's root.

    >>> followed("hdfs://node/a", BaseId(1), "hdfs://node/t")
    'hdfs://node/a'

    Raises:
        UnsupportedFeatureError: it is elsewhere.
    """
    uri = resolved(path, root_uri)
    scheme = parse_root(uri.partition("?")[0]).scheme
    if scheme in KNOWN_SCHEMES or are_of_one_service(uri, root_uri, {}):
        return uri
    raise UnsupportedFeatureError(
        f"base path {base_id} of {root_uri} is {path!r}: files of a table are read from the table's own store and by "
        f"the schemes {', '.join(sorted(KNOWN_SCHEMES))}. If you trust that place, copy its files "
        "into such a store, or open the table there directly",
        feature=f"base path in {scheme}://",
    )
