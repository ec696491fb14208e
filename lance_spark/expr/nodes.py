"""The filter tree: a WHERE clause as immutable nodes.

Every source of filters (SQL text, Spark's pushed filters, calls from Python) produces this tree, and every consumer
(row evaluation, pruning by statistics, messages) uses it. Two trees are equal if and only if they have the same
structure, and `parse(expr.to_sql()) == expr`.

`BETWEEN`, `NOT IN`, `IS NOT NULL`, `IS [NOT] TRUE` and `IS DISTINCT FROM` have no nodes of their own: they are
expressed with the ones below. `And` and `Or` are n-ary and never directly contain themselves, so that a filter of
thousands of terms stays shallow.

>>> str(And((Comparison(ComparisonOp.GT, Column(("a", "b")), Column(("c.d",))), Not(IsNull(Column(("e",)))))))
'a.b > `c.d` AND e IS NOT NULL'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.function_names import FUNCTION_ARITIES, FunctionName
from lance_spark.text import check_text, shown_values


class Expr:
    """Base of all nodes; immutable, hashable, picklable."""

    __slots__ = ()

    is_constant: ClassVar[bool] = False
    """Whether it is a literal."""

    def children(self) -> tuple[Expr, ...]:
        """The direct children."""
        return ()

    def to_sql(self) -> str:
        """Spark SQL text that parses to an equal tree."""
        raise NotImplementedError

    def is_term(self) -> bool:
        """Whether its SQL needs no parentheses as an operand."""
        return False

    def walk(self) -> list[Expr]:
        """This node and all descendants, in pre-order; without the constants of lists, which can be thousands."""
        nodes = [self]
        for child in self.children():
            if type(child).children is Expr.children:
                nodes.append(child)  # Filters of thousands of terms are walked several times per query.
            else:
                nodes += child.walk()
        return nodes

    def __str__(self) -> str:
        return self.to_sql()


class ComparisonOp(str, Enum):
    """A comparison operator."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    NULL_SAFE_EQ = "<=>"

    @property
    def mirrored(self) -> ComparisonOp:
        """The operator for exchanged operands: `a < b` is `b > a`."""
        return _MIRRORED.get(self, self)


_MIRRORED = {
    ComparisonOp.LT: ComparisonOp.GT,
    ComparisonOp.LE: ComparisonOp.GE,
    ComparisonOp.GT: ComparisonOp.LT,
    ComparisonOp.GE: ComparisonOp.LE,
}


class ArithmeticOp(str, Enum):
    """An arithmetic operator."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


_RESERVED = """
    all and between both case cast current_date current_time current_timestamp distinct exists false ilike in interval
    is leading like not null or regexp rlike select trailing true try_cast with
