"""Views of ours in catalogs of other formats, which have views of their own.

A view lies where the catalog has its views, with our definition in a property, and the text of its query where other
tools look for it. A view that another tool has made, or has changed since, is another's: it is neither listed nor read
nor changed, because what it lacks (settings of SQL, names of columns) decides what it returns. Its name is taken.
"""

from __future__ import annotations

from abc import abstractmethod

from lance_spark.errors import AlreadyExistsError, CommitConflictError, InvalidInputError, NotFoundError
from lance_spark.namespace.external.catalog import ExternalCatalog, Kind
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.view_texts import (
    MAX_DEFINITION,
    no_view,
    readable_definition,
    require_size,
    view_identifier,
)


class ExternalViews(ExternalCatalog):
    """A catalog of other formats that keeps our views too.

    Attributes:
        largest_definition: the bytes that a definition may have.
    """

    keeps_views = True
    largest_definition = MAX_DEFINITION

    @abstractmethod
    def look_up_view(self, identifier: Identifier) -> str | None:
        """The definition of a view of ours; None if a part of it is missing.

        Raises:
            NotFoundError: there is none, or it is another's.
        """

    @abstractmethod
    def add_view(self, identifier: Identifier, definition: str) -> None:
        """Adds a view. Raises `AlreadyExistsError`, `NotFoundError`, `InvalidInputError` as `add_table`."""

    @abstractmethod
    def change_view(self, identifier: Identifier, definition: str) -> None:
        """Gives a view of ours another definition, unless somebody changes it between our look and our request.

        Raises:
            NotFoundError: there is none, or it is another's.
            CommitConflictError: somebody has changed it meanwhile.
        """

    @abstractmethod
    def move_view(self, old: Identifier, new: Identifier) -> None:
        """Renames a view of ours. Raises as `rename_view`."""

    # The protocol.

    def list_views(self, namespace: Identifier = ()) -> list[str]:
        return sorted(name for name, kind in self.child_tables(self._full(namespace)) if kind is Kind.VIEW)

    def view_exists(self, identifier: Identifier) -> bool:
        try:
            self.look_up_view(self._full(identifier))
        except NotFoundError:
            return False
        return True

    def view(self, identifier: Identifier) -> str:
        text = self.look_up_view(self._full(identifier))
        return readable_definition(identifier, text, f" of {self.description}")

    def create_view(self, identifier: Identifier, definition: str) -> None:
        """Adds a view.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the namespace does not exist.
            InvalidInputError: the definition is too large, or the name is not valid.
            UnsupportedFeatureError: the server has no views.
        """
        identifier = view_identifier(identifier)
        require_size(identifier, definition, self.largest_definition)
        self.add_view(self._full(identifier), definition)

    def replace_view(self, identifier: Identifier, definition: str) -> None:
        """Gives a view another definition.

        Raises:
            NotFoundError: there is no such view.
            CommitConflictError: somebody has changed it meanwhile.
            InvalidInputError: the definition is too large.
        """
        require_size(identifier, definition, self.largest_definition)
        self.change_view(self._full(identifier), definition)

    def drop_view(self, identifier: Identifier) -> None:
        self.remove_view(self._full(identifier))

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Renames a view, possibly into another namespace.

        Raises:
            NotFoundError: there is no such view, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
            InvalidInputError: the name is not valid.
        """
        old, new = self._full(old), self._full(view_identifier(new))
        if new == old:
            raise AlreadyExistsError(f"the view {format_identifier(new)} exists already")
        self.move_view(old, new)

    def missing_view(self, identifier: Identifier, *, is_others: bool) -> NotFoundError:
        """The error that there is no view of ours."""
        if not is_others:
            return no_view(identifier)
        return NotFoundError(
            f"{format_identifier(identifier)} of {self.description} is no view of Lance; use the tool that has made it"
        )

    def changed_view(self, identifier: Identifier) -> CommitConflictError:
        """The error that somebody was faster."""
        return CommitConflictError(
            f"another writer has changed the view {format_identifier(identifier)} of {self.description} meanwhile; run "
            "the statement again"
        )

    def require_place(self, identifier: Identifier, levels: int) -> None:
        """Raises `InvalidInputError` if a view of this name cannot be made because levels above it are missing."""
        if len(identifier) < levels:
            raise InvalidInputError(f"the view {format_identifier(identifier)} of {self.description} is in no database")
