"""Lance tables in a Hive metastore (Lance namespace specification, Hive 2.x and 3.x). The client needs the extra
``hive``.

A namespace is a database; in Hive 3 and later it may be in a catalog, another level of namespaces. Names are folded to
lower case. Tables are external, which ``EXTERNAL=TRUE`` says and ``tableType`` alone does not: so no Hive client
deletes or moves their files.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.external.catalog import CREATION, CatalogedTable, ExternalCatalog
from lance_spark.namespace.external.hive_client import RefusedError
from lance_spark.namespace.external.hive_metastore import HiveMetastore, HivePlace, is_external, make_external
from lance_spark.namespace.external.metastore_tables import marked, table_format, user_properties
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.settings import CatalogSettings, read_settings
from lance_spark.storage.paths import absolute_uri, below
from lance_spark.storage.server_errors import LostReplyError

SETTINGS = {
    "uri": "uri",
    "hadoop.hive.metastore.uris": "uri",
    "root": "root",
    "ugi": "ugi",
    "client.pool-size": "client.pool-size",
}
DEFAULT_CATALOG = "hive"
"""The catalog of Hive 3 that a database without one is in, and the only one of Hive 2."""

_TABLE_TYPE = "lance"
_NAME = re.compile(r"[A-Za-z0-9_]+")
_FIELDS = {"comment": "description", "location": "locationUri", "owner": "ownerName"}
"""Properties of a namespace that are fields of a database."""


class HiveCatalog(ExternalCatalog):
    """The Lance tables of a metastore, whose namespaces are databases.

    Args:
        settings: by the names of `SETTINGS`.
        parent: the levels above the root of this catalog, which stand before each name.
        storage_options: of the store; a metastore sends none.

    Raises:
        InvalidInputError: no uri, or a wrong one.
        StorageError: pymetastore is not installed.
    """

    folds_case = True
    levels = 1
    """The number of levels above a table."""

    def __init__(
        self, settings: CatalogSettings, parent: Identifier = (), storage_options: Mapping[str, str] | None = None
    ) -> None:
        uri = settings.required("uri", "the metastore's address thrift://host:port")
        super().__init__(f"the Hive metastore {uri}", parent, storage_options)
        self._root = absolute_uri(settings.text("root") or "") if settings.text("root") else None
        self._hive = HiveMetastore(uri, settings.text("ugi"), settings.whole_number("client.pool-size", 3))

    @classmethod
    def of_settings(
        cls, settings: Mapping[str, str], parent: Identifier, storage_options: Mapping[str, str]
    ) -> HiveCatalog:
        """The catalog with these settings."""
        return cls(read_settings(f"hive{cls.levels + 1}", settings, SETTINGS), parent, storage_options)

    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        if len(parent) == self.levels:
            self._database(parent)  # It has no children, but it exists.
            return []
        return self._hive.databases(None)

    def describe_namespace(self, path: Identifier) -> Mapping[str, str]:
        found = self._database(path)
        fields = {name: getattr(found, field) for name, field in _FIELDS.items()}
        return {**(found.parameters or {}), **{name: value for name, value in fields.items() if value}}

    def add_namespace(self, path: Identifier, properties: Mapping[str, str]) -> None:
        if len(path) != self.levels:
            raise InvalidInputError(f"{format_identifier(path)} cannot be made in {self.description}: no database")
        _require_name(path[-1])
        place = self._place(path)
        fields = {_FIELDS[name]: value for name, value in properties.items() if name in _FIELDS}
        if self._root is not None:
            fields.setdefault("locationUri", below(self._catalog_root(place), f"{place.database}.db"))
        rest = {name: value for name, value in properties.items() if name not in _FIELDS}
        try:
            self._hive.add_database(place, fields, rest)
        except LostReplyError:
            # Whoever made it: there is a database as it was asked for.
            found = self._found(path)
            if found is None or not properties.items() <= found.items():
                raise

    def alter_namespace(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        found = self._database(path)
        parameters = {**(found.parameters or {}), **{key: updates[key] for key in updates if key not in _FIELDS}}
        found.parameters = {name: value for name, value in parameters.items() if value is not None}
        for name, field in _FIELDS.items():
            if name in updates:
                setattr(found, field, updates[name] or "")
        self._hive.alter_database(self._place(path), found)
        now = self._database(path)
        # Releases before 3 change parameters and the owner, and drop other changes without a word.
        kept = [name for name in updates if name in _FIELDS and getattr(now, _FIELDS[name]) != (updates[name] or "")]
        if kept:
            raise UnsupportedFeatureError(
                f"{self.description} does not change {kept[0]} of {format_identifier(path)}; all other properties are "
                "set",
                feature="ALTER NAMESPACE",
            )

    def remove_namespace(self, path: Identifier) -> None:
        place = self._place(path)
        try:
            self._hive.drop_database(place)
        except LostReplyError:
            if self._found(path) is not None:
                raise
        except RefusedError as error:
            raise NotEmptyError(f"{format_identifier(path)} is not empty: {error}") from error

    def child_tables(self, namespace: Identifier) -> Iterator[tuple[str, bool]]:
        if len(namespace) < self.levels:
            return
        self._database(namespace)  # Of one that is missing the metastore lists nothing.
        for found in self._hive.tables(self._place(namespace)):
            yield found.tableName, _described(found).is_lance

    def describe_table(self, identifier: Identifier) -> CatalogedTable:
        return _described(self._table(identifier))

    def add_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> None:
        place = self._place_of_new(identifier)
        parameters = {**marked(properties, _TABLE_TYPE), "EXTERNAL": "TRUE"}
        self._database(identifier[:-1])  # Of a missing one the metastore says that its name is invalid.
        mark = secrets.token_hex(16)
        try:
            self._hive.add_table(place, identifier[-1], location, parameters, {CREATION: mark})
        except LostReplyError as error:
            found = self._looked_for(identifier, error)
            if found is None:
                raise
            if (found.sd.serdeInfo.parameters or {}).get(CREATION) != mark:
                raise AlreadyExistsError(f"{format_identifier(identifier)} exists in {self.description}") from error

    def remove_table(self, identifier: Identifier) -> None:
        self._require_table(identifier)
        try:
            self._hive.drop_table(self._place(identifier[:-1]), identifier[-1])
        except LostReplyError as error:
            if self._looked_for(identifier, error) is not None:
                raise

    def default_location(self, identifier: Identifier) -> str:
        place = self._place_of_new(identifier)
        found = self._database(identifier[:-1]).locationUri
        if self._root is not None:
            _require_name(place.database)
            return below(self._catalog_root(place), f"{place.database}.db/{identifier[-1]}")
        if not found:
            raise InvalidInputError(
                f"nothing says where tables of {format_identifier(identifier[:-1])} lie: set `root` of the catalog, or "
                "give LOCATION"
            )
        return below(found, identifier[-1])

    def move_table(self, old: Identifier, new: Identifier) -> None:
        place, source = self._place_of_new(new), self._place(old[:-1])
        if place.catalog != source.catalog:
            raise InvalidInputError(f"{self.description} cannot move a table into another catalog")
        self._database(new[:-1])
        found = self._table(old)
        if self._exists(new):
            raise AlreadyExistsError(f"{format_identifier(new)} exists in {self.description}")
        if not is_external(found):
            # The metastore moves the files of a managed table, which is what other Lance clients' tables are.
            make_external(found)
            self._hive.alter_table(source, old[-1], found)
        location = found.sd.location
        found.dbName, found.tableName = place.database, new[-1]
        try:
            self._hive.alter_table(source, old[-1], found, repeats=False)
        except LostReplyError as error:
            moved = self._looked_for(new, error)
            if moved is None or moved.sd.location != location or self._looked_for(old, error) is not None:
                raise
        except RefusedError as error:
            if self._exists(new):
                raise AlreadyExistsError(f"{format_identifier(new)} exists in {self.description}") from error
            raise

    def _catalog_root(self, place: HivePlace) -> str:
        root = self._root or ""
        return root if place.catalog is None else below(root, place.catalog)

    def _place(self, path: Identifier) -> HivePlace:
        """The database of a namespace. Raises `NotFoundError` if it cannot be one's name."""
        if len(path) != self.levels or any(not name or name[0] in "@!" or "#" in name for name in path):
            raise NotFoundError(f"{self.description} has no database {format_identifier(path)}")
        catalog = path[0] if self.levels > 1 and path[0] != DEFAULT_CATALOG else None
        return HivePlace(path[-1], catalog)

    def _place_of_new(self, identifier: Identifier) -> HivePlace:
        if len(identifier) != self.levels + 1:
            raise InvalidInputError(f"{format_identifier(identifier)} of {self.description} is in no database")
        _require_name(identifier[-1])
        return self._place(identifier[:-1])

    def _require_table(self, identifier: Identifier) -> None:
        if len(identifier) != self.levels + 1 or not identifier[-1]:
            raise NotFoundError(f"{self.description} has no table {format_identifier(identifier)}")

    def _database(self, path: Identifier) -> Any:
        return self._hive.database(self._place(path))

    def _table(self, identifier: Identifier) -> Any:
        self._require_table(identifier)
        return self._hive.table(self._place(identifier[:-1]), identifier[-1])

    def _exists(self, identifier: Identifier) -> bool:
        try:
            self._table(identifier)
        except NotFoundError:
            return False
        return True

    def _looked_for(self, identifier: Identifier, lost: LostReplyError) -> Any:
        """The table after a change whose reply is lost; None if there is none. Raises `lost` if nobody knows."""
        try:
            return self._table(identifier)
        except NotFoundError:
            return None
        except LanceError:
            raise lost from None

    def _found(self, path: Identifier) -> Mapping[str, str] | None:
        try:
            return self.describe_namespace(path)
        except NotFoundError:
            return None


def _require_name(name: str) -> None:
    """Raises `InvalidInputError` for a new name that Hive does not keep."""
    if _NAME.fullmatch(name) is None:
        raise InvalidInputError(f"Hive takes names of letters, digits and underscores of ASCII, not {name!r}")


def _described(table: Any) -> CatalogedTable:
    parameters, storage = table.parameters or {}, table.sd
    kind = table_format(parameters, table.tableType or "", (storage.inputFormat if storage else None) or "")
    return CatalogedTable((storage.location if storage else None) or "", kind, user_properties(parameters))