"""
RESERVED_WORDS = frozenset(_RESERVED.split())
"""Words that need backticks as a column name; Spark too accepts all others as names by default."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def quote_name(name: str) -> str:
    """`name` as an SQL identifier: in backticks unless it is a plain word.

    >>> quote_name("price"), quote_name("a.b"), quote_name("all"), quote_name("tick`s")
    ('price', '`a.b`', '`all`', '`tick``s`')
    """
    if _PLAIN_NAME.match(name) and name.lower() not in RESERVED_WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_string(text: str) -> str:
    """`text` as a Spark string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\u0000") + "'"


def _operand(expr: Expr) -> str:
    """SQL of `expr` as an operand of an operator or predicate: in parentheses unless it is a single term."""
    return expr.to_sql() if expr.is_term() else f"({expr.to_sql()})"


def _term(expr: Expr) -> str:
    """SQL of `expr` as a term of AND, OR or NOT: predicates need no parentheses there."""
    text = expr.to_sql()
    return f"({text})" if isinstance(expr, (And, Or, Arithmetic, Negate)) or text.startswith("NOT ") else text


@dataclass(frozen=True, slots=True)
class Column(Expr):
    """A column, or a field below it: `("a", "b")` is field `b` of struct `a`. A dot inside a name is just a dot."""

    path: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.path or not all(self.path):
            raise InvalidInputError(f"a column reference needs a name at every level, got {self.path!r}")
        for name in self.path:
            check_text(name, "the name of a column")

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return ".".join(quote_name(name) for name in self.path)


@dataclass(frozen=True, slots=True)
class Comparison(Expr):
    """`left op right`."""

    op: ComparisonOp
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return self.left, self.right

    def to_sql(self) -> str:
        return f"{_operand(self.left)} {self.op.value} {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class In(Expr):
    """`value IN (options)`: NULL, not FALSE, if nothing matches and an option is NULL.

    Attributes:
        has_constants: whether all options are literals.
    """

    value: Expr
    options: tuple[Expr, ...]
    has_constants: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.options:
            raise InvalidInputError(f"{self.value} IN () has no values to compare with")
        object.__setattr__(self, "has_constants", all(option.is_constant for option in self.options))

    def children(self) -> tuple[Expr, ...]:
        return self.value, *self.options

    def walk(self) -> list[Expr]:
        return [self, *self.value.walk()] if self.has_constants else Expr.walk(self)

    def to_sql(self) -> str:
        return f"{_operand(self.value)} IN ({', '.join(option.to_sql() for option in self.options)})"


@dataclass(frozen=True, slots=True, eq=False)
class InArray(Expr):
    """Whether `value` is one of `values`; FALSE for null.

    For many values of a program, such as the keys of a join: they are looked up without conversion, so they have the
    type of `value`. SQL has no such node; its text is the text of an `In`. Equality is identity.
    """

    value: Expr
    values: pa.Array

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def to_sql(self) -> str:
        options = ", ".join(repr(value) for value in shown_values(self.values))
        return f"{_operand(self.value)} IN ({options})"


@dataclass(frozen=True, slots=True)
class IsNull(Expr):
    """`value IS NULL`; never NULL itself."""

    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def to_sql(self) -> str:
        return f"{_operand(self.value)} IS NULL"


@dataclass(frozen=True, slots=True)
class IsNan(Expr):
    """`isnan(value)`; FALSE for NULL, as in Spark."""

    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def to_sql(self) -> str:
        return f"isnan({self.value.to_sql()})"


def _flat(kind: type[And] | type[Or], terms: tuple[Expr, ...]) -> tuple[Expr, ...]:
    flat: list[Expr] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, kind) else (term,))
    if len(flat) < 2:
        raise InvalidInputError(f"{kind.__name__.upper()} needs two terms or more, got {len(flat)}")
    return tuple(flat)


@dataclass(frozen=True, slots=True)
class And(Expr):
    """All terms hold (Kleene: FALSE wins over NULL). Terms are evaluated from left to right."""

    terms: tuple[Expr, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", _flat(And, self.terms))

    def children(self) -> tuple[Expr, ...]:
        return self.terms

    def to_sql(self) -> str:
        return " AND ".join(_term(term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Or(Expr):
    """Some term holds (Kleene: TRUE wins over NULL). Terms are evaluated from left to right."""

    terms: tuple[Expr, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", _flat(Or, self.terms))

    def children(self) -> tuple[Expr, ...]:
        return self.terms

    def to_sql(self) -> str:
        return " OR ".join(_term(term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Not(Expr):
    """`NOT value`; NULL stays NULL."""

    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def to_sql(self) -> str:
        if isinstance(self.value, IsNull):
            return f"{_operand(self.value.value)} IS NOT NULL"
        return f"NOT {_term(self.value)}"


class StringMatchOp(str, Enum):
    """Kinds of substring match, named by Spark's functions."""

    STARTS_WITH = "startswith"
    ENDS_WITH = "endswith"
    CONTAINS = "contains"


@dataclass(frozen=True, slots=True)
class StringMatch(Expr):
    """`startswith(value, text)`, `endswith(...)` or `contains(...)`; compares bytes, case-sensitive."""

    op: StringMatchOp
    value: Expr
    text: str

    def __post_init__(self) -> None:
        check_text(self.text, f"what {self.op.value} looks for")

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def to_sql(self) -> str:
        return f"{self.op.value}({self.value.to_sql()}, {quote_string(self.text)})"


@dataclass(frozen=True, slots=True)
class ArrayContains(Expr):
    """`array_contains(value, item)`; NULL if the list is NULL, or has a null item and none that equals `item`.

    `item` is a `Literal` that is not NULL.
    """

    value: Expr
    item: Expr

    def children(self) -> tuple[Expr, ...]:
        return self.value, self.item

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return f"array_contains({self.value.to_sql()}, {self.item.to_sql()})"


@dataclass(frozen=True, slots=True)
class Like(Expr):
    """`value LIKE pattern [ESCAPE escape]`: `%` any text, `_` one character; the whole value must match."""

    value: Expr
    pattern: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        if len(self.escape) != 1:
            raise InvalidInputError(f"the escape of LIKE is one character, got {self.escape!r}")
        check_text(self.pattern, "the pattern of LIKE")
        like_tokens(self.pattern, self.escape)

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def to_sql(self) -> str:
        escape = "" if self.escape == "\\" else f" ESCAPE {quote_string(self.escape)}"
        return f"{_operand(self.value)} LIKE {quote_string(self.pattern)}{escape}"


def like_tokens(pattern: str, escape: str) -> list[tuple[bool, str]]:
    """The pattern as (is_wildcard, text) pieces; text between wildcards has its escapes removed.

    Raises:
        InvalidInputError: the escape precedes an ordinary character or the end (an error in Spark too).

    >>> like_tokens("a\\\\_b%", "\\\\")
    [(False, 'a_b'), (True, '%')]
    """
    tokens: list[tuple[bool, str]] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            text += _escaped(next(characters, None), pattern, escape)
        elif character in "%_":
            tokens += [(False, text), (True, character)] if text else [(True, character)]
            text = ""
        else:
            text += character
    return [*tokens, (False, text)] if text else tokens


