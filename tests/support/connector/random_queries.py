"""Random rows, and random queries over them, the same for the same seed.

Values are few and many of them odd (nulls, NaN, -0.0, bounds of types, empty texts), so that keys meet. No query
depends on an order that it does not ask for: sums are of exact numbers that do not overflow, limits are over unique
orders.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa

NAN = float("nan")

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "k": pa.int32(),
        "tiny": pa.int8(),
        "big": pa.int64(),
        "x": pa.float64(),
        "f": pa.float32(),
        "price": pa.decimal128(9, 2),
        "wide": pa.decimal128(30, 6),
        "s": pa.string(),
        "day": pa.date32(),
        "moment": pa.timestamp("us", "UTC"),
        "flag": pa.bool_(),
        "part": pa.struct({"k": pa.int32(), "s": pa.string()}),
        "late": pa.int32(),
    }.items()
)

_POOLS: dict[str, Sequence[object]] = {
    "tiny": [-128, 127, 0, 1, 5],
    "big": [-(2**63) + 1, 2**53, 2**53 + 1, 0, 1, 5],
    "x": [NAN, 0.0, -0.0, float("inf"), float("-inf"), 1.5, 0.1, 5.0],
    "f": [NAN, 0.0, -0.0, float("inf"), 1.5, 0.10000000149011612],
    "price": [Decimal("0.00"), Decimal("9999999.99"), Decimal("-0.01"), Decimal("1.50"), Decimal("5.00")],
    "wide": [Decimal("0.000000"), Decimal("99999999999999999999999.999999"), Decimal("1.500000"), Decimal("0.000001")],
    "s": ["", "a", "A", "a ", "a%b", "a_b", "axb", "\\", "é", "e\u0301", "\U0001f600", "a\nb", "z'q", "5"],
    "day": [date(1, 1, 1), date(1969, 12, 31), date(2020, 2, 29), date(2023, 3, 12), date(9999, 12, 31)],
    "moment": [
        datetime(1900, 1, 1, tzinfo=timezone.utc),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
        datetime(2023, 3, 12, 7, tzinfo=timezone.utc),
        datetime(2023, 11, 5, 5, 30, tzinfo=timezone.utc),
    ],
    "flag": [True, False],
    "part": [{"k": None, "s": "a"}, {"k": 5, "s": None}, {"k": 0, "s": ""}],
    "late": [0, 1, 5],
}
_NUMBERS = ("k", "tiny", "big", "x", "f", "price", "wide", "late")
_COMPARABLE = (*_NUMBERS, "s", "day", "moment", "flag")
_SUMMED = ("k", "tiny", "price", "wide", "late")
_KEYS = ("id", "s", "day", "moment", "price", "wide", "big", "x", "f", "late")
_CASTS = {"x": "DOUBLE", "f": "FLOAT"}


def random_rows(draw: random.Random, count: int, keys: int) -> list[dict[str, object]]:
    """Rows with the ids from 0 on; a fifth of all other values is null."""
    rows: list[dict[str, object]] = []
    for number in range(count):
        row: dict[str, object] = {name: draw.choice([*pool, None]) for name, pool in _POOLS.items()}
        rows.append({"id": number, "k": None if draw.random() < 0.1 else draw.randrange(keys), **row})
    return rows


def constant(value: object, name: str) -> str:
    """A value of the column `name` in SQL."""
    if value is None:
        return "NULL"
    if name in _CASTS:
        return f"CAST('{'NaN' if value != value else str(value).replace('inf', 'Infinity')}' AS {_CASTS[name]})"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"'{escaped}'"
    if isinstance(value, datetime):
        return f"TIMESTAMP'{value:%Y-%m-%d %H:%M:%S.%f} UTC'"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    return f"{value}BD" if isinstance(value, Decimal) else str(value)


class RandomQueries:
    """Queries over the tables {small}, {middle} and {large}, which stand there by these names in braces."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def _one(self, *choices: str) -> str:
        return self._draw.choice(choices)

    def _table(self) -> str:
        return self._one("{small}", "{middle}", "{middle}", "{large}")

    def _constant(self, name: str) -> str:
        if name in ("k", "id"):
            return str(self._draw.randrange(-1, 40))
        return constant(self._draw.choice(_POOLS[name]), name)

    def _comparison(self, of: str) -> str:
        op = self._one("=", "<>", "<", "<=", ">", ">=", "<=>")
        name = self._one(*_COMPARABLE)
        other = self._one(*_NUMBERS) if name in _NUMBERS and self._draw.random() < 0.4 else name
        sides = [of + name, self._constant(other)]
        if self._draw.random() < 0.2:
            sides[1] = of + self._one("k", "late", "tiny") if name in _NUMBERS else of + name
        return f" {op} ".join(sides if self._draw.random() < 0.8 else sides[::-1])

    def _list(self, of: str) -> str:
        name = self._one(*_COMPARABLE)
        options = [
            self._constant(name) if self._draw.random() < 0.9 else "NULL" for _ in range(self._draw.choice([1, 3, 12]))
        ]
        return f"{of}{name} {self._one('', 'NOT ')}IN ({', '.join(options)})"

    def _match(self, of: str) -> str:
        pattern = self._one("a%", "%a", "%b%", "a_b", "a|_b", "a|%b", "%||%", "", "%", "_")
        return f"{of}s {self._one('', 'NOT ')}LIKE '{pattern}' ESCAPE '|'"

    def _odd(self, of: str) -> str:
        name = self._one(*_COMPARABLE)
        return self._one(
            f"{of}{name} IS {self._one('', 'NOT ')}NULL",
            f"{of}{name} BETWEEN {self._constant(name)} AND {self._constant(name)}",
            f"{of}part.k {self._one('=', '<', '<=>')} {self._constant('k')}",
            f"{of}part.s LIKE 'a%'",
            f"{of}part IS NULL",
            f"isnan({of}x)",
            f"{of}flag",
            f"{of}flag IS NOT TRUE",
            f"contains({of}s, {self._constant('s')})",
            f"coalesce({of}k, 5) = 5",
            f"{of}k + 1 > {of}late",
            f"try_divide(10, {of}k) > 2",
            f"TRY_CAST({of}s AS INT) = 5",
            f"CAST({of}day AS STRING) > '2020'",
            f"date_trunc('HOUR', {of}moment) = {self._constant('moment')}",
            "CAST(NULL AS BOOLEAN)",
        )

    def condition(self, depth: int, of: str = "") -> str:
        """A condition over columns with `of` before their names; it fails for no row."""
        if depth and self._draw.random() < 0.7:
            both = f" {self._one('AND', 'OR')} ".join(self.condition(depth - 1, of) for _ in range(2))
            return f"({both})" if self._draw.random() < 0.75 else f"NOT ({both})"
        leaf: Callable[[str], str] = self._draw.choice([self._comparison, self._list, self._match, self._odd])
        return leaf(of)

    def _where(self, depth: int = 1) -> str:
        return f"WHERE {self.condition(depth)}" if self._draw.random() < 0.7 else ""

    def rows(self) -> str:
        """A filter, with some of the columns."""
        columns = ", ".join(self._draw.sample(SCHEMA.names, 3))
        return f"SELECT {columns}, id FROM {self._one('{small}', '{middle}')} WHERE {self.condition(3)}"

    def first_rows(self) -> str:
        """ORDER BY with LIMIT."""
        keys = [
            f"{name} {self._one('ASC', 'DESC')} NULLS {self._one('FIRST', 'LAST')}"
            for name in self._draw.sample([*_COMPARABLE, "part.k"], self._draw.choice([1, 2]))
        ]
        limit = f"LIMIT {self._one('0', '1', '30', '5000')} {self._one('', '', 'OFFSET 7')}"
        return f"SELECT id, s, price FROM {self._table()} {self._where()} ORDER BY {', '.join(keys)}, id {limit}"

    def _aggregate(self) -> str:
        name = self._one(*_COMPARABLE)
        return self._one(
            f"sum({self._one(*_SUMMED)})",
            f"avg({self._one('price', 'k', 'tiny', 'late', 'wide')})",
            f"{self._one('min', 'max')}({name})",
            f"count({name})",
            "count(*)",
            f"count(DISTINCT {name})",
            f"sum(price * ({self._one('1', '2.5', 'price')} - {self._one('price', 'k', '0.5')}))",
            f"sum(price) FILTER (WHERE {self.condition(0)})",
            "try_sum(price)",
            "try_avg(wide)",
        )

    def groups(self) -> str:
        """Aggregates, with or without GROUP BY."""
        values = [self._aggregate() for _ in range(self._draw.choice([1, 2, 3]))]
        keys = self._draw.sample([*_COMPARABLE, "part.k", "k % 3", "upper(s)"], self._draw.choice([0, 1, 1, 2]))
        by = f"GROUP BY {', '.join(keys)}" if keys else ""
        if keys and self._draw.random() < 0.15:
            by = f"GROUP BY {self._one('ROLLUP', 'CUBE')} ({', '.join(keys)})"
        having = f"HAVING {self._aggregate()} IS NOT NULL" if self._draw.random() < 0.15 else ""
        return f"SELECT {', '.join([*keys, *values])} FROM {self._table()} {self._where()} {by} {having}"

    def _plain(self, of: str = "") -> str:
        """A condition that a scan takes whole, on one side of a join."""
        values = ("tiny = 5", "s IN ('a', 'A')", "k < 9", "id < 30", "late IS NULL", "k IS NULL", "flag", "id < 0")
        return of + self._one(*values, "k IN (1, 7, NULL)", "part.k = 5")

    def _filtered(self, name: str) -> str:
        table = self._one("{small}", "{middle}")
        return self._one(
            f"(SELECT * FROM {table} WHERE {self._plain()}) {name}",
            f"(SELECT * FROM {table} WHERE {self._plain()}) {name}",
            f"(SELECT * FROM {table} WHERE {self._plain()} AND {self.condition(1)}) {name}",
            f"(SELECT * FROM {table} ORDER BY id LIMIT 40) {name}",
            f"(SELECT * FROM {table} WHERE {self._plain()} UNION ALL SELECT * FROM {{small}}) {name}",
        )

    def _whole(self, name: str) -> str:
        return self._one(
            f"{{large}} {name}",
            f"{{middle}} {name}",
            f"(SELECT * FROM {{large}} WHERE {self.condition(1)}) {name}",
            f"(SELECT * FROM {{large}} UNION ALL SELECT * FROM {{middle}} WHERE {self._plain()}) {name}",
        )

    def _on(self, left: str, right: str) -> str:
        name = self._one("k", "k", *_KEYS)
        pair = f"{left}.{name} {self._one('=', '=', '=', '<=>')} {right}.{name}"
        other = self._one("tiny = {1}.k", "k + 1 = {1}.k", "price = {1}.wide", "big = {1}.k", "s = {1}.part.s")
        if self._draw.random() < 0.2:
            pair = f"{left}." + other.format("", right)
        return f"{pair} AND {self._plain(f'{left}.')}" if self._draw.random() < 0.15 else pair

    def joins(self) -> str:
        """Two or three tables; half of them such that the keys of the one choose rows of the other."""
        if self._draw.random() < 0.5:
            name = self._one("k", "k", "id", "s", "day", "price", "late")
            side = f"(SELECT * FROM {self._one('{small}', '{middle}')} WHERE {self._plain()}) b"
            join = f"{{large}} a {self._one('', '', 'RIGHT')} JOIN {side} ON a.{name} = b.{name}"
            return f"SELECT count(*), sum(a.id), sum(b.id), sum(a.price) FROM {join}"
        kind = self._one("", "", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
        columns = "a.id" if kind in ("LEFT SEMI", "LEFT ANTI") else "a.id, b.id"
        sides = [self._whole("a"), self._filtered("b")]
        if columns != "a.id" and self._draw.random() < 0.3:
            sides = [self._filtered("a"), self._whole("b")]
        text = f"{sides[0]} {kind} JOIN {sides[1]} ON {self._on('a', 'b')}"
        if self._draw.random() < 0.3:
            text += f" {self._one('', 'LEFT', 'LEFT SEMI')} JOIN {self._filtered('c')} ON a.k = c.k"
        return f"SELECT count(*), bit_xor(xxhash64({columns})), count(a.id), sum(a.price) FROM {text}"

    def subqueries(self) -> str:
        """IN, EXISTS, scalar subqueries, and a part that is used twice."""
        name = self._one("k", "k", *_KEYS)
        inner = f"SELECT {name} FROM {self._table()} WHERE {self._plain()}"
        linked = f"SELECT 1 FROM {self._table()} u WHERE u.{name} = t.{name} AND {self._plain('u.')}"
        outer = "SELECT count(*), sum(id), bit_xor(xxhash64(id)) FROM"
        scalar = f"SELECT sum(u.price) FROM {{middle}} u WHERE u.k = t.k AND {self._plain('u.')}"
        return self._one(
            f"{outer} {{large}} t WHERE {name} IN ({inner}) AND {self.condition(0)}",
            f"{outer} {{large}} t WHERE {name} IN ({inner}) OR {self.condition(0)}",
            f"{outer} {{middle}} t WHERE {name} NOT IN (SELECT {name} FROM {{small}} WHERE {self._plain()})",
            f"{outer} {{large}} t WHERE {self._one('', 'NOT ')}EXISTS ({linked})",
            f"{outer} {{large}} t WHERE k >= (SELECT max(k) FROM {self._table()} WHERE {self._plain()})",
            f"SELECT id, ({scalar}) FROM {{small}} t",
            f"WITH d AS (SELECT * FROM {{middle}} WHERE {self._plain()}) SELECT count(*), sum(f.id) FROM {{large}} f "
            f"JOIN d ON f.{name} = d.{name} LEFT JOIN (SELECT * FROM d LIMIT 0) e ON f.k = e.k",
            f"WITH d AS (SELECT * FROM {{small}} WHERE {self._plain()}) SELECT count(*), sum(f.id) FROM {{large}} f "
            f"JOIN d ON f.{name} = d.{name} LEFT JOIN d e ON f.k = e.k",
            f"SELECT k, s FROM {self._table()} WHERE {self._plain()} {self._one('UNION', 'EXCEPT', 'INTERSECT')} "
            f"SELECT k, s FROM {self._table()} {self._where()}",
        )
