"""Random tables of nested columns, statements that change them, and queries, the same for the same seed.

Each statement is two texts: one for the table, and a query that makes the rows it should leave from the rows before.
Nulls and empty lists stand at each level. No query fails for a row, or depends on an order that it does not ask for.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

POOLS: dict[str, Sequence[object]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 0, 5],
    "SMALLINT": [-(2**15), 0, 5],
    "INT": [-(2**31), 0, 1, 5],
    "BIGINT": [-(2**63), 2**53 + 1, 0, 5],
    "FLOAT": [float("nan"), 1.5, float("inf"), 0.0],
    "DOUBLE": [float("nan"), 1.5, float("-inf"), 0.1],
    "DECIMAL(9,2)": [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99")],
    "DECIMAL(38,10)": [Decimal("0E-10"), Decimal("9999999999999999999999999999.9999999999")],
    "STRING": ["", "a", "A", "ab%", "é", "long " * 20],
    "BINARY": [b"", b"\x00", b"abc"],
    "DATE": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "TIMESTAMP": [datetime(1900, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2023, 11, 5, 5, 30)],
    "TIMESTAMP_NTZ": [datetime(1, 1, 1), datetime(2023, 11, 5, 5, 30)],
    "INTERVAL DAY TO SECOND": [timedelta(0), timedelta(days=-1, microseconds=1)],
}
_KEYS = ("INT", "STRING", "DATE", "DECIMAL(9,2)", "BINARY")
_NAMES = ("a", "b", "c", "d", "e")


@dataclass(frozen=True)
class Leaf:
    """A type without parts."""

    sql: str


@dataclass(frozen=True)
class Struct:
    """A struct with its members by name."""

    members: tuple[tuple[str, Type], ...]

    @property
    def sql(self) -> str:
        """The type in SQL."""
        return f"STRUCT<{', '.join(f'{name}: {of.sql}' for name, of in self.members)}>"


@dataclass(frozen=True)
class Items:
    """An array."""

    of: Type

    @property
    def sql(self) -> str:
        """The type in SQL."""
        return f"ARRAY<{self.of.sql}>"


@dataclass(frozen=True)
class Pairs:
    """A map."""

    key: Leaf
    value: Type

    @property
    def sql(self) -> str:
        """The type in SQL."""
        return f"MAP<{self.key.sql}, {self.value.sql}>"


Type = Leaf | Struct | Items | Pairs
Expression = tuple[str, Type]


def random_type(draw: random.Random, depth: int) -> Type:
    """A type of at most `depth` levels above its leaves."""
    kind = draw.choice(["struct", "struct", "items", "pairs", "leaf"]) if depth else "leaf"
    if kind == "struct":
        count = draw.randrange(1, 4)
        return Struct(tuple((name, random_type(draw, depth - 1)) for name in _NAMES[:count]))
    if kind == "items":
        return Items(random_type(draw, depth - 1))
    if kind == "pairs":
        return Pairs(Leaf(draw.choice(_KEYS)), random_type(draw, depth - 1))
    return Leaf(draw.choice(list(POOLS)))


def random_columns(draw: random.Random) -> Struct:
    """`id`, `k`, a struct in a struct, an array of structs, and random columns, which may be of any kind."""
    leaf = [Leaf(draw.choice(list(POOLS))) for _ in range(3)]
    inner = Struct((("c", leaf[0]), ("d", Leaf("STRING"))))
    return Struct(
        (
            ("id", Leaf("BIGINT")),
            ("k", Leaf("INT")),
            ("st", Struct((("a", Leaf("INT")), ("b", inner), ("e", Items(leaf[1]))))),
            ("ls", Items(Struct((("a", leaf[2]), ("b", Leaf("INT")))))),
            *((f"r{number}", random_type(draw, 3)) for number in range(2)),
        )
    )


def random_value(draw: random.Random, of: Type, nulls: float = 0.2) -> object:
    """A value as Spark takes it from Python; members of structs by name."""
    if draw.random() < nulls:
        return None
    if isinstance(of, Leaf):
        return draw.choice(POOLS[of.sql])
    if isinstance(of, Struct):
        return {name: random_value(draw, member) for name, member in of.members}
    count = draw.choice([0, 0, 1, 2, 3])
    if isinstance(of, Items):
        return [random_value(draw, of.of) for _ in range(count)]
    keys = draw.sample(POOLS[of.key.sql], min(count, len(POOLS[of.key.sql])))
    return {key: random_value(draw, of.value) for key in keys}


def random_rows(draw: random.Random, columns: Struct, ids: range) -> list[dict[str, object]]:
    """Rows with these ids; `k` is below 4."""
    return [
        {name: random_value(draw, of) for name, of in columns.members} | {"id": number, "k": draw.randrange(4)}
        for number in ids
    ]


def plain(of: Type, value: object) -> object:
    """A value that Spark returned, as `random_value` makes it; members that it does not have are null."""
    if value is None or isinstance(of, Leaf):
        return bytes(value) if isinstance(value, bytearray) else value
    if isinstance(of, Struct):
        found = value if isinstance(value, dict) else value.asDict()  # type: ignore[attr-defined]
        return {name: plain(member, found.get(name)) for name, member in of.members}
    if isinstance(of, Items):
        return [plain(of.of, item) for item in value]  # type: ignore[attr-defined]
    return {plain(of.key, key): plain(of.value, item) for key, item in value.items()}  # type: ignore[attr-defined]


def constant(of: Type, value: object) -> str:
    """A value in SQL, of exactly this type."""
    if value is None:
        return f"CAST(NULL AS {of.sql})"
    if isinstance(of, Struct):
        parts = ", ".join(f"'{name}', {constant(member, value[name])}" for name, member in of.members)  # type: ignore[index]
        return f"named_struct({parts})"
    if isinstance(of, Items):
        return f"CAST(array({', '.join(constant(of.of, item) for item in value)}) AS {of.sql})"  # type: ignore[attr-defined]
    if isinstance(of, Pairs):
        pairs = (f"{constant(of.key, key)}, {constant(of.value, item)}" for key, item in value.items())  # type: ignore[attr-defined]
        return f"CAST(map({', '.join(pairs)}) AS {of.sql})"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, timedelta):
        return f"(INTERVAL '1' SECOND * {value.total_seconds()}BD)"
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value).replace("inf", "Infinity")
    return f"CAST('{text}' AS {of.sql})"


class NestedTable:
    """A table's columns as they are now, and random texts over them; columns are behind the prefix `t.`."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.columns = random_columns(draw)
        self._fresh = 0

    def _one(self, *choices: str) -> str:
        return self._draw.choice(choices)

    def _value(self, of: Type, nulls: float = 0.0) -> str:
        return constant(of, random_value(self._draw, of, nulls))

    def _variable(self) -> str:
        self._fresh += 1
        return f"x{self._fresh}"

    def _step(self, text: str, of: Type) -> Expression:
        """A part of the value of an expression."""
        if isinstance(of, Struct):
            name, member = self._draw.choice(of.members)
            return f"{text}.{name}", member
        if isinstance(of, Items):
            if isinstance(of.of, Struct) and self._draw.random() < 0.4:
                name, member = self._draw.choice(of.of.members)
                return f"{text}.{name}", Items(member)
            index = self._draw.randrange(3)
            return self._one(f"get({text}, {index})", f"try_element_at({text}, {index + 1})"), of.of
        if isinstance(of, Pairs):
            key = self._value(of.key)
            found = [(f"{text}[{key}]", of.value), (f"try_element_at({text}, {key})", of.value)]
            # The order of the pairs is not kept by Python, which makes the rows that are expected.
            found.append((f"array_sort(map_keys({text}))", Items(of.key)))
            if not has_map(of.value):
                found.append((f"array_sort(map_values({text}))", Items(of.value)))
            return self._draw.choice(found)
        return text, of

    def expression(self, of: str = "t.") -> Expression:
        """A column or a part of one."""
        name, found = self._draw.choice(self.columns.members)
        text = of + name
        for _ in range(self._draw.randrange(4)):
            text, found = self._step(text, found)
        return text, found

    def _leaf(self, of: str) -> Expression:
        """A column or a part of one without parts of its own."""
        while True:
            text, found = self.expression(of)
            if isinstance(found, Leaf):
                return text, found

    def _about(self, text: str, of: Type, depth: int) -> str:
        """A condition on the value of an expression."""
        if self._draw.random() < 0.2:
            return f"{text} IS {self._one('', 'NOT ')}NULL"
        if isinstance(of, Struct):
            if self._draw.random() < 0.2 and not has_map(of):
                return f"{text} {self._one('=', '<=>', '<>')} {self._value(of)}"
            return self._about(*self._step(text, of), depth)
        if isinstance(of, Leaf):
            return self._draw.choice(
                [
                    f"{text} {self._one('=', '<>', '<=>', '<', '<=', '>', '>=')} {self._value(of)}",
                    f"{text} {self._one('', 'NOT ')}IN ({self._value(of)}, {self._value(of, 0.3)})",
                    f"{text} BETWEEN {self._value(of)} AND {self._value(of)}",
                ]
            )
        if isinstance(of, Pairs):
            if self._draw.random() < 0.4:
                return f"map_contains_key({text}, {self._value(of.key)})"
            return self._about(*self._step(text, of), depth)
        if depth and self._draw.random() < 0.5:
            name = self._variable()
            return f"{self._one('exists', 'forall')}({text}, {name} -> {self._about(name, of.of, depth - 1)})"
        if isinstance(of.of, Leaf):
            return self._draw.choice(
                [
                    f"array_contains({text}, {self._value(of.of)})",
                    f"arrays_overlap({text}, array({self._value(of.of)}, {self._value(of.of, 0.3)}))",
                    f"{text} {self._one('=', '<=>')} {self._value(of)}",
                ]
            )
        return f"size({text}) {self._one('=', '<', '>')} {self._draw.randrange(3)}"

    def condition(self, of: str = "t.", depth: int = 1) -> str:
        """A condition over the columns; it fails for no row."""
        if depth and self._draw.random() < 0.6:
            both = f" {self._one('AND', 'OR')} ".join(self.condition(of, depth - 1) for _ in range(2))
            return f"({both})" if self._draw.random() < 0.75 else f"NOT ({both})"
        if self._draw.random() < 0.15:
            return f"{of}id % 7 {self._one('=', '<', '>')} {self._draw.randrange(7)}"
        return self._about(*self.expression(of), depth=2)

    def _path(self) -> tuple[list[str], Type]:
        """A column or a member of structs that can be set."""
        name, found = self._draw.choice(self.columns.members[2:])
        path = [name]
        while isinstance(found, Struct) and self._draw.random() < 0.8:
            name, found = self._draw.choice(found.members)
            path.append(name)
        return path, found

    def _with(self, changes: dict[str, str]) -> str:
        """The columns with parts set to other values, in the order of the table."""

        def made(text: str, of: Type, path: str) -> str:
            if path in changes:
                return changes[path]
            if isinstance(of, Struct) and any(each.startswith(f"{path}.") for each in changes):
                parts = (f"'{name}', {made(f'{text}.{name}', member, f'{path}.{name}')}" for name, member in of.members)
                return f"named_struct({', '.join(parts)})"
            return text

        return ", ".join(f"{made(f't.{name}', of, name)} AS {name}" for name, of in self.columns.members)

    def names(self, of: str) -> str:
        """All columns behind a prefix."""
        return ", ".join(of + name for name, _ in self.columns.members)

    def delete(self) -> tuple[str, str]:
        """DELETE of some rows."""
        where = self.condition()
        return f"DELETE FROM {{table}} t WHERE {where}", f"SELECT * FROM before t WHERE NOT coalesce({where}, false)"

    def _assignments(self) -> dict[str, str]:
        path, of = self._path()
        changes = {".".join(path): self._value(of, 0.3)}
        other, kind = self._path()
        separate = all(one != two for one, two in zip(path, other, strict=False))
        if separate:
            same = [text for text, each in self.paths("t.") if each == kind]
            changes[".".join(other)] = self._draw.choice(same)
        return changes

    def paths(self, of: str) -> Iterator[Expression]:
        """All columns and members of structs."""

        def below(text: str, found: Type) -> Iterator[Expression]:
            yield text, found
            if isinstance(found, Struct):
                for name, member in found.members:
                    yield from below(f"{text}.{name}", member)

        for name, found in self.columns.members:
            yield from below(of + name, found)

    def update(self) -> tuple[str, str]:
        """UPDATE of members and columns."""
        where, changes = self.condition(), self._assignments()
        assigned = ", ".join(f"t.{path} = {value}" for path, value in changes.items())
        return (
            f"UPDATE {{table}} t SET {assigned} WHERE {where}",
            f"SELECT {self._with(changes)} FROM before t WHERE coalesce({where}, false) "
            f"UNION ALL SELECT * FROM before t WHERE NOT coalesce({where}, false)",
        )

    def merge(self) -> tuple[str, str]:
        """MERGE with the rows of the view `source`."""
        changed, inserted, alone = self.condition(), self.condition("s."), self.condition()
        path = ".".join(self._path()[0])
        matched = {path: f"s.{path}"}
        lone = self._assignments()
        text = (
            f"MERGE INTO {{table}} t USING source s ON t.id = s.id "
            f"WHEN MATCHED AND {changed} THEN UPDATE SET t.{path} = s.{path} WHEN MATCHED AND s.k < 2 THEN DELETE "
            f"WHEN NOT MATCHED AND {inserted} THEN INSERT * WHEN NOT MATCHED BY SOURCE AND {alone} "
            f"THEN UPDATE SET {', '.join(f't.{path} = {value}' for path, value in lone.items())}"
        )
        both, mine = (
            "FROM before t JOIN source s ON t.id = s.id",
            "FROM before t LEFT ANTI JOIN source s ON t.id = s.id",
        )
        return text, " UNION ALL ".join(
            [
                f"SELECT {self._with(matched)} {both} WHERE coalesce({changed}, false)",
                f"SELECT {self.names('t.')} {both} WHERE NOT coalesce({changed}, false) AND s.k >= 2",
                f"SELECT {self.names('s.')} FROM source s LEFT ANTI JOIN before t ON t.id = s.id "
                f"WHERE coalesce({inserted}, false)",
                f"SELECT {self._with(lone)} {mine} WHERE coalesce({alone}, false)",
                f"SELECT {self.names('t.')} {mine} WHERE NOT coalesce({alone}, false)",
            ]
        )

    def insert(self) -> tuple[str, str]:
        """INSERT of rows that a query makes of those of `source`."""
        moved = self._with({"id": "t.id + (SELECT coalesce(max(id), 0) + 1 FROM {rows})"})
        query = f"SELECT {moved} FROM source t WHERE {self.condition()}"
        return f"INSERT INTO {{table}} {query}", f"SELECT * FROM before UNION ALL {query}"

    def structs(self) -> list[tuple[str, ...]]:
        """The paths of all structs, also those of items and values of maps, as ALTER TABLE names them."""

        def below(path: tuple[str, ...], of: Type) -> Iterator[tuple[str, ...]]:
            if isinstance(of, Struct):
                yield path
                for name, member in of.members:
                    yield from below((*path, name), member)
            elif isinstance(of, Items):
                yield from below((*path, "element"), of.of)
            elif isinstance(of, Pairs):
                yield from below((*path, "value"), of.value)

        return [path for path in below((), self.columns) if path]

    def alter(self) -> tuple[str, Callable[[object], object]]:
        """ALTER TABLE of a member, and what becomes of a row."""
        path = self._draw.choice(self.structs())
        at = ".".join(path)
        of = found(self.columns, path)
        assert isinstance(of, Struct)
        self._fresh += 1
        new, kind = f"n{self._fresh}", self._draw.choice(["add", "drop", "rename"])
        before = self.columns
        old = self._draw.choice(of.members)[0]
        if kind == "drop" and len(of.members) > 1:
            members = tuple(member for member in of.members if member[0] != old)
            text, renames = f"DROP COLUMN {at}.{old}", {}
        elif kind == "rename":
            members = tuple((new if name == old else name, member) for name, member in of.members)
            text, renames = f"RENAME COLUMN {at}.{old} TO {new}", {old: new}
        else:
            added = random_type(self._draw, 1)
            members, text, renames = (*of.members, (new, added)), f"ADD COLUMN {at}.{new} {added.sql}", {}
        self.columns = replaced(self.columns, path, Struct(members))  # type: ignore[assignment]
        after = self.columns
        return f"ALTER TABLE {{table}} {text}", lambda row: plain(after, renamed(plain(before, row), path, renames))

    def rows(self) -> str:
        """A filter and some parts of columns."""
        parts = [self.expression() for _ in range(self._draw.randrange(1, 4))]
        texts = [text for text, _ in parts]
        text, of = self._draw.choice(parts)
        if isinstance(of, Items):
            name = self._variable()
            texts.append(f"{self._one('transform', 'filter')}({text}, {name} -> {self._about(name, of.of, 1)})")
            texts.append(f"size({text})")
        return f"SELECT t.id, {', '.join(texts)} FROM {{rows}} t WHERE {self.condition()}"

    def everything(self) -> str:
        """All columns of some rows."""
        return f"SELECT * FROM {{rows}} t WHERE {self.condition()}"

    def unnested(self) -> str:
        """Items or pairs as rows."""
        while True:
            text, of = self.expression()
            if isinstance(of, Items | Pairs):
                break
        call, names = ("explode", "x, y") if isinstance(of, Pairs) else ("posexplode", "p, x")
        return (
            f"SELECT t.id, u.* FROM {{rows}} t LATERAL VIEW {self._one('', 'OUTER ')}{call}({text}) u AS {names} "
            f"WHERE {self.condition()}"
        )

    def groups(self) -> str:
        """Aggregates by a part of a column."""
        (key, _), (some, _), (least, _) = self._leaf("t."), self.expression(), self._leaf("t.")
        where = f"WHERE {self.condition()}" if self._draw.random() < 0.5 else ""
        by = f"GROUP BY {key}" if self._draw.random() < 0.7 else ""
        key = key if by else "1"
        return (
            f"SELECT {key}, count(*), count({some}), min({least}), max({least}), sum(t.id) FROM {{rows}} t {where} {by}"
        )

    def joins(self) -> str:
        """A join by parts of columns."""
        key, of = self._leaf("t.")
        other = self._draw.choice([text for text, each in self.paths("o.") if each == of] or [of_other(key)])
        where = f"{self.condition()} AND {self.condition('o.')}"
        kind = self._one("JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FULL JOIN")
        ids = "t.id" if "SEMI" in kind or "ANTI" in kind else "t.id, o.id"
        return f"SELECT {ids} FROM {{rows}} t {kind} {{rows}} o ON {key} = {other} AND {where}"

    def ordered(self) -> str:
        """The first rows by a part of a column."""
        (key, _), (some, _) = self._leaf("t."), self.expression()
        where = f"WHERE {self.condition()}" if self._draw.random() < 0.5 else ""
        order = f"{key} {self._one('', 'DESC', 'NULLS LAST')}"
        return f"SELECT t.id, {some} FROM {{rows}} t {where} ORDER BY {order}, t.id LIMIT {self._draw.randrange(1, 30)}"

    def subqueries(self) -> str:
        """A subquery over the same table."""
        (key, _), inner = self._leaf("t."), self.condition("o.")
        return f"SELECT t.id FROM {{rows}} t WHERE {key} IN (SELECT {of_other(key)} FROM {{rows}} o WHERE {inner})"


