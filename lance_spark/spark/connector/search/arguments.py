"""The arguments of a search function, as the user wrote them, checked."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.nodes import quote_name
from lance_spark.expr.text.members import searchable
from lance_spark.schema.projection import parse_path

VERSION_ARGUMENTS = ("version", "branch", "tag", "timestamp")
"""Arguments of every search that choose the version of the table, under the names of the options of a read."""


@dataclass(frozen=True, slots=True)
class SearchCall:
    """A call of a search function; its arguments are JSON texts.

    Attributes:
        function: its name.
        positional: the arguments without names.
        named: those with names, in lower case.
    """

    function: str
    positional: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)


class Arguments:
    """The arguments of a call by name; each is taken once, with a check of its type.

    Args:
        call: the call.
        positional: the names of positional arguments.
        known: all names.

    Attributes:
        function: the name of the function.

    Raises:
        InvalidInputError: too many positional arguments, an unknown name, or an argument twice.
    """

    def __init__(self, call: SearchCall, positional: Sequence[str], known: Sequence[str]) -> None:
        self.function = call.function
        if len(call.positional) > len(positional):
            raise InvalidInputError(
                f"{call.function} takes {len(positional)} arguments without names: {', '.join(positional)}"
            )
        by_position = dict(zip(positional, call.positional, strict=False))
        for name in call.named:
            if name not in known:
                raise InvalidInputError(f"{call.function} has no argument {name!r}{_hint(name, known)}")
            if name in by_position:
                raise InvalidInputError(f"{call.function} has its argument {name} twice")
        self._values = {name: json.loads(text) for name, text in (by_position | dict(call.named)).items()}

    def required(self, name: str) -> Any:
        """The value of an argument that must be there.

        Raises:
            InvalidInputError: it is not, or it is NULL.
        """
        value = self._values.get(name)
        if value is None:
            if name in self._values:
                raise InvalidInputError(f"the argument {name} of {self.function} is NULL; give a value")
            raise InvalidInputError(f"{self.function} needs the argument {name}")
        return value

    def any_of(self, *names: str) -> Any:
        """The value of the first of several names that is there; None if none is."""
        return next((self._values[name] for name in names if self._values.get(name) is not None), None)

    def whole(self, *names: str) -> int | None:
        """A whole number.

        Raises:
            InvalidInputError: it is something else.
        """
        value = self.any_of(*names)
        if value is not None and type(value) is not int:
            raise self._wrong(names[0], "a whole number", value)
        return value

    def number(self, name: str) -> float | None:
        """A number. Raises as `whole`."""
        value = self.any_of(name)
        if value is not None and type(value) not in (int, float):
            raise self._wrong(name, "a number", value)
        return None if value is None else float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false. Raises as `whole`."""
        value = self.any_of(name)
        if value is None:
            return default
        if type(value) is not bool:
            raise self._wrong(name, "true or false", value)
        return value

    def text(self, name: str) -> str | None:
        """Text. Raises as `whole`."""
        value = self.any_of(name)
        if value is not None and type(value) is not str:
            raise self._wrong(name, "text", value)
        return value

    def names(self, name: str) -> list[str] | None:
        """An array of names; None if it is absent or ``array('*')``. Raises as `whole`."""
        value = self.any_of(name)
        if value is None or value == ["*"]:
            return None
        if type(value) is not list or not all(type(item) is str for item in value):
            raise self._wrong(name, "an array of names", value)
        return [*value]

    def columns(
        self, name: str, schema: pa.Schema, added: Sequence[str] = (), *, in_lists: bool = False
    ) -> list[str] | None:
        """Columns of a table from an array of names of any case, quoted and as the table spells them.

        None in the same cases as for `names`.

        Args:
            added: columns that the search adds to those of the table; they stay as they are.
            in_lists: as `spelt_column`.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: two columns differ by case alone, and the name is neither; also as `whole`.
        """
        given = self.names(name)
        return None if given is None else spelt_columns(given, schema, added, in_lists=in_lists)

    def _wrong(self, name: str, expected: str, value: object) -> InvalidInputError:
        return InvalidInputError(
            f"the argument {name} of {self.function} is {str(value)[:80]!r}; it must be {expected}"
        )


def spelt_columns(
    names: Sequence[str], schema: pa.Schema, added: Sequence[str] = (), *, in_lists: bool = False
) -> list[str]:
    """Names of columns in any case, as the table spells them and quoted. As `Arguments.columns`."""
    known = {name.lower(): name for name in added}
    return [known.get(name.lower()) or spelt_column(name, schema, in_lists=in_lists) for name in names]


def spelt_column(name: str, schema: pa.Schema, *, in_lists: bool = False) -> str:
    """One name. As `Arguments.columns`.

    Args:
        in_lists: whether it can be a member of structs in lists, whose items have no name in the path.
    """
    path = (name,) if name in schema.names else parse_path(name)
    return ".".join(map(quote_name, resolve_names(searchable(schema) if in_lists else schema, path)))


def column_tops(columns: Sequence[str] | None) -> dict[str, tuple[str, ...]] | None:
    """The columns of a result, in which structs have the fields that are named, with their paths; None for all."""
    return None if columns is None else {path[0]: path[:1] for path in map(parse_path, columns)}


def _hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
