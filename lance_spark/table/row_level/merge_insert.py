"""A merge that is described step by step, in the reference library's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr

if TYPE_CHECKING:
    from typing_extensions import Self

Result = TypeVar("Result")


class MergeInsert(Generic[Result]):
    """Builder of a `RowVerbs.merge`: each method returns this object, and `execute` runs the merge.

    Args:
        run: `RowVerbs.merge` with its keys; called with the rows and the actions.
    """

    def __init__(self, run: Callable[..., Result]) -> None:
        self._run = run
        self._actions: dict[str, str | None] = {
            "when_matched": None,
            "when_not_matched": None,
            "when_not_matched_by_source": None,
        }
        self._conditions: dict[str, str | Expr | None] = {}

    def when_matched_update_all(self, condition: str | Expr | None = None) -> Self:
        """Rows with a key of the source get its values, if a condition is true or missing.

        Args:
            condition: on columns of the table, ``target.x``, and of the source, ``source.x``.
        """
        self._conditions["matched_condition"] = condition
        return self._with("when_matched", "update")

    def when_matched_delete(self) -> Self:
        """Rows with a key of the source are deleted."""
        return self._with("when_matched", "delete")

    def when_not_matched_insert_all(self) -> Self:
        """Rows of the source whose key no row has are inserted."""
        return self._with("when_not_matched", "insert")

    def when_not_matched_by_source_delete(self, expr: str | Expr | None = None) -> Self:
        """Rows whose key the source does not have are deleted, if a condition on them is true or missing."""
        self._conditions["not_matched_by_source_condition"] = expr
        return self._with("when_not_matched_by_source", "delete")

    def execute(self, data_obj: Any, *, schema: pa.Schema | None = None) -> Result:
        """The table with the rows merged into it.

        Args:
            data_obj: the source, as `RowVerbs.merge` takes it.
            schema: the types of plain Python values, and for an iterable that may be empty.

        Raises:
            InvalidInputError: no action was chosen; and as `RowVerbs.merge`.
        """
        if not any(self._actions.values()):
            raise InvalidInputError(
                "nothing to do: call when_matched_update_all, when_not_matched_insert_all or another action first"
            )
        return self._run(data_obj, schema=schema, **self._actions, **self._conditions)

    def _with(self, clause: str, action: str) -> Self:
        self._actions[clause] = action
        if clause == "when_matched" and action == "delete":
            self._conditions.pop("matched_condition", None)
        return self