def _escaped(character: str | None, pattern: str, escape: str) -> str:
    if character is None or character not in ("%", "_", escape):
        raise InvalidInputError(
            f"LIKE pattern {pattern!r}: the escape {escape!r} must be followed by %, _ or itself; double it to match it"
        )
    return character


@dataclass(frozen=True, slots=True)
class Arithmetic(Expr):
    """`left op right` on numbers; overflow and division by zero are errors (Spark's ANSI mode)."""

    op: ArithmeticOp
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return self.left, self.right

    def to_sql(self) -> str:
        return f"{_operand(self.left)} {self.op.value} {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class Negate(Expr):
    """`-value` of something that is not a number literal."""

    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def to_sql(self) -> str:
        return f"-({self.value.to_sql()})"


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """`CAST(value AS type)`, or `TRY_CAST`, which gives NULL where CAST fails. `type` is one of `CAST_TYPES`."""

    value: Expr
    type: pa.DataType
    is_try: bool = False

    def __post_init__(self) -> None:
        cast_type_name(self.type)

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        verb = "TRY_CAST" if self.is_try else "CAST"
        return f"{verb}({self.value.to_sql()} AS {cast_type_name(self.type)})"


CAST_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
"""Spark's name of each target type of CAST, except DECIMAL(p, s)."""

_CAST_NAMES = {type_: name for name, type_ in CAST_TYPES.items()}


def cast_type_name(type_: pa.DataType) -> str:
    """Spark's name for a target type of CAST.

    Raises:
        InvalidInputError: not a target type of CAST.
    """
    if pa.types.is_decimal128(type_) and 0 <= type_.scale <= type_.precision:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if type_ not in _CAST_NAMES:
        raise InvalidInputError(f"CAST to {type_} is not supported; one of {', '.join(CAST_TYPES)}, DECIMAL(p, s)")
    return _CAST_NAMES[type_]


@dataclass(frozen=True, slots=True)
class Function(Expr):
    """A call of a scalar function."""

    name: FunctionName
    arguments: tuple[Expr, ...]

    def __post_init__(self) -> None:
        least, most = FUNCTION_ARITIES[self.name]
        if len(self.arguments) < least or (most is not None and len(self.arguments) > most):
            arity = str(least) if least == most else f"{least} to {most}" if most is not None else f"at least {least}"
            raise InvalidInputError(f"{self.name.value} takes {arity} arguments, got {len(self.arguments)}")

    def children(self) -> tuple[Expr, ...]:
        return self.arguments

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return f"{self.name.value}({', '.join(argument.to_sql() for argument in self.arguments)})"


def conjunction(terms: tuple[Expr, ...]) -> Expr | None:
    """The conjunction of `terms`; None for no terms."""
    return None if not terms else terms[0] if len(terms) == 1 else And(terms)


def with_values(expr: Expr, values: Mapping[tuple[str, ...], Expr]) -> Expr:
    """`expr` with values in the place of the columns of these paths.

    >>> with_values(Comparison(ComparisonOp.EQ, Column(("a",)), Column(("b",))), {("b",): Column(("c",))}).to_sql()
    'a = c'
    """
    if isinstance(expr, Column):
        return values.get(expr.path, expr)
    if not is_dataclass(expr):
        return expr
    changed: dict[str, Any] = {}
    for item in fields(expr):
        value = getattr(expr, item.name)
        if isinstance(value, Expr):
            changed[item.name] = with_values(value, values)
        elif item.init and isinstance(value, tuple):
            changed[item.name] = tuple(with_values(one, values) if isinstance(one, Expr) else one for one in value)
    return replace(expr, **changed)


def referenced_columns(expr: Expr) -> frozenset[tuple[str, ...]]:
    """The paths of all columns that `expr` reads.

    >>> sorted(referenced_columns(Comparison(ComparisonOp.EQ, Column(("a",)), Column(("b", "c")))))
    [('a',), ('b', 'c')]
    """
    return frozenset([node.path for node in expr.walk() if isinstance(node, Column)])


MAX_DEPTH = 50
"""Maximum nesting depth of parentheses, NOT, unary minus and function calls in a filter."""

MAX_TREE_DEPTH = 100
"""Maximum depth of a filter; a chain such as a + b + c nests to the left. AND, OR and IN take any number of terms."""


def depth(expr: Expr) -> int:
    """The height of the tree in nodes; works on trees of any depth."""
    deepest = 0
    level: tuple[Expr, ...] = (expr,)
    while level:
        deepest += 1
        level = tuple(child for node in level for child in node.children())
    return deepest
