"""Views in a Hive metastore, and what tables and views have in common there: both are its tables."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    StorageError,
)
from lance_spark.namespace.external.catalog import CREATION, CatalogedTable
from lance_spark.namespace.external.hive_client import RefusedError
from lance_spark.namespace.external.hive_metastore import HiveMetastore, HivePlace
from lance_spark.namespace.external.metastore_tables import table_format, user_properties
from lance_spark.namespace.external.metastore_views import (
    ascii_text,
    is_view_of_ours,
    joined_definition,
    other_parameters,
    shown_query,
    split_definition,
)
from lance_spark.namespace.external.view_columns import hive_columns
from lance_spark.namespace.external.views import ExternalViews
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.view_texts import view_query
from lance_spark.storage.server_errors import LostReplyError

DEFAULT_CATALOG = "hive"
"""The catalog of Hive 3 that a database without one is in, and the only one of Hive 2."""

_NAME = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_VALUE = 4000
"""Characters of a parameter in the schemas of MySQL, Oracle and Derby; Spark splits its schemas by the same number."""
_LONGEST_QUERY = 32_700
"""Bytes of a view's text in the schema of Derby; others keep more."""


class HiveViews(ExternalViews):
    """The views of a metastore.

    A view has a random value, another one after each change. Metastores from 2.3.10 on, and Hive 4, change it only if
    the value is the one that was looked at; in others two changes at the same moment may both succeed, and one stays.
    """

    levels = 1
    """The number of levels above a table."""

    _hive: HiveMetastore

    def look_up_view(self, identifier: Identifier) -> str | None:
        return joined_definition(self._view(identifier).parameters)

    def add_view(self, identifier: Identifier, definition: str) -> None:
        place = self._place_of_new(identifier)
        self._database(identifier[:-1])  # Of a missing one the metastore says that its name is invalid.
        mark = secrets.token_hex(16)
        parameters = {**split_definition(definition, _LONGEST_VALUE), CREATION: mark}
        query = _shown(definition)
        try:
            self._hive.add_view(place, identifier[-1], hive_columns(definition), query, parameters)
        except LostReplyError as error:
            table = self._looked_for(identifier, error)
            if table is None:
                raise
            if _value(table) != mark:
                raise AlreadyExistsError(f"{format_identifier(identifier)} exists in {self.description}") from error

    def change_view(self, identifier: Identifier, definition: str) -> None:
        table = self._view(identifier)
        table.parameters = {**other_parameters(table.parameters), **_kept_value(table)}
        table.parameters |= split_definition(definition, _LONGEST_VALUE)
        table.viewOriginalText = table.viewExpandedText = _shown(definition)
        table.sd.cols = self._hive.columns(hive_columns(definition))
        self._alter_view(identifier, table, lambda: self._table(identifier))

    def remove_view(self, identifier: Identifier) -> None:
        self._view(identifier)
        self._remove(identifier)

    def move_view(self, old: Identifier, new: Identifier) -> None:
        table = self._view(old)
        place = self._place_of_free(old, new)
        table.dbName, table.tableName = place.database, new[-1]
        try:
            self._alter_view(old, table, lambda: self._table(new))
        except RefusedError as error:
            raise self._taken(new, error) from error

    def _alter_view(self, identifier: Identifier, view: Any, look: Callable[[], Any]) -> None:
        """Changes a view from the state that was looked at; `look` returns it under its name afterwards."""
        before, mark = _value(view), secrets.token_hex(16)
        view.parameters[CREATION] = mark
        expected = (CREATION, before) if before else None
        try:
            self._hive.alter_table(self._place(identifier[:-1]), identifier[-1], view, repeats=False, expected=expected)
        except LostReplyError as error:
            try:
                now = look()
            except LanceError:
                raise error from None
            if _value(now) != mark:
                raise
        except StorageError as error:
            # It says so in words only.
            if _value(self._view(identifier)) != before:
                raise self.changed_view(identifier) from error
            raise

    def _view(self, identifier: Identifier) -> Any:
        if len(identifier) != self.levels + 1 or not identifier[-1]:
            raise self.missing_view(identifier, is_others=False)
        table = self._table(identifier)
        if not cataloged(table).is_view:
            raise self.missing_view(identifier, is_others=True)
        return table

    # What tables and views have in common.

    def _remove(self, identifier: Identifier) -> None:
        try:
            self._hive.drop_table(self._place(identifier[:-1]), identifier[-1])
        except LostReplyError as error:
            if self._looked_for(identifier, error) is not None:
                raise

    def _place_of_free(self, old: Identifier, new: Identifier) -> HivePlace:
        """The database of a new name for an object. Raises as `rename_table`."""
        place = self._place_of_new(new)
        if place.catalog != self._place(old[:-1]).catalog:
            raise InvalidInputError(f"{self.description} cannot move {format_identifier(old)} into another catalog")
        self._database(new[:-1])
        if self._exists(new):
            raise AlreadyExistsError(f"{format_identifier(new)} exists in {self.description}")
        return place

    def _taken(self, new: Identifier, error: RefusedError) -> LanceError:
        """The error of a refused rename."""
        if self._exists(new):
            return AlreadyExistsError(f"{format_identifier(new)} exists in {self.description}")
        return error

    def _place(self, path: Identifier) -> HivePlace:
        """The database of a namespace. Raises `NotFoundError` if it cannot be one's name."""
        if len(path) != self.levels or any(not name or name[0] in "@!" or "#" in name for name in path):
            raise NotFoundError(f"{self.description} has no database {format_identifier(path)}")
        catalog = path[0] if self.levels > 1 and path[0] != DEFAULT_CATALOG else None
        return HivePlace(path[-1], catalog)

    def _place_of_new(self, identifier: Identifier) -> HivePlace:
        if len(identifier) != self.levels + 1:
            raise InvalidInputError(f"{format_identifier(identifier)} of {self.description} is in no database")
        require_name(identifier[-1])
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


def require_name(name: str) -> None:
    """Raises `InvalidInputError` for a new name that Hive does not keep."""
    if _NAME.fullmatch(name) is None:
        raise InvalidInputError(f"Hive takes names of letters, digits and underscores of ASCII, not {name!r}")


def cataloged(table: Any) -> CatalogedTable:
    """A table or view of the metastore."""
    parameters, storage, kind = table.parameters or {}, table.sd, table.tableType or ""
    named = table_format(parameters, kind, (storage.inputFormat if storage else None) or "")
    is_view = storage is not None and is_view_of_ours(kind, parameters, table.viewOriginalText or "")
    location = (storage.location if storage else None) or ""
    return CatalogedTable(location, named, user_properties(parameters), is_view=is_view)


def _shown(definition: str) -> str:
    return shown_query(ascii_text(view_query(definition)), _LONGEST_QUERY)


def _value(table: Any) -> str:
    """The random value of a view."""
    return str((table.parameters or {}).get(CREATION) or "")


def _kept_value(table: Any) -> dict[str, str]:
    return {CREATION: value} if (value := _value(table)) else {}
