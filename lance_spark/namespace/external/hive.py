"""Lance tables in a Hive metastore (Lance namespace specification, Hive 2.x and 3.x). The client needs the extra
``hive``.

A namespace is a database; in Hive 3 and later it may be in a catalog, another level of namespaces. Names are folded to
lower case. Tables are external, which ``EXTERNAL=TRUE`` says and ``tableType`` alone does not: so no Hive client
deletes or moves their files.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.external.catalog import CREATION, CatalogedTable, Kind
from lance_spark.namespace.external.hive_client import RefusedError
from lance_spark.namespace.external.hive_metastore import HiveMetastore, HivePlace, is_external, make_external
from lance_spark.namespace.external.hive_views import HiveViews, cataloged, require_name
from lance_spark.namespace.external.metastore_tables import marked
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
_TABLE_TYPE = "lance"
_FIELDS = {"comment": "description", "location": "locationUri", "owner": "ownerName"}
"""Properties of a namespace that are fields of a database."""


class HiveCatalog(HiveViews):
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
        require_name(path[-1])
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

    def child_tables(self, namespace: Identifier) -> Iterator[tuple[str, Kind]]:
        if len(namespace) < self.levels:
            return
        self._database(namespace)  # Of one that is missing the metastore lists nothing.
        for found in self._hive.tables(self._place(namespace)):
            yield found.tableName, cataloged(found).kind

    def describe_table(self, identifier: Identifier) -> CatalogedTable:
        return cataloged(self._table(identifier))

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
        self._remove(identifier)

    def move_table(self, old: Identifier, new: Identifier) -> None:
        place, source = self._place_of_free(old, new), self._place(old[:-1])
        found = self._table(old)
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
            raise self._taken(new, error) from error

    def default_location(self, identifier: Identifier) -> str:
        place = self._place_of_new(identifier)
        found = self._database(identifier[:-1]).locationUri
        if self._root is not None:
            require_name(place.database)
            return below(self._catalog_root(place), f"{place.database}.db/{identifier[-1]}")
        if not found:
            raise InvalidInputError(
                f"nothing says where tables of {format_identifier(identifier[:-1])} lie: set `root` of the catalog, or "
                "give LOCATION"
            )
        return below(found, identifier[-1])

    def _catalog_root(self, place: HivePlace) -> str:
        root = self._root or ""
        return root if place.catalog is None else below(root, place.catalog)

    def _found(self, path: Identifier) -> Mapping[str, str] | None:
        try:
            return self.describe_namespace(path)
        except NotFoundError:
            return None
