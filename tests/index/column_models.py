"""Columns of all types as plain Python sees them: values, conditions on them, and the values for which these hold.

A scalar is the place of a value in a pool, so that NaN, zeros with a sign and numbers of any width stay what they are.
"""

from __future__ import annotations

import datetime
import json
import random
import re
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from tests.support.expr.geometries import EXTENSION, path, point, wkb

Value = Any
Test = Callable[[Value], bool | None]
NAN, INF = float("nan"), float("inf")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Constant:
    """A constant of a filter: its text, what values are compared with, and whether that makes them doubles."""

    sql: str
    key: Any
    is_double: bool = False


@dataclass(frozen=True)
class Condition:
    """A condition on a column.

    Attributes:
        sql: its text.
        test: what it is for a value: TRUE, FALSE or NULL.
        is_shared: whether the reference library reads the same text.
    """

    sql: str
    test: Test
    is_shared: bool = True


def opposite(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def all_of(verdicts: Sequence[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


def any_of(verdicts: Sequence[bool | None]) -> bool | None:
    return opposite(all_of([opposite(verdict) for verdict in verdicts]))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class ColumnModel(ABC):
    """A column with random values.

    Attributes:
        name: its name.
        kinds: the indexes that it can have, each a kind with its parameters.
    """

    kinds: Sequence[tuple[str, dict[str, Any]]]

    def __init__(self, name: str, draw: random.Random) -> None:
        self.name, self.draw = name, draw

    @property
    @abstractmethod
    def field(self) -> pa.Field: ...

    @abstractmethod
    def value(self) -> Value:
        """A random value, None for null."""

    @abstractmethod
    def array(self, values: Sequence[Value]) -> pa.Array: ...

    @abstractmethod
    def condition(self) -> Condition:
        """A random condition on the column."""

    def null_test(self) -> Condition:
        if self.draw.random() < 0.5:
            return Condition(f"{self.name} IS NULL", lambda value: value is None)
        return Condition(f"{self.name} IS NOT NULL", lambda value: value is not None)


@dataclass(frozen=True)
class Scalars:
    """Values of one type.

    Attributes:
        pool: the values, none of them null.
        keys: what each is compared as.
        constants: those that they are compared with.
    """

    pool: pa.Array
    keys: list[Any]
    constants: list[Constant]

    def compared(self, place: int, constant: Constant, *, as_double: bool) -> tuple[Any, Any]:
        key, other = self.keys[place], constant.key
        as_double = as_double or constant.is_double or pt.is_floating(self.pool.type)
        return _ordered(key, as_double), _ordered(other, as_double)

    def condition(self, name: str, draw: random.Random) -> Condition:
        """A random condition on the scalar that `name` is in SQL."""
        return draw.choice([self._comparison, self._comparison, self._between, self._one_of])(name, draw)

    def _comparison(self, name: str, draw: random.Random) -> Condition:
        sign, constant = draw.choice(list(COMPARISONS)), draw.choice(self.constants)

        def test(place: int | None) -> bool | None:
            return None if place is None else COMPARISONS[sign](*self.compared(place, constant, as_double=False))

        if draw.random() < 0.03:
            return Condition(f"{name} {sign} NULL", lambda _: None, is_shared=False)
        return Condition(f"{name} {sign} {constant.sql}", test)

    def _between(self, name: str, draw: random.Random) -> Condition:
        low, high = draw.choice(self.constants), draw.choice(self.constants)

        def test(place: int | None) -> bool | None:
            if place is None:
                return None
            left, low_key = self.compared(place, low, as_double=False)
            right, high_key = self.compared(place, high, as_double=False)
            return bool(left >= low_key and right <= high_key)

        negated = draw.random() < 0.3
        text = f"{name} {'NOT ' if negated else ''}BETWEEN {low.sql} AND {high.sql}"
        return Condition(text, (lambda place: opposite(test(place))) if negated else test)

    def _one_of(self, name: str, draw: random.Random) -> Condition:
        options = [draw.choice(self.constants) for _ in range(draw.choice([1, 2, 4, 40]))]
        as_double = any(option.is_double for option in options)
        has_null, negated = draw.random() < 0.1, draw.random() < 0.3
        texts = [option.sql for option in options] + ["NULL"] * has_null

        def test(place: int | None) -> bool | None:
            if place is None:
                return None
            pairs = [self.compared(place, option, as_double=as_double) for option in options]
            return True if any(left == right for left, right in pairs) else None if has_null else False

        text = f"{name} {'NOT ' if negated else ''}IN ({', '.join(texts)})"
        return Condition(text, (lambda place: opposite(test(place))) if negated else test)


def _ordered(key: Any, as_double: bool) -> Any:
    if not isinstance(key, (int, float, Decimal)):
        return key
    number = float(key) if as_double else key
    return (1, 0) if number != number else (0, number)


def numbers(dtype: pa.DataType, draw: random.Random) -> Scalars:
    """Whole numbers, compared with numbers of other types and beyond their width too."""
    low, high = (0, 2**dtype.bit_width - 1) if str(dtype)[0] == "u" else (-(2 ** (dtype.bit_width - 1)), 0)
    high = high or -low - 1
    near = draw.choice([30, 120])
    found = sorted({low, high, 0, 1, *(max(low, draw.randrange(-near // 2, near)) for _ in range(40))})
    texts = [Constant(str(number), number) for number in draw.sample(found, 12)]
    others = [Constant("5.5D", 5.5, True), Constant("7D", 7.0, True), Constant("3.5", Decimal("3.5"))]
    others += [Constant("99999999999999999999", 99999999999999999999), Constant(str(low - 1), low - 1)]
    return Scalars(pa.array(found, dtype), list(found), texts * 2 + others)


def floats(dtype: pa.DataType, draw: random.Random) -> Scalars:
    """Floats with both zeros, infinities and NaN, sometimes one whose sign bit is set."""
    numpy_type = {16: np.float16, 32: np.float32, 64: np.float64}[dtype.bit_width]
    found = [-INF, -0.0, 0.0, INF, NAN, *(draw.randrange(-40, 80) / 4 for _ in range(draw.choice([5, 40])))]
    values = np.array([*found, NAN], numpy_type)
    if draw.random() < 0.5:
        values[-1] = np.copysign(values[-1], numpy_type(-1))
    constants = [Constant(f"{number!r}D", number) for number in draw.sample(found[5:], 4)] * 3
    constants += [Constant("0.0D", 0.0), Constant("-0.0D", 0.0), Constant("double('NaN')", NAN), Constant("1", 1)]
    constants += [Constant("double('Infinity')", INF), Constant("0.1", 0.1), Constant("2.5", 2.5)]
    return Scalars(pa.array(values, dtype), values.astype(np.float64).tolist(), constants)


def decimals(dtype: pa.DataType, draw: random.Random) -> Scalars:
    # By text: arithmetic of decimals keeps 28 digits.
    most = "9" * (dtype.precision - dtype.scale) + "." + "9" * dtype.scale
    found = {Decimal(draw.randrange(-400, 900)).scaleb(-2) for _ in range(draw.choice([6, 40]))} | {Decimal("0.00")}
    keys = [*sorted(found), Decimal(f"-{most}"), Decimal(most)]
    constants = [Constant(str(number), number) for number in keys] * 2
    constants += [Constant("1", 1), Constant("1.005", Decimal("1.005")), Constant("1.25D", 1.25, True)]
    return Scalars(pa.array(keys, dtype), keys, constants)


def moments(dtype: pa.DataType, draw: random.Random) -> Scalars:
    """Dates, timestamps, times of day and durations: counts of their unit, compared as nanoseconds."""
    unit = 86_400 * 10**9 if pt.is_date32(dtype) else NANOS["ms" if pt.is_date64(dtype) else dtype.unit]
    storage = pa.int32() if dtype.bit_width == 32 else pa.int64()
    span = 86_400 * 10**9 if pt.is_time(dtype) else 20_000 * 86_400 * 10**9
    first = 0 if pt.is_time(dtype) else -span // 2
    step = 86_400 * 10**9 if pt.is_date(dtype) else unit
    found = {draw.randrange(first, first + span) // step * step for _ in range(draw.choice([6, 40]))} | {0, 7 * step}
    keys = sorted(found)
    pool = pa.array([key // unit for key in keys], storage).cast(dtype)
    return Scalars(
        pool, list(keys), [Constant(_moment(key, dtype), key) for key in draw.sample(keys, min(7, len(keys)))]
    )


def _moment(nanos: int, dtype: pa.DataType) -> str:
    seconds, fraction = divmod(abs(nanos) if pt.is_duration(dtype) else nanos, 10**9)
    if pt.is_duration(dtype):
        return f"INTERVAL '{'-' if nanos < 0 else ''}{seconds}.{fraction:09}' SECOND"
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    if pt.is_date(dtype):
        return f"DATE '{moment:%Y-%m-%d}'"
    if pt.is_time(dtype):
        return f"TIME '{moment:%H:%M:%S}.{fraction:09}'"
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}.{fraction:09}{'Z' if dtype.tz else ''}'"


def truths(dtype: pa.DataType, draw: random.Random) -> Scalars:
    return Scalars(pa.array([False, True], dtype), [False, True], [Constant("true", True), Constant("false", False)])


TEXTS = ["", "a", "ab", "abc", "abd", "b", "Größe", "größe", "日本語の", "alphabet", "Alpha beta", "it's", "a_b", "50%"]


def texts(dtype: pa.DataType, draw: random.Random) -> Scalars:
    letters = string.ascii_lowercase[: draw.choice([3, 20])] + "é "
    found = {"".join(draw.choice(letters) for _ in range(draw.randrange(12))) for _ in range(30)}
    values = sorted({*TEXTS, *found, "long " * 30})
    constants = [Constant(quoted(text), text.encode()) for text in [*draw.sample(values, 12), "none of them"]]
    return Scalars(pa.array(values, dtype), [text.encode() for text in values], constants)


def byte_strings(dtype: pa.DataType, draw: random.Random) -> Scalars:
    width = dtype.byte_width if pt.is_fixed_size_binary(dtype) else None
    found = {draw.randbytes(draw.randrange(5) if width is None else width) for _ in range(draw.choice([5, 40]))}
    values = sorted(found | ({b"\xff" * width, bytes(width)} if width else {b"", b"\xff\xff\xff"}))
    constants = [Constant(f"X'{value.hex()}'", value) for value in draw.sample(values, min(5, len(values)))]
    return Scalars(pa.array(values, dtype), values, constants)


SCALARS: dict[pa.DataType, Callable[[pa.DataType, random.Random], Scalars]] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), numbers),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), numbers),
    **dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), floats),
    **dict.fromkeys((pa.decimal128(12, 2), pa.decimal128(38, 2), pa.decimal256(50, 2)), decimals),
    **dict.fromkeys((pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")), moments),
    **dict.fromkeys((pa.time64("ns"), pa.duration("s"), pa.duration("us"), pa.timestamp("s")), moments),
    **dict.fromkeys((pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")), moments),
    **dict.fromkeys((pa.timestamp("us", "UTC"), pa.timestamp("ms", "America/New_York")), moments),
    pa.bool_(): truths,
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), texts),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary(3)), byte_strings),
}
ZONES: dict[str, Any] = {"rows_per_zone": 10}
BLOOM: dict[str, Any] = {"number_of_items": 20, "probability": 0.01}
SORTED: list[tuple[str, dict[str, Any]]] = [("BTREE", {"zone_size": 16}), ("BITMAP", {}), ("ZONEMAP", ZONES)]


def is_text(dtype: pa.DataType) -> bool:
    return bool(pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_string_view(dtype))


class ScalarColumn(ColumnModel):
    """A column of scalars."""

    def __init__(self, name: str, draw: random.Random, dtype: pa.DataType) -> None:
        super().__init__(name, draw)
        self._dtype, self._scalars = dtype, SCALARS[dtype](dtype, draw)
        self._null_share = draw.choice([0, 0.1, 0.5])
        has_bloom = not (
            pt.is_boolean(dtype) or pt.is_float16(dtype) or pt.is_decimal(dtype)
        ) and not (pt.is_duration(dtype) or pt.is_fixed_size_binary(dtype))  # fmt: skip
        self.kinds = [*SORTED, *[("BLOOMFILTER", BLOOM)] * has_bloom, *[("NGRAM", {})] * (2 * is_text(dtype))]

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self._dtype)

    def value(self) -> Value:
        return None if self.draw.random() < self._null_share else self.draw.randrange(len(self._scalars.pool))

    def array(self, values: Sequence[Value]) -> pa.Array:
        return taken(self._scalars.pool, values)

    def condition(self) -> Condition:
        choice = self.draw.random()
        if choice < 0.12:
            return self.null_test()
        if is_text(self._dtype) and choice < 0.5:
            return self._pattern()
        if pt.is_boolean(self._dtype):
            return self._truth()
        return self._scalars.condition(self.name, self.draw)

    def _truth(self) -> Condition:
        known: dict[str, Test] = {
            self.name: lambda place: None if place is None else bool(place),
            f"NOT {self.name}": lambda place: None if place is None else not place,
            f"{self.name} IS TRUE": lambda place: place == 1,
            f"{self.name} IS NOT TRUE": lambda place: place != 1,
            f"{self.name} = true": lambda place: None if place is None else place == 1,
            f"{self.name} <> true": lambda place: None if place is None else place == 0,
            f"{self.name} IN (false)": lambda place: None if place is None else place == 0,
        }
        sql, test = self.draw.choice(list(known.items()))
        # By an index the reference library (14.0.2) loses the nulls of NOT (x IS TRUE).
        return Condition(sql, test, is_shared=" IS " not in sql)

    def _pattern(self) -> Condition:
        keys = self._scalars.keys
        text = self.draw.choice(keys).decode()
        start = self.draw.randrange(len(text) + 1)
        piece = text[start : start + self.draw.choice([1, 3, 5])]
        if self.draw.random() < 0.4 or set(piece) & set("%_\\"):
            return Condition(
                f"contains({self.name}, {quoted(piece)})",
                lambda place: None if place is None else piece.encode() in keys[place],
            )
        shape = self.draw.choice(["{0}%", "%{0}%", "%{0}", "_{0}%", "{0}_%", "{0}", "%{0}%{0}%"])
        pattern = shape.format(piece)
        regex = re.compile("".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern), re.S)
        negated = self.draw.random() < 0.2

        def test(place: int | None) -> bool | None:
            return None if place is None else (regex.fullmatch(keys[place].decode()) is not None) is not negated

        return Condition(f"{self.name} {'NOT ' if negated else ''}LIKE {quoted(pattern)}", test)


def taken(pool: pa.Array, places: Sequence[int | None]) -> pa.Array:
    """The values at some places, null for None."""
    # Arrow does not take from views.
    plain = pool.cast(pa.string()) if pt.is_string_view(pool.type) else pool
    return plain.take(pa.array(places, pa.int64())).cast(pool.type)


class ListColumn(ColumnModel):
    """A column of lists of scalars: tuples of places."""

    kinds = (("LABEL_LIST", {}),)

    def __init__(self, name: str, draw: random.Random, dtype: pa.DataType) -> None:
        super().__init__(name, draw)
        self._scalars = SCALARS[dtype](dtype, draw)
        self._list_type = draw.choice([pa.list_, pa.large_list])(dtype)
        self._null_share = draw.choice([0, 0.2])

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self._list_type)

    def value(self) -> Value:
        if self.draw.random() < 0.15:
            return None
        places = range(len(self._scalars.pool))
        items = [self.draw.choice(places) for _ in range(self.draw.choice([0, 1, 2, 2, 5]))]
        return tuple(None if self.draw.random() < self._null_share else item for item in items)

    def array(self, values: Sequence[Value]) -> pa.Array:
        sizes = [0, *(0 if value is None else len(value) for value in values)]
        items = taken(self._scalars.pool, [item for value in values for item in value or ()])
        kind = pa.ListArray if pt.is_list(self._list_type) else pa.LargeListArray
        offsets = pa.array(np.cumsum(sizes), pa.int32() if kind is pa.ListArray else pa.int64())
        return kind.from_arrays(offsets, items, mask=pa.array([value is None for value in values]))

    def condition(self) -> Condition:
        if self.draw.random() < 0.1:
            return self.null_test()
        constants = [self.draw.choice(self._scalars.constants) for _ in range(self.draw.randint(1, 3))]

        def has(constant: Constant, value: Value) -> bool | None:
            if value is None:
                return None
            pairs = [
                None if item is None else self._scalars.compared(item, constant, as_double=False) for item in value
            ]
            return any_of([None if pair is None else pair[0] == pair[1] for pair in pairs])

        if len(constants) == 1:
            (only,) = constants
            return Condition(f"array_has({self.name}, {only.sql})", lambda value: has(only, value))
        name, joined = self.draw.choice([("array_has_any", any_of), ("array_has_all", all_of)])
        listed = ", ".join(constant.sql for constant in constants)
        return Condition(
            f"{name}({self.name}, array({listed}))",
            lambda value: None if value is None else joined([has(constant, value) for constant in constants]),
            is_shared=False,
        )


