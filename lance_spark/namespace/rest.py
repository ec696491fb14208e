"""A catalog of tables on a server (Lance REST namespace specification).

The server only knows names and locations; rows are read from and written to the object store directly. The client
needs the extra ``rest``. Versions of tables are committed by the store, so a server that manages them is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.directory_places import TableEntry
from lance_spark.namespace.object_id import (
    DELIMITER,
    Identifier,
    checked,
    format_identifier,
    is_findable,
    object_id,
    spelling,
)

_ERRORS: dict[int, type[LanceError]] = {
    1: NotFoundError,
    2: AlreadyExistsError,
    3: NotEmptyError,
    4: NotFoundError,
    5: AlreadyExistsError,
    13: InvalidInputError,
}
_UNSUPPORTED = 0
_NOT_FOUND = 404
_TIMEOUT_SECONDS = (10.0, 120.0)
_MAX_SHOWN = 500


class RestNamespace:
    """The tables and namespaces of a server; identifiers as in `DirectoryNamespace`. Nothing is cached between calls.

    Methods raise `StorageError` if the server does not respond or fails, `UnsupportedFeatureError` if it does not
    support a request, and `InvalidInputError` if it rejects one.

    Args:
        uri: the server's address, ``https://host/path``.
        headers: sent with every request, such as ``Authorization``.

    Raises:
        StorageError: the client is not installed.
    """

    def __init__(self, uri: str, headers: Mapping[str, str] | None = None) -> None:
        try:
            client: Any = import_module("lance_namespace_urllib3_client")
        except ImportError as error:
            raise StorageError("a REST namespace needs the extra: pip install lance-spark[rest]") from error
        if not uri.lower().startswith(("http://", "https://")):
            raise InvalidInputError(f"{uri!r} is no address of a REST namespace; http:// or https://")
        self.uri = uri.rstrip("/")
        self._client = client
        connection = client.ApiClient(client.Configuration(host=self.uri))
        for name, value in (headers or {}).items():
            connection.set_default_header(name, value)
        self._namespaces = client.NamespaceApi(connection)
        self._tables = client.TableApi(connection)

    def __repr__(self) -> str:
        return f"RestNamespace({self.uri!r})"

    def spelling(self, identifier: Identifier, *, is_table: bool) -> Identifier | None:
        """The name as the server's listings spell it; None if it has no listings or no such name, so that only an exact
        name matches.

        Raises:
            InvalidInputError: the name is ambiguous: several names differ from it only in case.
        """
        if not is_findable(identifier):
            return None

        def children(namespace: Identifier, is_last: bool) -> list[str]:
            return self.list_tables(namespace) if is_table and is_last else self.list_namespaces(namespace)

        try:
            return spelling(identifier, children)
        except (NotFoundError, UnsupportedFeatureError):
            return None  # Removed since the listing; or the server has no listings.

    def list_namespaces(self, parent: Identifier = ()) -> list[str]:
        """Names of the namespaces directly in `parent`, sorted.

        Raises:
            NotFoundError: the server reports a missing namespace; some report an empty one instead.
        """
        return sorted(self._pages(self._namespaces.list_namespaces, parent, "namespaces"))

    def namespace_exists(self, path: Identifier) -> bool:
        """Whether there is such a namespace; the root always exists."""
        if not path:
            return True
        if not is_findable(path):
            return False
        request = self._client.NamespaceExistsRequest()
        return self._is_there(self._namespaces.namespace_exists, path, namespace_exists_request=request)

    def namespace_properties(self, path: Identifier) -> Mapping[str, str]:
        """The properties of a namespace.

        Raises:
            NotFoundError: there is no such namespace.
        """
        request = self._client.DescribeNamespaceRequest()
        reply = self._call(self._namespaces.describe_namespace, path, describe_namespace_request=request)
        return reply.properties or {}

    def create_namespace(self, path: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Creates a namespace in an existing one.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
        """
        request = self._client.CreateNamespaceRequest(properties=dict(properties or {}))
        self._call(self._namespaces.create_namespace, checked(path), create_namespace_request=request)

    def set_namespace_properties(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        """Always raises `UnsupportedFeatureError`: the protocol cannot change properties."""
        raise UnsupportedFeatureError(
            "a REST namespace takes properties when it is made, and none later", feature="ALTER NAMESPACE"
        )

    def drop_namespace(
        self, path: Identifier, *, cascade: bool = False, purge: bool = False, keep_external: bool = False
    ) -> None:
        """Removes a namespace; with `cascade` the server decides about the files of its tables.

        Raises:
            NotFoundError: there is no such namespace.
            NotEmptyError: it is not empty, and `cascade` is False or the server does not support it.
        """
        request = self._client.DropNamespaceRequest(behavior="Cascade" if cascade else "Restrict")
        self._call(self._namespaces.drop_namespace, path, drop_namespace_request=request)

    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        """Names of the tables directly in a namespace, sorted, including declared ones.

        Raises:
            NotFoundError: the server reports a missing namespace; some report an empty one instead.
        """
        return sorted(self._pages(self._tables.list_tables, namespace, "tables"))

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table, possibly only declared."""
        if not is_findable(identifier):
            return False
        request = self._client.TableExistsRequest()
        return self._is_there(self._tables.table_exists, identifier, table_exists_request=request)

    def table_location(self, identifier: Identifier) -> TableEntry:
        """The location of a table, and its storage options if the server sends them.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedFeatureError: the server manages the versions of the table.
        """
        request = self._client.DescribeTableRequest(check_declared=True)
        reply = self._call(self._tables.describe_table, identifier, describe_table_request=request, check_declared=True)
        if reply.managed_versioning:
            raise _keeps_versions(f"{self.uri} keeps the versions of {format_identifier(identifier)} itself")
        return self._entry(reply, identifier, is_declared=bool(reply.is_only_declared))

    def declare_table(
        self, identifier: Identifier, *, location: str | None = None, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        """Reserves a name and a location for a table, which exists from its first commit on.

        Args:
            location: the server may reject it, and chooses one if None.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
            UnsupportedFeatureError: the server manages the versions of new tables. The name is free again, unless the
                message says that it is not.
        """
        request = self._client.DeclareTableRequest(location=location, properties=dict(properties or {}) or None)
        reply = self._call(self._tables.declare_table, checked(identifier), declare_table_request=request)
        if reply.managed_versioning:
            raise _keeps_versions(self._withdrawn(identifier))
        return self._entry(reply, identifier, is_declared=True)

    def drop_table(self, identifier: Identifier, *, purge: bool) -> None:
        """Removes a table from the catalog.

        Args:
            purge: whether to delete its files too.

        Raises:
            NotFoundError: there is no such table.
        """
        if purge:
            self._call(self._tables.drop_table, identifier)
            return
        request = self._client.DeregisterTableRequest()
        self._call(self._tables.deregister_table, identifier, deregister_table_request=request)

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table, possibly into another namespace.

        Raises:
            NotFoundError: there is no such table, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
        """
        new = checked(new)
        request = self._client.RenameTableRequest(new_table_name=new[-1], new_namespace_id=list(new[:-1]))
        self._call(self._tables.rename_table, old, rename_table_request=request)

    def _withdrawn(self, identifier: Identifier) -> str:
        """Frees a name that was declared for a table that cannot be written; returns a sentence about it."""
        reason = f"{self.uri} keeps the versions of new tables itself"
        try:
            self.drop_table(identifier, purge=False)
        except NotFoundError:
            pass
        except LanceError as error:
            name = format_identifier(identifier)
            return f"{reason}, and the name {name} stays declared there without a table: {error}"
        return f"{reason}; {format_identifier(identifier)} was not created"

    def _entry(self, found: Any, identifier: Identifier, *, is_declared: bool) -> TableEntry:
        uri = found.location
        if not uri:
            raise StorageError(f"{self.uri} does not say where {format_identifier(identifier)} is")
        return TableEntry(uri, found.properties or {}, is_declared, storage_options=found.storage_options or {})

    def _pages(self, request: Callable[..., Any], path: Identifier, names: str) -> Iterator[str]:
        token: str | None = None
        seen: set[str] = set()
        while True:
            page = self._call(request, path, page_token=token)
            yield from getattr(page, names)
            token = page.page_token
            if not token:
                return
            if token in seen:
                raise StorageError(f"{self.uri} sends the same page of a listing again and again")
            seen.add(token)

    def _is_there(self, request: Callable[..., Any], path: Identifier, **arguments: Any) -> bool:
        try:
            self._call(request, path, **arguments)
        except NotFoundError:
            return False
        return True

    def _call(self, request: Callable[..., Any], path: Identifier, **arguments: Any) -> Any:
        with self._translated(path):
            name = object_id(path) if path else DELIMITER
            return request(name, delimiter=DELIMITER, _request_timeout=_TIMEOUT_SECONDS, **arguments)

    @contextmanager
    def _translated(self, path: Identifier) -> Iterator[None]:
        """Translates the client's errors to ours."""
        from urllib3.exceptions import HTTPError

        try:
            yield
        except self._client.ApiException as error:
            raise self._error(error, path) from error
        except HTTPError as error:
            raise StorageError(f"{self.uri} does not answer: {error}") from error
        except ValueError as error:
            # What the client says of an answer that is not what the protocol has.
            raise StorageError(
                f"the answer of {self.uri} about {format_identifier(path)} is invalid: {error}"
            ) from error

    def _error(self, error: Any, path: Identifier) -> LanceError:
        code, text = _described(error.body)
        message = (
            f"{self.uri} says of {format_identifier(path)}: {text or error.reason or 'nothing'} (status {error.status})"
        )
        if code == _UNSUPPORTED and error.status != _NOT_FOUND:
            return UnsupportedFeatureError(message, feature="REST namespace")
        kind = NotFoundError if code is None and error.status == _NOT_FOUND else _ERRORS.get(code or -1, StorageError)
        return kind(message)


def _keeps_versions(reason: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{reason}, which this release does not serve. Use a server or a namespace without managed versions",
        feature="managed versioning",
    )


def _described(body: str | bytes | None) -> tuple[int | None, str]:
    """Code and text of an error, if the server sends them."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        told = json.loads(text)
    except ValueError:
        return None, text[:_MAX_SHOWN]
    if not isinstance(told, dict):
        return None, text[:_MAX_SHOWN]
    code = told.get("code")
    return code if isinstance(code, int) else None, str(told.get("detail") or told.get("error") or "")[:_MAX_SHOWN]
