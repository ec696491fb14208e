"""The functions of filter text: from a name and arguments to a node.

A call whose value differs between Spark and the reference library is refused with what to write instead, if it was not
already Spark's here: a filter that moves from one to the other must not silently keep other rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr import nodes
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.geo.nodes import GEO_CALLS
from lance_spark.expr.json_path.nodes import JSON_CALLS, JSON_TESTS
from lance_spark.expr.literals import Literal, literal, timestamp_literal
from lance_spark.expr.nodes import And, ArithmeticOp, ArrayContains, Column, ComparisonOp, Expr, Or
from lance_spark.expr.text.nodes import ContainsTokens, TextMatch, TextOptions

Call = Callable[[str, tuple[Expr, ...]], Expr]


def _match(name: str, values: tuple[Expr, ...]) -> Expr:
    if not 2 <= len(values) <= 3:
        raise InvalidInputError(f"{name} takes a column, words and options, got {len(values)} arguments")
    options = _options(name, _text(name, "the options", values[2])) if len(values) == 3 else TextOptions()
    return TextMatch(_columns(name, values[:1]), _text(name, "the words", values[1]), options)


def _phrase(name: str, values: tuple[Expr, ...]) -> Expr:
    if not 2 <= len(values) <= 3:
        raise InvalidInputError(f"{name} takes a column, words and a slop, got {len(values)} arguments")
    slop = values[2].value if len(values) == 3 and isinstance(values[2], Literal) else 0 if len(values) == 2 else None
    if isinstance(slop, bool) or not isinstance(slop, int) or slop < 0:
        raise InvalidInputError(f"the slop of {name} must be a whole number >= 0, got {values[2]}")
    return TextMatch(_columns(name, values[:1]), _text(name, "the words", values[1]), TextOptions("AND", slop=slop))


def _multi_match(name: str, values: tuple[Expr, ...]) -> Expr:
    if len(values) < 3:
        raise InvalidInputError(f"{name} takes words, options if wanted, and two columns or more")
    has_options = isinstance(values[1], Literal)
    options = _options(name, _text(name, "the options", values[1])) if has_options else TextOptions()
    columns = values[2:] if has_options else values[1:]
    if len(columns) < 2:
        raise InvalidInputError(f"{name} takes two columns or more; use lance_match for one")
    return TextMatch(_columns(name, columns), _text(name, "the words", values[0]), options)


def _contains_tokens(name: str, values: tuple[Expr, ...]) -> Expr:
    return ContainsTokens(values[0], _text(name, "the words", values[1]))


def _columns(name: str, values: tuple[Expr, ...]) -> tuple[Column, ...]:
    columns = tuple(value for value in values if isinstance(value, Column))
    if len(columns) < len(values):
        other = next(value for value in values if not isinstance(value, Column))
        raise InvalidInputError(f"{name} searches columns, got {other}")
    return columns


def _text(name: str, what: str, value: Expr) -> str:
    if not (isinstance(value, Literal) and isinstance(value.value, str)):
        raise InvalidInputError(f"{what} of {name} must be a string constant, got {value}")
    return value.value


def _options(name: str, text: str) -> TextOptions:
    """The options of a text such as ``fuzziness=1,operator=AND``.

    Raises:
        InvalidInputError: an unknown option, or an invalid value.
    """
    options: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = (part.strip() for part in item.partition("="))
        if not separator or key.lower() in options:
            raise InvalidInputError(f"option {item!r} of {name} is given twice or is not of the form name=value")
        options[key.lower()] = value
    # The boost multiplies scores, and a condition has none.
    return replace(TextOptions.of(name, options), boost=1.0)


TEXT_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    "lance_match": (None, _match),
    "lance_match_phrase": (None, _phrase),
    "lance_multi_match": (None, _multi_match),
    "contains_tokens": (2, _contains_tokens),
}
"""The number of arguments, None for any, and what makes the node of name and arguments."""


@dataclass(frozen=True, slots=True)
class ArrayOf(Expr):
    """`array(items)`: the second argument of other functions, or a value that an update assigns."""

    items: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.items

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return f"array({', '.join(item.to_sql() for item in self.items)})"


def _contains(name: str, values: tuple[Expr, ...]) -> Expr:
    column, item = values
    if not isinstance(item, Literal) or item.value is None:
        raise InvalidInputError(f"what {name} looks for must be a constant that is not NULL, got {item}")
    return ArrayContains(column, item)


def _contains_several(name: str, values: tuple[Expr, ...]) -> Expr:
    column, items = values
    if not isinstance(items, ArrayOf) or not items.items:
        raise InvalidInputError(f"{name} takes a column and array(...) of one constant or more, got {items}")
    terms = tuple(_contains(name, (column, item)) for item in items.items)
    if len(terms) == 1:
        return terms[0]
    return And(terms) if name in _ALL else Or(terms)


_CONTAINS = ("array_contains", "array_has", "list_contains", "list_has")
_ANY = ("arrays_overlap", "array_has_any", "list_has_any")
_ALL = ("array_has_all", "list_has_all")
ARRAY_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    **dict.fromkeys(_CONTAINS, (2, _contains)),
    **dict.fromkeys((*_ANY, *_ALL), (2, _contains_several)),
    **dict.fromkeys(("array", "make_array"), (None, lambda _, values: ArrayOf(values))),
}
"""The number of arguments, None for any, and what makes the node of name and arguments. With the names that the
reference library has for them."""


def _string_match(name: str, values: tuple[Expr, ...]) -> Expr:
    value, text = values
    if not (isinstance(text, Literal) and isinstance(text.value, str)):
        raise InvalidInputError(f"what {name} looks for must be a string constant, got {text}")
    return nodes.StringMatch(nodes.StringMatchOp(name), value, text.value)


def _type_call(name: str, values: tuple[Expr, ...]) -> Expr:
    """`double(x)`, an alternative to CAST; with 'NaN' and the infinities it is their literal."""
    (value,), type_ = values, nodes.CAST_TYPES[name.upper()]
    if pa.types.is_floating(type_) and isinstance(value, Literal) and value.value in ("NaN", "Infinity", "-Infinity"):
        return Literal(float(str(value.value)), type_)
    return nodes.Cast(value, type_)


_SYNONYMS = {
    "lcase": "lower",
    "ucase": "upper",
    "substr": "substring",
    "strpos": "instr",
    "dayofmonth": "day",
    "ceiling": "ceil",
    "signum": "sign",
    "pow": "power",
    "datetrunc": "date_trunc",
    "list_element": "array_element",
    **dict.fromkeys(("char_length", "character_length", "len"), "length"),
    **dict.fromkeys(("ifnull", "nvl"), "coalesce"),
    **dict.fromkeys(("array_length", "list_length", "array_size", "size"), "cardinality"),
}


def _function(name: str, values: tuple[Expr, ...]) -> Expr:
    return nodes.Function(FunctionName(_SYNONYMS.get(name, name)), values)


_DATE_PARTS = {
    **{part: part for part in ("year", "quarter", "month", "day", "hour", "minute", "isodow", "epoch")},
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("doy", "dayofyear"), "dayofyear"),
    **dict.fromkeys(("millisecond", "milliseconds"), "millisecond"),
    **dict.fromkeys(("microsecond", "microseconds"), "microsecond"),
}
_OTHER_PARTS = {
    "dow": "dayofweek(x), which counts from 1 for Sunday, or isodow(x), which counts from 1 for Monday",
    "dayofweek": "dayofweek(x), which counts from 1 for Sunday, or isodow(x), which counts from 1 for Monday",
    "second": "second(x), a whole number, or millisecond(x) and microsecond(x)",
    "seconds": "second(x), a whole number, or millisecond(x) and microsecond(x)",
}
"""What to write for parts that Spark and the reference library count differently."""


def _date_part(name: str, values: tuple[Expr, ...]) -> Expr:
    part, value = values
    if isinstance(part, nodes.Column) and name == "extract":
        text = ".".join(part.path).lower()
    elif isinstance(part, Literal) and isinstance(part.value, str):
        text = part.value.lower()
    else:
        raise InvalidInputError(f"{name} takes the name of a part, got {part}")
    if text in _OTHER_PARTS:
        raise InvalidInputError(f"{name} of {text!r} differs between libraries; write {_OTHER_PARTS[text]}")
    if text not in _DATE_PARTS:
        raise InvalidInputError(f"{name} of {text!r} is not supported; there are {', '.join(sorted(_DATE_PARTS))}")
    return nodes.Function(FunctionName(_DATE_PARTS[text]), (value,))


def _get_field(name: str, values: tuple[Expr, ...]) -> Expr:
    struct, field = values
    if not (isinstance(struct, nodes.Column) and isinstance(field, Literal) and isinstance(field.value, str)):
        raise InvalidInputError(f"{name} takes a column and the name of a field, got {struct} and {field}")
    return nodes.Column((*struct.path, field.value))


def _nullif(_name: str, values: tuple[Expr, ...]) -> Expr:
    same = nodes.Comparison(ComparisonOp.EQ, *values)
    return nodes.Function(FunctionName.IF, (same, literal(None), values[0]))


def _nvl2(_name: str, values: tuple[Expr, ...]) -> Expr:
    return nodes.Function(FunctionName.IF, (nodes.Not(nodes.IsNull(values[0])), *values[1:]))


def _nanvl(_name: str, values: tuple[Expr, ...]) -> Expr:
    value, other = values
    return nodes.Function(FunctionName.IF, (nodes.IsNan(value), other, value))


def _empty(_name: str, values: tuple[Expr, ...]) -> Expr:
    return nodes.Comparison(ComparisonOp.EQ, nodes.Function(FunctionName.CARDINALITY, values), literal(0))


def now_literal() -> Expr:
    """The time at which the filter is read, the same for all rows of a read."""
    micros = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return timestamp_literal(micros // datetime.timedelta(microseconds=1) * 1000, has_zone=True)


def today_expression() -> Expr:
    """The date in the session's time zone at that time."""
    return nodes.Cast(now_literal(), pa.date32())