class JsonColumn(ColumnModel):
    """A column of JSON documents: dicts of values at some paths."""

    kinds = tuple(
        ("JSON", {"path": place, "target_index_type": kind})
        for place, kind in zip(
            ("$.n", "$.o.t", "$.f", '$."a b"[1]'), ("btree", "bitmap", "zonemap", "btree"), strict=True
        )
    )

    def __init__(self, name: str, draw: random.Random) -> None:
        super().__init__(name, draw)
        integers = [draw.randrange(-50, 50) for _ in range(20)]
        halves = [number / 2 for number in integers] + [0.5]
        words = [text for text in TEXTS if text]
        self._paths: dict[str, tuple[str, Scalars]] = {}
        for (_, parameters), kind, values in zip(
            self.kinds, ("int", "string", "float", "int"), (integers, words, halves, integers[::-1]), strict=True
        ):
            keys: list[Any] = [value.encode() if isinstance(value, str) else value for value in values]
            shown = {"int": str, "string": quoted, "float": lambda value: f"{value!r}D"}[kind]
            constants = [Constant(shown(value), key) for value, key in zip(values, keys, strict=True)]  # type: ignore[operator]
            self._paths[parameters["path"]] = (f"json_get_{kind}", Scalars(pa.array(values), keys, constants))

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, pa.json_())

    def value(self) -> Value:
        if self.draw.random() < 0.1:
            return None
        drawn = {where: self.draw.randrange(len(scalars.pool)) for where, (_, scalars) in self._paths.items()}
        return {where: place for where, place in drawn.items() if self.draw.random() < 0.8}

    def array(self, values: Sequence[Value]) -> pa.Array:
        return pa.array([None if value is None else json.dumps(self._document(value)) for value in values], pa.json_())

    def _document(self, value: dict[str, int]) -> dict[str, Any]:
        found = {where: self._paths[where][1].pool[place].as_py() for where, place in value.items()}
        listed = [self.draw.choice([None, "x", 7]), *(number for where, number in found.items() if "[1]" in where)]
        document = {"n": found.get("$.n"), "a b": listed, "o": {"t": found.get("$.o.t"), "n": "other"}, "z": {"n": 1}}
        return document | ({"f": found["$.f"]} if "$.f" in found else {})

    def condition(self) -> Condition:
        where, (function, scalars) = self.draw.choice(list(self._paths.items()))
        subject = f"{function}({self.name}, {quoted(where)})"
        if self.draw.random() < 0.15:
            return Condition(f"{subject} IS NULL", lambda value: (value or {}).get(where) is None, is_shared=False)
        found = scalars.condition(subject, self.draw)
        return Condition(found.sql, lambda value: found.test((value or {}).get(where)), is_shared=False)