def of_other(text: str) -> str:
    """An expression over `t` as one over `o`."""
    return re.sub(r"\bt\.", "o.", text)


def has_map(of: Type) -> bool:
    """Whether values of the type cannot be compared."""
    if isinstance(of, Struct):
        return any(has_map(member) for _, member in of.members)
    return isinstance(of, Pairs) or (isinstance(of, Items) and has_map(of.of))


def found(of: Type, path: Sequence[str]) -> Type:
    """The type at a path as ALTER TABLE names it."""
    for name in path:
        of = dict(of.members)[name] if isinstance(of, Struct) else of.of if isinstance(of, Items) else of.value  # type: ignore[union-attr]
    return of


def replaced(of: Type, path: Sequence[str], new: Type) -> Type:
    """The type with another one at a path."""
    if not path:
        return new
    first, *rest = path
    if isinstance(of, Struct):
        return Struct(tuple((n, replaced(m, rest, new) if n == first else m) for n, m in of.members))
    if isinstance(of, Items):
        return Items(replaced(of.of, rest, new))
    assert isinstance(of, Pairs)
    return Pairs(of.key, replaced(of.value, rest, new))


def renamed(value: object, path: Sequence[str], renames: dict[str, str]) -> object:
    """A value in which members of the struct at a path have other names."""
    if value is None:
        return None
    if not path:
        return {renames.get(name, name): item for name, item in value.items()}  # type: ignore[attr-defined]
    first, *rest = path
    if isinstance(value, list):
        return [renamed(item, rest, renames) for item in value]
    assert isinstance(value, dict)
    if first == "value" and first not in value:
        return {key: renamed(item, rest, renames) for key, item in value.items()}
    return value | {first: renamed(value[first], rest, renames)}
