"""Requests of a catalog to its server, with errors of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from lance_spark.errors import AlreadyExistsError, LanceError, NotFoundError, StorageError
from lance_spark.namespace.external.catalog import ExternalCatalog
from lance_spark.namespace.object_id import Identifier
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.server_errors import LostReplyError, RefusedError, translated

Found = TypeVar("Found")


class ServerCatalog(ExternalCatalog):
    """A catalog that asks a server of JSON.

    Args:
        server: the catalog's.
        parent: the levels above the root of this catalog.
        storage_options: of the store, where the catalog sends none.
    """

    def __init__(
        self, server: JsonServer, parent: Identifier = (), storage_options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(server.description, parent, storage_options)
        self._server = server

    def translate(self, error: RefusedError, conflict: type[LanceError]) -> LanceError:
        """The error of this package for a refusal; see `server_errors.translated`."""
        return translated(error, conflict)

    def sent(
        self,
        method: str,
        path: str,
        about: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        conflict: type[LanceError] = AlreadyExistsError,
    ) -> Mapping[str, Any]:
        """The server's answer. Raises as `JsonServer.send`, with refusals translated by `translated`."""
        try:
            return self._server.send(method, path, about, query=query, body=body, headers=headers)
        except RefusedError as error:
            raise self.translate(error, conflict) from error.__cause__

    def deleted(
        self,
        path: str,
        about: str,
        look: Callable[[], object],
        *,
        query: Mapping[str, str] | None = None,
        conflict: type[LanceError] = AlreadyExistsError,
    ) -> None:
        """Sends DELETE; `look` raises `NotFoundError` if the object is no longer there. Raises as `sent`."""

        def is_removed() -> bool | None:
            try:
                look()
            except NotFoundError:
                return True
            return None

        try:
            self.sent("DELETE", path, about, query=query, conflict=conflict)
        except LostReplyError as lost:
            self.settled(lost, is_removed)

    def settled(self, lost: LostReplyError, look: Callable[[], Found | None]) -> Found:
        """Finds out whether a request without an answer was carried out; `look` returns None if it was not.

        Raises:
            StorageError: it was not, or that cannot be found out.
        """
        try:
            found = look()
        except StorageError as error:
            raise StorageError(f"{lost}; and whether the request was carried out is not known: {error}") from lost
        if found is None:
            raise StorageError(f"{lost}; the request was not carried out so far, so try again") from lost
        return found

    def listed(
        self, path: str, about: str, query: Mapping[str, str], *, asks: str, answers: str, field: str
    ) -> Iterator[Any]:
        """The items of a field of all pages of a listing. Raises as `sent`."""
        try:
            for page in self._server.pages(path, about, query, asks=asks, answers=answers):
                items = page.get(field)
                if items is not None and not isinstance(items, list):
                    raise self.nonsense(about, f"{field} is no list")
                yield from items or ()
        except RefusedError as error:
            raise self.translate(error, AlreadyExistsError) from error.__cause__

    def nonsense(self, about: str, reason: str) -> StorageError:
        """An error: the catalog's answer is not what its interface has."""
        return StorageError(f"{self.description} sends an invalid answer about {about}: {reason}")
