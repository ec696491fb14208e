"""Paths of objects below a store's root, and the URIs of roots.

A path is one or more parts joined by ``/``. Nothing is decoded in it: a percent sign, a space, ``#`` or ``?``
is an ordinary character, because names such as ``_refs/branches/feature%2Fx.json`` are stored that way.

>>> object_path("_refs/branches/feature%2Fx.json")
'_refs/branches/feature%2Fx.json'
>>> folder_path("data/")
'data'

URIs of roots follow the reference implementation: percent escapes are decoded in URIs and taken literally in
plain local paths.

>>> parse_root("s3://bucket/my%20table/")
Root(scheme='s3', location='bucket/my table')
>>> parse_root("file:///tmp/my%20table")
Root(scheme='file', location='/tmp/my table')
>>> parse_root("/tmp/my%20table")
Root(scheme='file', location='/tmp/my%20table')
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from lance_spark.errors import InvalidInputError

STAGING_PREFIX = ".tmp_lance_spark_"
"""Name prefix of our unpublished objects; no store lists them."""

WITH_DYNAMODB = "s3+ddb"
"""The scheme of tables in S3 with a DynamoDB manifest table; only these URIs have a query."""

S3_SCHEMES = ("s3", "s3a", "s3n", WITH_DYNAMODB)
"""The schemes of one and the same object in S3."""

_LITERAL_IN_URIS = "/$&+,:;=@!~*'()"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")

UriOrPath = str | os.PathLike[str]
"""A table or folder: a URI, or a local path as text or as a `pathlib.Path`."""


@dataclass(frozen=True, slots=True)
class Root:
    """A parsed root: `location` is an absolute local path, or ``bucket/key`` without leading or trailing slashes."""

    scheme: str
    location: str


def object_path(path: str) -> str:
    """Validates that `path` names an object below the root; returns it.

    Raises:
        InvalidInputError: the path is empty or absolute, has an empty, ``.`` or ``..`` part, a backslash, a NUL
            or a character that UTF-8 cannot encode.
    """
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise InvalidInputError(f"object path {path!r} has a part {part!r}; paths are relative to the store's root")
    if "\\" in path or "\0" in path:
        raise InvalidInputError(f"object path {path!r} has a backslash or a NUL")
    _require_utf8(path)
    return path


def folder_path(prefix: str) -> str:
    """Validates that `prefix` names a folder below the root; returns it without a trailing slash. Empty: the root."""
    prefix = prefix.removesuffix("/")
    return object_path(prefix) if prefix else ""


def is_listed(path: str) -> bool:
    """Whether a listing includes the entry at `path`.

    It leaves out our unpublished objects, and entries that no object path can name: they are unusable, and not ours.
    """
    if path.rpartition("/")[2].startswith(STAGING_PREFIX):
        return False
    try:
        object_path(path)
    except InvalidInputError:
        return False
    return True


def parse_root(uri: str) -> Root:
    """The scheme and location of a root; local paths become absolute now, so the working directory may change later.

    Raises:
        InvalidInputError: not a URI of a known shape, or one with a query or a fragment.
    """
    if not uri or "\0" in uri:
        raise InvalidInputError(f"{uri!r} is not the URI or path of a table")
    _require_utf8(uri)
    match = _SCHEME.match(uri)
    if match is not None and match[1].lower() == "file":
        return Root("file", _local(_decode(uri, _file_path(uri, uri[len("file:") :]))))
    if match is None or match[2] is None:
        if "://" in uri and not os.path.exists(uri):
            raise InvalidInputError(f"{uri!r} is neither a URI (scheme://place) nor an existing local path")
        return Root("file", _local(os.path.expanduser(uri)))
    location = uri[match.end() :].rstrip("/")
    scheme = match[1].lower()
    if scheme != "memory":
        if "#" in location or "?" in location:
            raise InvalidInputError(f"{uri!r} has a query or a fragment; write # as %23 and ? as %3F in a URI")
        location = _decode(uri, location)
    for part in location.split("/"):
        if part in ("", ".", ".."):
            raise InvalidInputError(f"{uri!r} has an empty, '.' or '..' part")
    return Root(scheme, location)


def uri_text(uri: UriOrPath) -> str:
    """`uri` as text; a `pathlib.Path` is a local path.

    >>> from pathlib import PurePosixPath
    >>> uri_text(PurePosixPath("/tmp/table")), uri_text("s3://bucket/table")
    ('/tmp/table', 's3://bucket/table')

    Raises:
        InvalidInputError: neither text nor a path of text, or a `pathlib.Path` created from a URI.
    """
    if isinstance(uri, str):
        return uri
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidInputError(f"{uri!r} is not the URI or path of a table: give a str or a pathlib.Path")
    match = _SCHEME.match(text)
    if match is not None and text[match.end() :].startswith("/"):
        # Path("s3://bucket/t") is "s3:/bucket/t": a folder "s3:" of the working directory.
        raise InvalidInputError(f"{uri!r} was made of a URI, which a pathlib.Path cannot hold; give the URI as a str")
    return text


def absolute_uri(uri: str) -> str:
    """The URI or path without trailing slashes, independent of the working directory."""
    is_uri = "://" in uri or uri.lower().startswith("file:")
    return uri.rstrip("/") if is_uri else parse_root(uri).location


def place_of(uri: str) -> str:
    """Text that is the same for all URIs of one table: links of local paths are followed.

    >>> place_of("s3a://bucket/t/"), place_of("file:/tmp/../t"), place_of("/t/")
    ('s3://bucket/t', 'file:///t', 'file:///t')

    Raises:
        InvalidInputError: as `parse_root`.
    """
    root = parse_root(split_query(uri)[0] if uri.lower().startswith(f"{WITH_DYNAMODB}://") else uri)
    if root.scheme == "file":
        return f"file://{os.path.realpath(root.location)}"
    return f"{'s3' if root.scheme in S3_SCHEMES else root.scheme}://{root.location}"


def with_absolute_path(uri: str) -> str:
    """A URI or path for messages: a relative path with the absolute one that it stands for."""
    place = absolute_uri(uri)
    return uri if place == uri.rstrip("/") or not place else f"{uri} ({place})"


def split_query(uri: str) -> tuple[str, str]:
    """Splits a URI: (URI without its query, query).

    >>> split_query("s3+ddb://bucket/t?ddbTableName=x")
    ('s3+ddb://bucket/t', 'ddbTableName=x')
    """
    place, _, query = uri.partition("?")
    return place, query


def below(uri: str, path: str) -> str:
    """The URI of `path` below a root; characters that are not allowed in a URI are percent-encoded.

    >>> below("s3+ddb://bucket/t?ddbTableName=x", "tree/b"), below("/t", "tree/b")
    ('s3+ddb://bucket/t/tree/b?ddbTableName=x', '/t/tree/b')
    >>> below("s3://bucket", "a$b 100%"), below("/t", "a$b 100%")
    ('s3://bucket/a$b%20100%25', '/t/a$b 100%')
    """
    if _has_escapes(uri):
        path = quote(path, safe=_LITERAL_IN_URIS)
    if not uri.lower().startswith(f"{WITH_DYNAMODB}://"):
        return f"{uri.rstrip('/')}/{path}"
    place, query = split_query(uri)
    return f"{place.rstrip('/')}/{path}" + (f"?{query}" if query else "")


def split_object(uri: str) -> tuple[str, str]:
    """(the root of its folder, the path below that) of the object at a URI; the inverse of `below`.

    >>> split_object("s3://bucket/a/b%20c.bin"), split_object("file:/a/b%20c"), split_object("/a/b%20c")
    (('s3://bucket/a/', 'b c.bin'), ('file:/a/', 'b c'), ('/a/', 'b%20c'))

    Raises:
        InvalidInputError: it is no absolute URI, nor an absolute path, of an object.
    """
    folder, slash, name = uri.rpartition("/")
    if not slash or not name or not (uri.startswith("/") or _SCHEME.match(uri)):
        raise InvalidInputError(f"{uri!r} is no absolute URI of an object")
    return f"{folder}/", _decode(uri, name) if _has_escapes(uri) else name


def _has_escapes(uri: str) -> bool:
    """Whether `parse_root` decodes percent escapes in `uri`."""
    match = _SCHEME.match(uri)
    if match is None or match[1].lower() == "memory":
        return False
    return match[1].lower() == "file" or match[2] is not None


def _file_path(uri: str, rest: str) -> str:
    if not rest.startswith("//"):
        path = rest
    else:
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidInputError(f"{uri!r} names another host; a local file URI is file:///path")
        path = slash + path
    if not path.startswith("/"):
        raise InvalidInputError(f"{uri!r} is not absolute; a local file URI is file:///path")
    return path


def _local(path: str) -> str:
    return os.path.abspath(path)


def _decode(uri: str, text: str) -> str:
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{uri!r} has percent escapes that are not UTF-8") from None
    if "\0" in decoded:
        raise InvalidInputError(f"{uri!r} has a NUL")
    return decoded


def _require_utf8(path: str) -> None:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInputError(f"path {path!r} has a character that is not Unicode text") from None
