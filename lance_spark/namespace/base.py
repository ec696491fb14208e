"""The protocol of catalogs: all that the connector and `lance_spark.connect` ask of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lance_spark.errors import NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.object_id import Identifier, format_identifier, is_findable, spelling
from lance_spark.storage.paths import UriOrPath


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table of a namespace.

    Attributes:
        uri: its location.
        properties: its properties in the catalog.
        declared: whether only its name and location are reserved, or how to find that out.
        storage_options: its storage options, as far as the namespace knows them.
        may_be_anothers: whether another writer may have reserved the name, so that it must not be taken back.
    """

    uri: str
    properties: Mapping[str, str]
    declared: bool | Callable[[], bool] = field(compare=False)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    may_be_anothers: bool = False

    @property
    def is_declared(self) -> bool:
        """Whether only its name and location are reserved; it has no version. Some catalogs make one look for it."""
        return self.declared if isinstance(self.declared, bool) else self.declared()


class Namespace(ABC):
    """The tables and namespaces of a catalog.

    Identifiers are paths of names from the root, ``("sales", "orders")``; ``()`` is the root namespace. Nothing that
    a catalog says of its objects is kept between calls: each sees what the catalog has now.

    Methods raise `StorageError` if the catalog does not respond or fails, `UnsupportedFeatureError` if it cannot do
    what is asked, and `InvalidInputError` if it rejects it.

    Attributes:
        description: of the catalog, for messages.
        renewable: adds to storage options that it sends for a table what renews them, if they end.
        keeps_views: whether views can be made in it.
    """

    description: str
    renewable: Callable[[Identifier, Mapping[str, str]], dict[str, str]] | None = None
    keeps_views: bool = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.description!r})"

    def sent_options(self, identifier: Identifier, options: Mapping[str, str] | None) -> dict[str, str]:
        """The storage options that the catalog sends for a table, with what renews those that end."""
        return dict(options or {}) if self.renewable is None else self.renewable(identifier, options or {})

    def spelling(self, identifier: Identifier, *, is_table: bool) -> Identifier | None:
        """The name as the catalog's listings spell it; None if it has no listings or no such name, so that only an
        exact name matches.

        Raises:
            InvalidInputError: the name is ambiguous: several names differ from it only in case.
        """
        return self._spelled(identifier, self.list_tables if is_table else self.list_namespaces)

    def view_spelling(self, identifier: Identifier) -> Identifier | None:
        """The name of a view as the catalog spells it, as `spelling`."""
        return self._spelled(identifier, self.list_views) if self.keeps_views else None

    def _spelled(self, identifier: Identifier, listing: Callable[[Identifier], list[str]]) -> Identifier | None:
        """The name as `spelling`; `listing` has the names that the last part may be."""
        if not is_findable(identifier):
            return None

        def children(namespace: Identifier, is_last: bool) -> list[str]:
            return listing(namespace) if is_last else self.list_namespaces(namespace)

        try:
            return spelling(identifier, children)
        except (NotFoundError, UnsupportedFeatureError):
            return None  # Removed since the listing; or the catalog has no listings.

    @abstractmethod
    def list_namespaces(self, parent: Identifier = ()) -> list[str]:
        """Names of the namespaces directly in `parent`, sorted.

        Raises:
            NotFoundError: there is no such namespace; some catalogs report an empty one instead.
        """

    @abstractmethod
    def namespace_exists(self, path: Identifier) -> bool:
        """Whether there is such a namespace; the root always exists."""

    @abstractmethod
    def namespace_properties(self, path: Identifier) -> Mapping[str, str]:
        """The properties of a namespace.

        Raises:
            NotFoundError: there is no such namespace.
        """

    @abstractmethod
    def create_namespace(self, path: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Creates a namespace in an existing one.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
        """

    def set_namespace_properties(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        """Changes some properties of a namespace; None removes one.

        Raises:
            NotFoundError: there is no such namespace.
        """
        raise UnsupportedFeatureError(
            f"{self.description} takes properties when a namespace is made, and none later", feature="ALTER NAMESPACE"
        )

    @abstractmethod
    def drop_namespace(
        self, path: Identifier, *, cascade: bool = False, purge: bool = False, keep_external: bool = False
    ) -> None:
        """Removes a namespace.

        Args:
            cascade: whether to remove its content too.
            purge: whether to delete the files of its tables, where the catalog lets its users decide.
            keep_external: whether `purge` keeps the files of tables whose location a user has chosen.

        Raises:
            NotFoundError: there is no such namespace.
            NotEmptyError: it is not empty, and `cascade` is False or the catalog does not support it.
        """

    @abstractmethod
    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        """Names of the Lance tables directly in a namespace, sorted, including declared ones.

        Raises:
            NotFoundError: there is no such namespace; some catalogs report an empty one instead.
        """

    @abstractmethod
    def table_exists(self, identifier: Identifier) -> bool:
        """Whether the name is that of a table, possibly only declared, or of another format."""

    @abstractmethod
    def table_location(self, identifier: Identifier) -> TableEntry:
        """The location and properties of a table, and its storage options if the catalog sends them.

        Raises:
            NotFoundError: there is no such table.
            InvalidInputError: it is a table of another format.
            UnsupportedFeatureError: the catalog stores its versions in a way that this release does not read.
        """

    @abstractmethod
    def declare_table(
        self,
        identifier: Identifier,
        *,
        location: UriOrPath | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> TableEntry:
        """Reserves a name and a location for a table, which exists from its first commit on.

        Args:
            location: None for a free place that the catalog chooses.

        Raises:
            AlreadyExistsError: an object with this name exists, or there is a table at the location.
            NotFoundError: the parent namespace does not exist.
        """

    @abstractmethod
    def register_table(
        self, identifier: Identifier, location: UriOrPath, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        """Registers an existing table under a name.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist, or there is no table at the location.
        """

    @abstractmethod
    def drop_table(self, identifier: Identifier, *, purge: bool) -> None:
        """Removes a table from the catalog.

        Args:
            purge: whether to delete its files too.

        Raises:
            NotFoundError: there is no such table.
        """

    def deregister_table(self, identifier: Identifier) -> None:
        """Removes a table from the catalog; its files are kept, until somebody deletes them. Raises as `drop_table`."""
        self.drop_table(identifier, purge=False)

    @abstractmethod
    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table, possibly into another namespace.

        Raises:
            NotFoundError: there is no such table, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
        """

    def list_views(self, namespace: Identifier = ()) -> list[str]:
        """Names of the views directly in a namespace, sorted; none, without a request, if the catalog keeps no views.

        Raises:
            NotFoundError: there is no such namespace.
        """
        return []

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether the name is that of a view, whose definition may be unreadable."""
        return False

    def view(self, identifier: Identifier) -> str:
        """The definition of a view, a JSON object.

        Raises:
            NotFoundError: there is no such view, or the catalog keeps none.
            CorruptFileError: its definition is unreadable.
        """
        raise self._no_views(identifier)

    def create_view(self, identifier: Identifier, definition: str) -> None:
        """Adds a view.

        Args:
            definition: a JSON object.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the namespace does not exist.
            UnsupportedFeatureError: the catalog keeps no views.
        """
        raise UnsupportedFeatureError(
            f"{self.description} keeps no views for Lance; make {format_identifier(identifier)} in a catalog with "
            "impl = dir, whose views may read tables of this one",
            feature="CREATE VIEW",
        )

    def replace_view(self, identifier: Identifier, definition: str) -> None:
        """Gives a view another definition, as `create_view`. Raises `NotFoundError` if there is no such view."""
        raise self._no_views(identifier)

    def drop_view(self, identifier: Identifier) -> None:
        """Removes a view. Raises `NotFoundError` if there is no such view."""
        raise self._no_views(identifier)

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Renames a view, possibly into another namespace.

        Raises:
            NotFoundError: there is no such view, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
        """
        raise self._no_views(old)

    def _no_views(self, identifier: Identifier) -> NotFoundError:
        return NotFoundError(f"there is no view {format_identifier(identifier)}; {self.description} keeps no views")
