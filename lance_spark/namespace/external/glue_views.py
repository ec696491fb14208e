"""Views in AWS Glue's Data Catalog, and what tables and views have in common there: both are its tables."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    StorageError,
)
from lance_spark.namespace.external.catalog import CREATION, CatalogedTable
from lance_spark.namespace.external.glue_client import ChangedMeanwhileError, GlueClient, parameters_of
from lance_spark.namespace.external.metastore_tables import table_format, user_properties
from lance_spark.namespace.external.metastore_views import (
    VIRTUAL_VIEW,
    is_view_of_ours,
    joined_definition,
    other_parameters,
    shown_query,
)
from lance_spark.namespace.external.view_columns import hive_columns
from lance_spark.namespace.external.views import ExternalViews
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.view_texts import VIEW_DEFINITION, view_query
from lance_spark.storage.server_errors import LostReplyError

_LONGEST_NAME = 255
_LONGEST_QUERY = 409_600
"""Bytes of `ViewOriginalText`."""


class GlueViews(ExternalViews):
    """The views of a Data Catalog.

    A view is changed if it is still the version that was looked at, which Glue compares.
    """

    largest_definition = 512_000
    """Bytes that Glue keeps of a parameter."""

    _glue: GlueClient

    def look_up_view(self, identifier: Identifier) -> str | None:
        return joined_definition(parameters_of(self._view(identifier)))

    def add_view(self, identifier: Identifier, definition: str) -> None:
        require_database(identifier)
        require_name(identifier[1])
        mark = secrets.token_hex(16)
        described = {"Name": identifier[1], "TableType": VIRTUAL_VIEW, "Parameters": {}}
        self.create(identifier, _with_definition(described, definition, mark), mark)

    def change_view(self, identifier: Identifier, definition: str) -> None:
        table, mark = self._view(identifier), secrets.token_hex(16)
        kept = self._glue.fields("UpdateTable", "TableInput")
        described = {name: value for name, value in table.items() if name in kept}
        version = {"VersionId": table["VersionId"]} if table.get("VersionId") else {}
        try:
            self._glue.change(
                "update_table",
                format_identifier(identifier),
                DatabaseName=identifier[0],
                TableInput=_with_definition(described, definition, mark),
                **version,
            )
        except LostReplyError as error:
            now = self.looked_for(identifier, error)
            if now is None or creation_of(now) != mark:
                raise
        except ChangedMeanwhileError as error:
            raise self.changed_view(identifier) from error

    def remove_view(self, identifier: Identifier) -> None:
        self._view(identifier)
        self.remove(identifier)

    def move_view(self, old: Identifier, new: Identifier) -> None:
        self.move(old, self._view(old), new)

    # What tables and views have in common.

    def create(self, identifier: Identifier, described: Mapping[str, Any], mark: str) -> None:
        """Adds a table or view, whose description has the random value `mark`. Raises as `add_table`."""
        try:
            self._glue.change(
                "create_table", format_identifier(identifier), DatabaseName=identifier[0], TableInput=described
            )
        except LostReplyError as error:
            table = self.looked_for(identifier, error)
            if table is None:
                raise
            if creation_of(table) != mark:
                raise AlreadyExistsError(f"{format_identifier(identifier)} exists in {self.description}") from error

    def remove(self, identifier: Identifier) -> None:
        """Removes a table or view. Raises `NotFoundError`."""
        require_levels(identifier, 2, self.description)
        about = format_identifier(identifier)
        try:
            self._glue.change("delete_table", about, DatabaseName=identifier[0], Name=identifier[1])
        except LostReplyError as error:
            if self.looked_for(identifier, error) is not None:
                raise

    def move(self, old: Identifier, table: Mapping[str, Any], new: Identifier) -> None:
        """Gives a table or view, as it was looked at, another name. Raises as `rename_table`."""
        require_database(new)
        require_name(new[1])
        kept, mark = self._glue.fields("CreateTable", "TableInput"), secrets.token_hex(16)
        described = {name: value for name, value in table.items() if name in kept}
        self.create(new, {**_marked(described, mark), "Name": new[1]}, mark)
        try:
            self.remove(old)
        except LostReplyError as error:
            # It may be removed later than we can look: a name too many harms less than none.
            raise self._twice(old, new, error) from error
        except LanceError as error:
            try:
                self.remove(new)
            except LanceError as failure:
                raise self._twice(old, new, failure) from error
            raise

    def looked_for(self, identifier: Identifier, lost: LostReplyError) -> Mapping[str, Any] | None:
        """A table or view after a change whose reply is lost; None if there is none. Raises `lost` if nobody knows."""
        try:
            return self.entry(identifier)
        except NotFoundError:
            return None
        except LanceError:
            raise lost from None

    def entry(self, identifier: Identifier) -> Mapping[str, Any]:
        """A table or view of any format. Raises `NotFoundError`."""
        require_levels(identifier, 2, self.description)
        about = format_identifier(identifier)
        reply = self._glue.ask("get_table", about, DatabaseName=identifier[0], Name=identifier[1])
        return self.described_object(reply.get("Table"), identifier)

    def described_object(self, table: Any, identifier: Identifier) -> Mapping[str, Any]:
        """The description in a reply. Raises `StorageError` if there is none."""
        if not isinstance(table, dict):
            raise StorageError(f"{self.description} does not describe {format_identifier(identifier)}: an empty reply")
        return table

    def _view(self, identifier: Identifier) -> Mapping[str, Any]:
        if len(identifier) != 2 or not all(identifier):
            raise self.missing_view(identifier, is_others=False)
        table = self.entry(identifier)
        if not cataloged(table).is_view:
            raise self.missing_view(identifier, is_others=True)
        return table

    def _twice(self, old: Identifier, new: Identifier, error: LanceError) -> StorageError:
        return StorageError(
            f"{format_identifier(old)} has the second name {format_identifier(new)} now, and may have kept the first: "
            f"{error}. DROP one of them without PURGE"
        )


def cataloged(table: Mapping[str, Any]) -> CatalogedTable:
    """A table or view of Glue."""
    storage, parameters = storage_of(table), parameters_of(table)
    kind = str(table.get("TableType") or "")
    is_view = is_view_of_ours(kind, parameters, str(table.get("ViewOriginalText") or ""))
    named = table_format(parameters, kind, str(storage.get("InputFormat") or ""))
    return CatalogedTable(str(storage.get("Location") or ""), named, user_properties(parameters), is_view=is_view)


def creation_of(table: Mapping[str, Any]) -> str:
    """The random value of the one who made or changed a table or view."""
    return str(storage_of(table, "SerdeInfo", "Parameters").get(CREATION) or "")


def storage_of(table: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The part at `path` of the storage of a table."""
    part: Mapping[str, Any] = table.get("StorageDescriptor") or {}
    for name in path:
        part = part.get(name) or {}
    return part


