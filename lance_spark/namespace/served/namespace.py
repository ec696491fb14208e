"""Catalogs whose names somebody else keeps: a server, or a class of another package.

They know names, properties and locations; rows are read from and written to the object store directly. Versions are
committed by the store, or by the server (`storage.served_versions`). A catalog fills in `ServedNamespace.ask`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
from lance_spark.namespace.base import Namespace, TableEntry
from lance_spark.namespace.object_id import Identifier, checked, format_identifier, is_findable
from lance_spark.storage.paths import UriOrPath, absolute_uri, uri_text
from lance_spark.storage.served_versions import ServedTable
from lance_spark.storage.server_errors import LostReplyError

UNSUPPORTED = 0
ERRORS: Mapping[int, type[LanceError]] = {
    1: NotFoundError,
    2: AlreadyExistsError,
    3: NotEmptyError,
    4: NotFoundError,
    5: AlreadyExistsError,
    13: InvalidInputError,
}
"""Classes of the specification's codes of errors; all others are `StorageError`."""


class ServedNamespace(Namespace):
    """The tables and namespaces of a catalog with the operations of the Lance namespace specification.

    Args:
        description: of the catalog, for messages.
        parent: the levels above the root of this catalog, which stand before each name that is sent.
    """

    def __init__(self, description: str, parent: Identifier = ()) -> None:
        self.description = description
        self._parent = checked(parent) if parent else ()

    @abstractmethod
    def ask(self, operation: str, path: Identifier, fields: Mapping[str, Any]) -> Any:
        """The reply to an operation of the Lance namespace specification, such as ``describe_table``.

        Args:
            path: the object's full name; empty for the root.
            fields: of the request beside its ``id``, by the names of the specification.

        Raises:
            LanceError: of the class that fits the specification's code of the error.
        """
        ...

    def served_table(self, full_name: Identifier, uri: str) -> ServedTable | None:
        """The table as its versions, which the catalog keeps, are asked for; None if only the catalog itself can."""
        return None

    def list_namespaces(self, parent: Identifier = ()) -> list[str]:
        """Names of the namespaces directly in `parent`, sorted.

        Raises:
            NotFoundError: the catalog reports a missing namespace; some report an empty one instead.
        """
        return sorted(self._pages("list_namespaces", parent, "namespaces"))

    def namespace_exists(self, path: Identifier) -> bool:
        """Whether there is such a namespace; the root always exists."""
        if not path:
            return True
        if not is_findable(path):
            return False
        return self._is_there("namespace_exists", path)

    def namespace_properties(self, path: Identifier) -> Mapping[str, str]:
        """The properties of a namespace.

        Raises:
            NotFoundError: there is no such namespace.
        """
        return self._ask("describe_namespace", path).properties or {}

    def create_namespace(self, path: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Creates a namespace in an existing one.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
        """
        given = dict(properties or {})
        try:
            self._ask("create_namespace", checked(path), properties=given)
        except LostReplyError:
            # Whoever made it: there is a namespace as it was asked for.
            if not self.namespace_exists(path) or not given.items() <= self.namespace_properties(path).items():
                raise

    def drop_namespace(
        self, path: Identifier, *, cascade: bool = False, purge: bool = False, keep_external: bool = False
    ) -> None:
        """Removes a namespace; with `cascade` the catalog decides about the files of its tables.

        Where it has no cascade, its tables are taken out of it one by one, and their files stay.

        Raises:
            NotFoundError: there is no such namespace.
            NotEmptyError: it is not empty, and `cascade` is False.
        """
        try:
            self._ask("drop_namespace", path, behavior="Cascade" if cascade else "Restrict")
        except (NotEmptyError, UnsupportedFeatureError):
            if not cascade:
                raise
            for name in self.list_namespaces(path):
                self.drop_namespace((*path, name), cascade=True)
            for name in self.list_tables(path):
                self.drop_table((*path, name), purge=False)
            self._ask("drop_namespace", path, behavior="Restrict")
        except LostReplyError:
            if self.namespace_exists(path):
                raise

    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        """Names of the tables directly in a namespace, sorted, including declared ones.

        Raises:
            NotFoundError: the catalog reports a missing namespace; some report an empty one instead.
        """
        return sorted(self._pages("list_tables", namespace, "tables"))

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table, possibly only declared."""
        if not is_findable(identifier):
            return False
        return self._is_there("table_exists", identifier)

    def table_location(self, identifier: Identifier) -> TableEntry:
        """The location of a table, and its storage options if the catalog sends them.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedFeatureError: the catalog manages the versions of the table, and is a class.
        """
        reply = self._ask("describe_table", identifier, check_declared=True)
        entry = self._entry(reply, identifier, is_declared=bool(reply.is_only_declared))
        if not reply.managed_versioning:
            return entry
        served = self.served_table((*self._parent, *identifier), entry.uri)
        if served is None:
            raise _keeps_versions(f"{self.description} keeps the versions of {format_identifier(identifier)} itself")
        return replace(entry, storage_options={**entry.storage_options, **served.to_options()})

    def declare_table(
        self,
        identifier: Identifier,
        *,
        location: UriOrPath | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> TableEntry:
        """Reserves a name and a location for a table, which exists from its first commit on.

        Args:
            location: the catalog may reject it, and chooses one if None.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
            UnsupportedFeatureError: the catalog manages the versions of new tables, and is a class. The name is free
                again, unless the message says that it is not.
        """
        given = dict(properties or {}) or None
        place = None if location is None else absolute_uri(uri_text(location))
        is_lost = False
        try:
            reply = self._ask("declare_table", checked(identifier), location=place, properties=given)
        except LostReplyError:
            # Whoever declared it: the store lets one writer make the first version.
            reply, is_lost = self._looked_up(identifier), True
            if reply is None or not reply.is_only_declared:
                raise
        entry = replace(self._entry(reply, identifier, is_declared=True), may_be_anothers=is_lost)
        if not reply.managed_versioning:
            return entry
        served = self.served_table((*self._parent, *identifier), entry.uri)
        if served is None:
            raise _keeps_versions(self._withdrawn(identifier))
        return replace(entry, storage_options={**entry.storage_options, **served.to_options()})

    def register_table(
        self, identifier: Identifier, location: UriOrPath, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        """Registers an existing table under a name; whether one is there is for the catalog to check.

        Args:
            location: as the catalog takes it: some want a URI, others a path below their root.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist, or the catalog finds no table at the location.
            UnsupportedFeatureError: the catalog manages the versions of its tables.
        """
        place, given = uri_text(location), dict(properties or {}) or None
        try:
            self._ask("register_table", checked(identifier), location=place, properties=given)
        except LostReplyError:
            found = self._looked_up(identifier)
            if found is None or not f"/{found.location}".rstrip("/").endswith(f"/{place.strip('/')}"):
                raise
        return self.table_location(identifier)

    def drop_table(self, identifier: Identifier, *, purge: bool) -> None:
        """Removes a table from the catalog.

        Args:
            purge: whether to delete its files too.

        Raises:
            NotFoundError: there is no such table.
        """
        try:
            self._ask("drop_table" if purge else "deregister_table", identifier)
        except LostReplyError:
            if self.table_exists(identifier):
                raise

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table, possibly into another namespace.

        Raises:
            NotFoundError: there is no such table, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
        """
        new = checked(new)
        namespace = [*self._parent, *new[:-1]]
        try:
            self._ask("rename_table", old, new_table_name=new[-1], new_namespace_id=namespace)
        except LostReplyError:
            if self.table_exists(old) or not self.table_exists(new):
                raise

    def _withdrawn(self, identifier: Identifier) -> str:
        """Frees a name that was declared for a table that cannot be written; returns a sentence about it."""
        reason = f"{self.description} keeps the versions of new tables itself"
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
            raise StorageError(f"{self.description} does not say where {format_identifier(identifier)} is")
        options = self.sent_options(identifier, found.storage_options)
        return TableEntry(uri, found.properties or {}, is_declared, storage_options=options)

    def _pages(self, operation: str, path: Identifier, names: str) -> Iterator[str]:
        token: str | None = None
        seen: set[str] = set()
        while True:
            page = self._ask(operation, path, page_token=token)
            yield from getattr(page, names) or ()
            token = page.page_token
            if not token:
                return
            if token in seen:
                raise StorageError(f"{self.description} sends the same page of a listing again and again")
            seen.add(token)

    def _looked_up(self, identifier: Identifier) -> Any:
        """The description of a table after a lost reply; None if there is none."""
        try:
            return self._ask("describe_table", identifier, check_declared=True)
        except NotFoundError:
            return None

    def _is_there(self, operation: str, path: Identifier) -> bool:
        try:
            self._ask(operation, path)
        except NotFoundError:
            return False
        return True

    def _ask(self, operation: str, path: Identifier, **fields: Any) -> Any:
        return self.ask(operation, (*self._parent, *path), fields)


def request_models() -> Any:
    """The client package of the specification, which has the classes of requests and replies.

    Raises:
        StorageError: it is not installed.
    """
    try:
        return import_module("lance_namespace_urllib3_client")
    except ImportError as error:
        raise StorageError("this namespace needs the extra: pip install lance-spark[rest]") from error


def _keeps_versions(reason: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{reason}, which only a REST server can do here. Use impl = rest, or a namespace without managed versions",
        feature="managed versioning",
    )