def _position(_name: str, values: tuple[Expr, ...]) -> Expr:
    part, text = values
    return nodes.Function(FunctionName.INSTR, (text, part))


CALLS: dict[str, tuple[int | None, Call]] = {
    **dict.fromkeys([*(name.value for name in FunctionName), *_SYNONYMS], (None, _function)),
    **dict.fromkeys((name.lower() for name in nodes.CAST_TYPES), (1, _type_call)),
    **dict.fromkeys((op.value for op in nodes.StringMatchOp), (2, _string_match)),
    # As the reference library spells them.
    "starts_with": (2, lambda _, values: _string_match("startswith", values)),
    "ends_with": (2, lambda _, values: _string_match("endswith", values)),
    "isnan": (1, lambda _, values: nodes.IsNan(*values)),
    "isnull": (1, lambda _, values: nodes.IsNull(*values)),
    "isnotnull": (1, lambda _, values: nodes.Not(nodes.IsNull(*values))),
    **ARRAY_CALLS,
    **GEO_CALLS,
    **JSON_CALLS,
    **JSON_TESTS,
    **TEXT_CALLS,
    "mod": (2, lambda _, values: nodes.Arithmetic(ArithmeticOp.REMAINDER, *values)),
    **dict.fromkeys(("date_part", "datepart", "extract"), (2, _date_part)),
    "get_field": (2, _get_field),
    "nullif": (2, _nullif),
    "nvl2": (3, _nvl2),
    "nanvl": (2, _nanvl),
    "empty": (1, _empty),
    **dict.fromkeys(("position", "locate"), (2, _position)),
    "to_date": (1, lambda _, values: nodes.Cast(values[0], pa.date32())),
    "to_timestamp": (1, lambda _, values: nodes.Cast(values[0], pa.timestamp("us", "UTC"))),
    **dict.fromkeys(("now", "current_timestamp"), (0, lambda _, _values: now_literal())),
    **dict.fromkeys(("current_date", "today"), (0, lambda _, _values: today_expression())),
}
"""The number of arguments, unless the node checks it, and the constructor of the node from name and arguments."""