class GeometryColumn(ColumnModel):
    """A column of points, or of boxes as well-known binary: (xmin, ymin, xmax, ymax), () for an empty one, None."""

    kinds = (("RTREE", {"page_size": 16}),)

    def __init__(self, name: str, draw: random.Random, *, points: bool) -> None:
        super().__init__(name, draw)
        self._has_points = points

    @property
    def field(self) -> pa.Field:
        if self._has_points:
            dtype = pa.struct({"x": pa.float64(), "y": pa.float64()})
            return pa.field(self.name, dtype, metadata={**EXTENSION, "ARROW:extension:name": "geoarrow.point"})
        return pa.field(self.name, pa.binary(), metadata=EXTENSION)

    def value(self) -> Value:
        if self.draw.random() < 0.15:
            return None if self._has_points else self.draw.choice([None, ()])
        x, y = float(self.draw.randrange(100)), float(self.draw.randrange(100))
        width, height = (
            (0.0, 0.0) if self._has_points else (self.draw.choice([0.0, 5.0]), self.draw.choice([0.0, 30.0]))
        )
        return x, y, x + width, y + height

    def array(self, values: Sequence[Value]) -> pa.Array:
        if not self._has_points:
            return pa.array([None if value is None else _box(value) for value in values], pa.binary())
        return pa.array([value and {"x": value[0], "y": value[1]} for value in values], self.field.type)

    def condition(self) -> Condition:
        if self.draw.random() < 0.15:
            return self.null_test()
        x, y, size = self.draw.randrange(100), self.draw.randrange(100), self.draw.choice([0.5, 10, 40])

        def test(value: Value) -> bool | None:
            if not value:
                return None if value is None else False
            return bool(value[0] <= x + size and value[2] >= x and value[1] <= y + size and value[3] >= y)

        corners = ((x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y))
        shape = ", ".join(f"{one} {other}" for one, other in corners)
        return Condition(f"st_intersects({self.name}, ST_GeomFromText('POLYGON(({shape}))'))", test)


def _box(value: tuple[float, ...]) -> bytes:
    if not value:
        return wkb(2, path([]))
    left, low, right, high = value
    if left == right and low == high:
        return point(left, low)
    if left == right or low == high:
        return wkb(2, path([(left, low), (right, high)]))
    return wkb(3, path([(left, low), (right, low), (right, high), (left, high), (left, low)]))


def column_models(draw: random.Random, names: Sequence[str], *, null_structs: bool) -> list[ColumnModel]:
    """Columns of random types.

    Args:
        null_structs: whether the table can have null structs.
    """

    def drawn(name: str) -> ColumnModel:
        choice = draw.random()
        if choice < 0.72:
            return ScalarColumn(name, draw, draw.choice(list(SCALARS)))
        if choice < 0.86:
            # The reference library (14.0.2) writes no lists of views into files of version 2.0.
            return ListColumn(name, draw, draw.choice([dtype for dtype in SCALARS if not pt.is_string_view(dtype)]))
        if choice < 0.93:
            return JsonColumn(name, draw)
        return GeometryColumn(name, draw, points=null_structs and draw.random() < 0.5)

    return [drawn(name) for name in names]
