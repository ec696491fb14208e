"""Parts of a schema: columns by dotted path, subtrees by field id.

A path is the names from the top-level field down, joined by dots; a name that contains dots is in backticks:

>>> parse_path("point.x")
('point', 'x')
>>> parse_path("`a.b`.c")
('a.b', 'c')
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.logical_type import is_list

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def parse_path(text: str) -> tuple[str, ...]:
    """The names of a dotted path.

    Raises:
        InvalidInputError: empty, or a part that is empty or badly quoted.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidInputError(f"{text!r} is not a column path; write name.name, with backticks around dots")
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        position = match.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise InvalidInputError(f"{text!r} is not a column path; write name.name, with backticks around dots")
        position += 1


def quoted(names: Sequence[str]) -> str:
    """The path of some names, with each in backticks.

    >>> parse_path(quoted(("a.b", "c`d")))
    ('a.b', 'c`d')
    """
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def dotted(names: Sequence[str]) -> str:
    """The path of some names as the reference library writes it: in backticks are names with a dot or a backtick.

    >>> dotted(("s", "a.b")), dotted(("s", "a b"))
    ('s.`a.b`', 's.a b')
    """
    return ".".join(quoted((name,)) if "." in name or "`" in name else name for name in names)


def written_path(fields: Sequence[Field]) -> str:
    """The path of the last of some fields, each of which is in the one before, without the entries of maps, which
    only files name.
    """
    named = [field for place, field in enumerate(fields) if place == 0 or fields[place - 1].logical_type != "map"]
    return dotted([field.name for field in named])


class FieldFinder:
    """Finds many fields of one schema; the names of siblings are indexed only once."""

    def __init__(self, schema: LanceSchema) -> None:
        self._tops = schema.fields
        self._names: dict[int, dict[str, Field]] = {}

    def find(self, path: Sequence[str], *, in_sql: bool = False) -> tuple[Field, ...]:
        """The fields along `path`, the top-level field first.

        Args:
            in_sql: whether names can be those of Spark too: `element` for the items of a list, `key` and `value` for
                the parts of a map.

        Raises:
            NotFoundError: there is no such field; the message suggests similar names.
        """
        path_fields: list[Field] = []
        siblings = self._tops
        for name in path:
            match = self._by_name(siblings).get(name)
            below = (match,) if match is not None else _part(path_fields[-1], name) if in_sql and path_fields else ()
            if not below:
                import difflib

                near = difflib.get_close_matches(name, [field.name for field in siblings], n=3)
                hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
                names = ", ".join(repr(field.name) for field in siblings[:20])
                raise NotFoundError(f"there is no column {dotted(path)!r}{hint} Known here: {names or 'no fields'}")
            path_fields += below
            siblings = path_fields[-1].children
        return tuple(path_fields)

    def find_in_lists(self, path: Sequence[str]) -> tuple[Field, ...]:
        """The fields along `path`, which need not name the items of lists: `l.x` is member x of the items of l.

        Raises:
            NotFoundError: there is no such field.
        """
        try:
            return self.find(path)
        except NotFoundError:
            path_fields: list[Field] = []
            for name in path:
                while path_fields and is_list(path_fields[-1].logical_type):
                    path_fields.append(path_fields[-1].children[0])
                match = self._by_name(path_fields[-1].children if path_fields else self._tops).get(name)
                if match is None:
                    raise
                path_fields.append(match)
            return tuple(path_fields)

    def names(self, column: str) -> Sequence[str]:
        """Parses a path. A top-level column whose name contains dots may be unquoted.

        Raises:
            InvalidInputError: the path cannot be parsed.
        """
        return (column,) if column in self._by_name(self._tops) else parse_path(column)

    def _by_name(self, siblings: tuple[Field, ...]) -> dict[str, Field]:
        # The cache key is the identity of the tuple of siblings, which the schema keeps alive.
        names = self._names.get(id(siblings))
        if names is None:
            # The first of two fields with the same name wins.
            names = self._names[id(siblings)] = {field.name: field for field in reversed(siblings)}
        return names


def _part(field: Field, name: str) -> tuple[Field, ...]:
    """The fields below a list or a map that Spark calls `name`; empty if none."""
    if is_list(field.logical_type) and name == "element":
        return field.children[:1]
    if field.logical_type == "map" and name in ("key", "value") and len(field.children) == 1:
        entries = field.children[0]
        return (entries, *entries.children[name == "value" :][:1])
    return ()


def find(schema: LanceSchema, path: Sequence[str]) -> tuple[Field, ...]:
    """The fields along one `path`; use `FieldFinder.find` for many."""
    return FieldFinder(schema).find(path)


def project(schema: LanceSchema, columns: Iterable[str | Sequence[str]]) -> LanceSchema:
    """The schema with only `columns`, top-level fields in the order in which they are first named.

    Several paths into one struct give one struct; its children keep the order of the schema. Duplicate columns are
    removed. Some fields are always complete: a packed struct, a blob, the keys of a map, and the values of a map
    without a path into them.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: a path that cannot be parsed.
    """
    ids_by_name: dict[str, set[int]] = {}
    finder = FieldFinder(schema)
    for column in columns:
        along = finder.find(finder.names(column) if isinstance(column, str) else column)
        ids = ids_by_name.setdefault(along[0].name, set())
        end = next((field for field in along if is_leaf(field)), along[-1])
        # The children of a blob descriptor have no ids of their own.
        ids.update(node.id for node in end.walk() if node.id >= 0)
    tops = {field.name: field for field in schema.fields}
    for name, ids in ids_by_name.items():
        _complete(tops[name], ids)
    pruned = [prune((tops[name],), ids) for name, ids in ids_by_name.items()]
    return LanceSchema(tuple(field for fields in pruned for field in fields), schema.metadata)


def _complete(field: Field, ids: set[int]) -> bool:
    """Adds to `ids` the fields below `field` that must be read along with them; False if `field` is not selected."""
    # No short-circuit: every child has to be completed.
    wanted_below = [_complete(child, ids) for child in field.children]
    is_selected = field.id in ids or any(wanted_below)
    if is_selected and is_leaf(field):
        ids.add(field.id)
    if is_selected and field.logical_type == "map" and len(field.children) == 1:
        for part in field.children[0].children[:1] + tuple(
            value for value in field.children[0].children[1:] if not _holds(value, ids)
        ):
            ids.update(node.id for node in part.walk())
    return is_selected


def _holds(field: Field, ids: Collection[int]) -> bool:
    return any(node.id in ids for node in field.walk())


def prune(fields: Iterable[Field], ids: Collection[int]) -> tuple[Field, ...]:
    """The subtrees that contain the fields with these ids; children of an inner field only if they are in `ids` too.

    An inner field without selected descendants is retained only if it is itself a leaf in this sense (an empty struct).
    """
    remaining = []
    for field in fields:
        if is_leaf(field):
            if field.id in ids:
                remaining.append(field)
            continue
        children = prune(field.children, ids)
        if children:
            remaining.append(field.with_children(children))
    return tuple(remaining)