def require_name(name: str) -> None:
    """Raises `InvalidInputError` for a new name that Glue, or the path of a file, cannot have."""
    if len(name) > _LONGEST_NAME or "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidInputError(f"the name {name[:80]!r} has a slash, or more than {_LONGEST_NAME} characters")


def require_database(identifier: Identifier) -> None:
    """Raises `InvalidInputError` for the name of a new table or view that is in no database."""
    if len(identifier) != 2:
        raise InvalidInputError(f"a table of Glue is in a database; {format_identifier(identifier)} is not")


def require_levels(path: Identifier, levels: int, description: str) -> None:
    """Raises `NotFoundError` for a name that no database or table has."""
    if len(path) != levels or not all(path):
        raise NotFoundError(f"{description} has no {'database' if levels == 1 else 'table'} {format_identifier(path)}")


def _marked(described: Mapping[str, Any], mark: str) -> dict[str, Any]:
    storage = dict(described.get("StorageDescriptor") or {})
    serde = dict(storage.get("SerdeInfo") or {})
    serde["Parameters"] = {**(serde.get("Parameters") or {}), CREATION: mark}
    return {**described, "StorageDescriptor": {**storage, "SerdeInfo": serde}}


def _with_definition(described: Mapping[str, Any], definition: str, mark: str) -> dict[str, Any]:
    """The description of a view with another definition, marked by `mark`."""
    query = shown_query(view_query(definition), _LONGEST_QUERY)
    columns = [{"Name": name, "Type": kind, "Comment": comment} for name, kind, comment in hive_columns(definition)]
    storage = {**(described.get("StorageDescriptor") or {}), "Columns": columns}
    parameters = {**other_parameters(described.get("Parameters") or {}), VIEW_DEFINITION: definition}
    changed = {**described, "StorageDescriptor": storage, "Parameters": parameters}
    return {**_marked(changed, mark), "ViewOriginalText": query, "ViewExpandedText": query}
