"""Catalogs over HTTP that name the place of a table, and may send credentials for it: Iceberg REST, Polaris, Unity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from secrets import token_hex
from urllib.parse import quote

from lance_spark.errors import AlreadyExistsError, InvalidInputError, LanceError, NotFoundError, StorageError
from lance_spark.namespace.base import TableEntry
from lance_spark.namespace.directory.catalog_table import has_table
from lance_spark.namespace.external.catalog import CatalogedTable
from lance_spark.namespace.external.server_catalog import ServerCatalog
from lance_spark.namespace.external.vended_credentials import merged
from lance_spark.namespace.object_id import Identifier, checked, format_identifier
from lance_spark.storage import open_store
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.paths import UriOrPath, absolute_uri, below, place_of, uri_text

_REFUSED_IN_FOLDERS = frozenset("/\\%?#")
_MAX_PLACES = 8


class VendingCatalog(ServerCatalog):
    """A catalog over HTTP.

    A place for a new table is looked at after the table has its name, because only then the catalog sends credentials
    with which that can be done; the name is withdrawn if the place is taken.

    Args:
        server: the catalog's.
        parent: the levels above the root of this catalog.
        storage_options: of the store, where the catalog sends none.
        root: the folder of new tables; None: a property of their namespace says it.
        vends: whether to ask for credentials.
    """

    def __init__(
        self,
        server: JsonServer,
        parent: Identifier = (),
        storage_options: Mapping[str, str] | None = None,
        *,
        root: str | None = None,
        vends: bool = True,
    ) -> None:
        super().__init__(server, parent, storage_options)
        self._root = None if root is None else absolute_uri(root)
        self._vends = vends

    @abstractmethod
    def look_up(self, identifier: Identifier, *, vends: bool) -> CatalogedTable:
        """A table or view of any format, with credentials if `vends` and the catalog sends any.

        Raises:
            NotFoundError: there is none.
        """

    @abstractmethod
    def check_table_name(self, identifier: Identifier) -> None:
        """Raises `InvalidInputError` if no table can have this name."""

    def is_of_catalog(self, path: str) -> bool:
        """Whether the catalog itself writes such a file, by its path in the folder of a new table."""
        return False

    def describe_table(self, identifier: Identifier) -> CatalogedTable:
        return self.look_up(identifier, vends=self._vends)

    def table_exists(self, identifier: Identifier) -> bool:
        try:
            self.look_up(self._full(identifier), vends=False)
        except NotFoundError:
            return False
        return True

    def default_location(self, identifier: Identifier) -> str:
        namespace, name = identifier[:-1], _folder(identifier[-1])
        if self._root is not None:
            # Levels below the first are joined by what no name has: the folder of namespace a.b would be that of a
            # table b in namespace a, and be deleted with it.
            return below(self._root, "/".join((_folder(namespace[0]), "$".join(map(_folder, namespace[1:])), name)))
        location = self.describe_namespace(namespace).get("location")
        if not location:
            raise InvalidInputError(
                f"nothing says where tables of {format_identifier(namespace)} lie: set root of the catalog, or the "
                "property location of the namespace, or give the table a location"
            )
        place = self._checked_location(CatalogedTable(location, ""), namespace)
        return below(place, f"{name}.lance")  # For the same reason.

    def declare_table(
        self,
        identifier: Identifier,
        *,
        location: UriOrPath | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> TableEntry:
        full, given = self._full(checked(identifier)), dict(properties or {})
        self.check_table_name(full)
        if location is not None:
            uri = absolute_uri(uri_text(location))
            options = self._options(self.add_table(full, uri, given))
            with self._withdrawn_on_failure(full):
                if has_table(uri, options):
                    raise AlreadyExistsError(f"there is a table at {uri}; CALL system.register_table gives it a name")
            return TableEntry(uri, given, declared=True, storage_options=self.sent_options(identifier, options))
        uri = first = self.default_location(full)
        for _ in range(_MAX_PLACES):
            options = self._options(self.add_table(full, uri, given))
            with self._withdrawn_on_failure(full):
                is_free = not self._has_files(uri, options)
            if is_free:
                return TableEntry(uri, given, declared=True, storage_options=self.sent_options(identifier, options))
            self.remove_table(full)
            # Files of a dropped table are left at the place of its name.
            uri = f"{first}_{token_hex(4)}"
        raise StorageError(f"there are files at {first}, and at all other places that were tried for the table")

    def register_table(
        self, identifier: Identifier, location: UriOrPath, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        full, uri, given = self._full(checked(identifier)), absolute_uri(uri_text(location)), dict(properties or {})
        self.check_table_name(full)
        options = self._options(self.add_table(full, uri, given))
        with self._withdrawn_on_failure(full):
            if not has_table(uri, options):
                raise NotFoundError(f"there is no table at {uri}")
        return TableEntry(uri, given, declared=False, storage_options=self.sent_options(identifier, options))

    def check_place(self, identifier: Identifier, asked: str, answered: object) -> None:
        """Withdraws a table that the catalog has put somewhere else than asked: its readers would not find its rows.

        Raises:
            StorageError: the place is another one.
        """
        with self._withdrawn_on_failure(identifier):
            if isinstance(answered, str) and is_same_place(asked, answered):
                return
            where = f"at {answered!r}" if isinstance(answered, str) else "at a place that it does not name"
            raise StorageError(
                f"{self.description} puts {format_identifier(identifier)} {where}, not at {asked}; its name was "
                "withdrawn. Set root, or give the table a location, where the catalog allows it"
            )

    def ours(self, identifier: Identifier, location: str, creation: str | None = None) -> CatalogedTable | None:
        """The Lance table of this name, if it lies at `location`, and was made with `creation` if that is given."""
        try:
            found = self.look_up(identifier, vends=self._vends)
        except NotFoundError:
            return None
        if creation is not None and found.creation != creation:
            raise AlreadyExistsError(f"{format_identifier(identifier)} exists in {self.description}")
        return found if found.is_lance and is_same_place(location, found.location) else None

    def _options(self, sent: Mapping[str, str] | None) -> Mapping[str, str]:
        return merged(self._storage_options, sent)

    def _has_files(self, uri: str, options: Mapping[str, str]) -> bool:
        found = open_store(uri, options).list("", recursive=True)
        return any(not self.is_of_catalog(entry.path) for entry in found)

    @contextmanager
    def _withdrawn_on_failure(self, identifier: Identifier) -> Iterator[None]:
        """Removes a table that was just added if what comes next fails."""
        try:
            yield
        except LanceError as error:
            try:
                self.remove_table(identifier)
            except NotFoundError:
                pass
            except LanceError as other:
                name = format_identifier(identifier)
                raise StorageError(f"{error}; and {name} stays in the catalog without a table: {other}") from error
            raise


def is_same_place(asked: str, answered: str) -> bool:
    """Whether two locations are one; catalogs write ``file:/x`` for ``/x``."""
    try:
        return place_of(asked) == place_of(answered)
    except InvalidInputError:
        return False


def is_text(name: str) -> bool:
    """Whether a name has neither control characters nor what is no text in Unicode."""
    return not any(character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff" for character in name)


def texts(value: object) -> dict[str, str]:
    """The properties in an answer; what is no text is left out."""
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(key, str) and isinstance(text, str)}


def _folder(name: str) -> str:
    """The folder of a name: the name itself, or another one for each name that is no part of a path."""
    if name in (".", "..") or _REFUSED_IN_FOLDERS.intersection(name):
        return quote(name, safe=" ").replace(".", "%2E")
    return name
