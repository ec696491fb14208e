"""Versions that a server keeps (Lance REST namespace specification, "managed versioning").

The server decides which manifest is version N of a table; the manifests themselves are in the table's store. Which
server and table it is travels with the storage options of the table, to wherever the table is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote

from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError, StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.manifest_table import MANAGED_VERSIONS, ManifestEntry
from lance_spark.storage.paths import object_path, parse_root, place_of
from lance_spark.storage.per_process import PerProcess
from lance_spark.storage.server_errors import LostReplyError, RefusedError

_DELIMITER = "$"
_FOLDER = "_versions/"
_CONFLICT, _NOT_FOUND = 409, 404
_PAGE = 1000
_MAX_VERSION = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A table whose versions a server keeps.

    Attributes:
        server: the address of the server.
        headers: sent with each request.
        identifier: the full name of the table.
        root: its location.
    """

    server: str
    headers: Mapping[str, str]
    identifier: tuple[str, ...]
    root: str

    def __repr__(self) -> str:
        return f"ServedTable({self.server!r}, {self.identifier!r})"

    def to_options(self) -> dict[str, str]:
        """The storage options by which the table is opened, beside those of its store."""
        return {MANAGED_VERSIONS: json.dumps(asdict(self))}

    @classmethod
    def of_options(cls, uri: str, options: Mapping[str, str] | None) -> ServedTable | None:
        """The table at `uri`; None if no server keeps its versions.

        Raises:
            InvalidInputError: the option is not one of `to_options`.
        """
        text = (options or {}).get(MANAGED_VERSIONS)
        if text is None:
            return None
        try:
            read = json.loads(text)
            table = cls(read["server"], dict(read["headers"]), tuple(read["identifier"]), read["root"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"storage option {MANAGED_VERSIONS} is set by catalogs only") from error
        # The tables of partitions, and other tables that a version refers to, commit by themselves.
        return table if place_of(uri) == place_of(table.root) else None


class ServedVersions:
    """The versions of a branch of a table, as the server has them. Thread safe; can be pickled.

    Raises:
        StorageError: the server does not respond, or fails.
        CorruptFileError: it names what cannot be a manifest of the table.

    Args:
        table: which it is.
        branch: None is the main one.
        root: the root of the branch.
    """

    def __init__(self, table: ServedTable, branch: str | None, root: str) -> None:
        self._table = table
        self._branch = branch
        self._root = root
        place = parse_root(root)
        self._key = place.location.strip("/") if place.scheme == "file" else place.location.partition("/")[2]
        self._server = _shared(table.server, tuple(sorted(table.headers.items())))
        name = quote(_DELIMITER.join(table.identifier), safe="")
        self._path = f"/v1/table/{name}/version"

    def __reduce__(self) -> tuple[Any, ...]:
        return ServedVersions, (self._table, self._branch, self._root)

    @property
    def description(self) -> str:
        """Table and server, for messages."""
        return f"{self._table.server}, table {'.'.join(self._table.identifier)}"

    def latest(self) -> ManifestEntry | None:
        """The newest version, None without versions."""
        return next(self.entries(), None)

    def newest(self, count: int) -> list[ManifestEntry]:
        """The `count` newest versions, newest first; fewer if there are fewer."""
        return list(islice(self.entries(min(count, _PAGE)), count))

    def entries(self, page: int = 1) -> Iterator[ManifestEntry]:
        """All versions, newest first.

        Args:
            page: how many to ask for in the first request.
        """
        token: str | None = None
        seen: set[str] = set()
        while True:
            query = {"limit": str(page), "descending": "true"} | self._of_branch()
            if token is not None:
                query["page_token"] = token
            try:
                reply = self._send("list", query)
            except RefusedError as error:
                if error.status == _NOT_FOUND and not seen:
                    return  # A table that is declared only.
                raise
            found = reply.get("versions")
            if not isinstance(found, list):
                raise StorageError(f"{self.description} answers without a list of versions")
            yield from map(self._entry, found)
            token, page = reply.get("page_token"), _PAGE
            if not token:
                return
            if not isinstance(token, str) or token in seen:
                raise StorageError(f"{self.description} sends the same page of its versions again and again")
            seen.add(token)

    def get(self, version: int) -> ManifestEntry | None:
        """A version by its number, None if the server has none."""
        body = self._named() | {"version": version} | self._of_branch()
        try:
            reply = self._send("describe", body=body)
        except RefusedError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        entry = self._entry(reply.get("version"))
        if entry.version != version:
            raise CorruptFileError(f"{self.description} answers version {entry.version} for version {version}")
        return entry

    def create(self, entry: ManifestEntry, naming_scheme: str) -> PutResult:
        """Makes the manifest of `entry` version N, which must not exist. EXISTS may mean our own request.

        Raises:
            StorageError: the server has refused the request; nothing has changed.
        """
        body = self._named() | self._of_branch()
        body |= {
            "version": entry.version,
            "manifest_path": f"{self._key}/{entry.path}",
            "manifest_size": entry.size,
            "naming_scheme": naming_scheme,
        }
        try:
            self._send("create", body=body, may_repeat=False)
        except LostReplyError:
            return PutResult.UNKNOWN
        except RefusedError as error:
            if error.status == _CONFLICT or self._is_there(entry.version):
                return PutResult.EXISTS
            raise
        return PutResult.CREATED

    def delete(self, first: int, last: int) -> None:
        """Removes the versions from `first` to `last`, which the server may have removed already."""
        ranges = [{"start_version": first, "end_version": last + 1}]
        try:
            self._send("delete", body=self._named() | self._of_branch() | {"ranges": ranges})
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise

    def _is_there(self, version: int) -> bool:
        """Whether the server has a version after it has refused to make it, which it must not have done then."""
        try:
            return self.get(version) is not None
        except LanceError:
            return False

    def _entry(self, told: Any) -> ManifestEntry:
        """A version as the server describes it."""
        version = told.get("version") if isinstance(told, dict) else None
        if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= _MAX_VERSION:
            raise CorruptFileError(f"{self.description} describes a version without a number")
        path, size = told.get("manifest_path"), told.get("manifest_size")
        if not isinstance(path, str) or not path:
            raise CorruptFileError(f"{self.description} does not say where the manifest of version {version} is")
        known = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
        return ManifestEntry(version, self._relative(path), known)

    def _relative(self, path: str) -> str:
        """The path of a manifest below the branch; servers write keys of the store, URIs or paths below the table.

        Raises:
            CorruptFileError: it is elsewhere.
        """
        is_whole = "://" in path or path.startswith("/")
        text, above = (place_of(path), place_of(self._root)) if is_whole else (path, self._key)
        for spelled in (text, unquote(text)):
            below = spelled.removeprefix(f"{above}/")
            if below.startswith(_FOLDER) and "/" not in below[len(_FOLDER) :]:
                try:
                    return object_path(below)
                except InvalidInputError:
                    break
        raise CorruptFileError(f"{self.description} names the manifest {path!r}, which is none of the table")

    def _named(self) -> dict[str, Any]:
        return {"id": list(self._table.identifier)}

    def _of_branch(self) -> dict[str, str]:
        return {} if self._branch is None else {"branch": self._branch}

    def _send(
        self,
        operation: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        may_repeat: bool = True,
    ) -> Mapping[str, Any]:
        asked = {"delimiter": _DELIMITER, **(query or {})}
        about = ".".join(self._table.identifier)
        return self._server.get().send(
            "POST", f"{self._path}/{operation}", about, query=asked, body=body, may_repeat=may_repeat
        )


@lru_cache(maxsize=16)
def _shared(server: str, headers: tuple[tuple[str, str], ...]) -> PerProcess[JsonServer]:
    """The server's connections in this process, for all its tables."""
    return PerProcess(lambda: JsonServer(server, description=server, headers=dict(headers)))
