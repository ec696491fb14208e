"""Sources of descriptions that other tables take: they say where the data file is, and who has said so.

A plain source is relative to the bases of one table, and names nothing outside of them. A signed one is
``@<signature> <root> <folder> <plain source>``: the URI of the table that it is relative to, and that of the folder of
the data file, empty for the root's own. Only who knows the key of a session can sign, so no text in anybody's data is
used as a place.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from lance_spark.errors import InvalidInputError
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.paths import absolute_uri
from lance_spark.storage.registry import open_store
from lance_spark.table.base_places import open_place, options_of
from lance_spark.table.bases import Bases
from lance_spark.table.paths import DATA, checked_relative
from lance_spark.table.rows.fragment import BaseId

_SIGN = "@"
_SAFE = "/:"
_SIGNATURE_BYTES = 16


@dataclass(frozen=True, slots=True)
class PlainSource:
    """A source without a signature.

    Attributes:
        key: of the split that it is of, if it is of a partitioned table.
        base_id: of the base path that the data file is below; None for the root.
        path: of the data file there.
    """

    key: str | None
    base_id: BaseId | None
    path: str


@dataclass(frozen=True, slots=True)
class SignedSource:
    """A source with the place that it is relative to.

    Attributes:
        signature, signed: what was signed, and by what.
        root: the URI of the table, or of the split.
        folder: the URI of the folder of the data file; empty for that of the root's own files.
        source: the plain one.
    """

    signature: str
    signed: str
    root: str
    folder: str
    source: str

    @classmethod
    def of(cls, text: str) -> SignedSource | None:
        """The parts of a source; None if it is not signed.

        Raises:
            InvalidInputError: it is neither signed nor plain.
        """
        if not text.startswith(_SIGN):
            return None
        signature, _, signed = text[len(_SIGN) :].partition(" ")
        parts = signed.split(" ", 2)
        if len(parts) != 3:
            raise InvalidInputError(f"{text!r} is no source of a blob")
        return cls(signature, signed, unquote(parts[0]), unquote(parts[1]), parts[2])


def without_signature(text: str) -> str:
    """The plain source in a signed one, or the plain one itself.

    >>> without_signature(":a.lance"), without_signature("@c2lnbmVk /tables/t  0f|:a.lance")
    (':a.lance', '0f|:a.lance')
    """
    signed = SignedSource.of(text)
    return text if signed is None else signed.source


def signed_source(text: str, plain: PlainSource, bases: Bases, key: bytes) -> str:
    """The source `text`, whose parts are `plain`, of a table with `bases`, signed."""
    folder = "" if plain.base_id is None else bases.data_folder(plain.base_id)
    # Blanks separate the parts.
    signed = f"{quote(absolute_uri(bases.root.uri), safe=_SAFE)} {quote(folder, safe=_SAFE)} {text}"
    return f"{_SIGN}{_signature(signed, key)} {signed}"


def _signature(signed: str, key: bytes) -> str:
    digest = hmac.digest(key, signed.encode(), "sha256")[:_SIGNATURE_BYTES]
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True)
class SignedSources:
    """Finds the data files of other tables.

    Attributes:
        key: of the session; without one nothing is signed.
        storage_options: of the tables that the statement reads, by URI.
        default: storage options of other tables.
        newest_bases: opens the bases of the newest version of the table at a URI, with its storage options.
    """

    key: bytes = b""
    storage_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    default: Mapping[str, str] | None = None
    newest_bases: Callable[[str, dict[str, str] | None], Bases] | None = None

    def file(self, source: SignedSource, plain: PlainSource) -> tuple[ObjectStore, str]:
        """The store and the path of the data file of a source that was checked.

        Raises:
            CorruptFileError: the path leaves the folder.
        """
        path = checked_relative(plain.path, "data file")
        if source.folder:
            return open_place(source.folder, source.root, self._options(source), plain.base_id), path
        return open_store(source.root, options_of(self._options(source))), f"{DATA}/{path}"

    def absolute(self, source: SignedSource, base_id: int, uri: str) -> str:
        """The URI of an object that the table of a source refers to by one of its base paths.

        Raises:
            NotFoundError: the table was dropped.
            CorruptFileError: there is no such base path.
        """
        assert self.newest_bases is not None, "a job that reads other tables can open them"
        folder = self.newest_bases(source.root, self._options(source)).folder(BaseId(base_id)).uri
        return f"{folder.rstrip('/')}/{checked_relative(uri, 'blob')}"

    def check(self, source: SignedSource | None) -> None:
        """Passes if this session has signed a source. Without a key it has signed none, and takes plain ones.

        Raises:
            InvalidInputError: it has not.
        """
        signature = "" if source is None else _signature(source.signed, self.key)
        given = "" if source is None else source.signature
        if not hmac.compare_digest(signature.encode(), given.encode()) or bool(self.key) is not bool(source):
            raise InvalidInputError(
                "a description of a blob is of no table that this session has read, so there are no bytes to copy; "
                "read the table and write its rows in one session, or write the bytes: lance_read_blob(column), or "
                "blob_handling = binary for the read"
            )

    def _options(self, source: SignedSource) -> dict[str, str] | None:
        for uri, options in self.storage_options.items():
            if source.root == uri or source.root.startswith(f"{uri.rstrip('/')}/"):
                return dict(options)
        return dict(self.default) if self.default else None
