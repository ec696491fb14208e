"""Filters of pyarrow, such as ``pyarrow.compute.field("a") > 3``, as filter trees.

pyarrow shows the structure of an expression only in its serialised form: the metadata of an Arrow schema is a list of
tokens, the constants are the columns of a batch of one row. Values are compared as in SQL filters: NaN equals NaN and
is larger than all numbers, which is how DuckDB and polars, whose filters come this way, see it too.

>>> import pyarrow.compute as pc
>>> str(from_arrow((pc.field("a") > 3) & ~pc.field("s", "b").is_null()))
'a > 3 AND s.b IS NOT NULL'
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import FALSE, literal
from lance_spark.expr.nodes import (
    MAX_TREE_DEPTH,
    And,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    In,
    IsNan,
    IsNull,
    Like,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
    depth,
)

Options = Mapping[str, pa.Scalar]
Token = tuple[str, str]

_NULLS_MATCH_NULLS, _NULLS_MATCH_NOTHING = 0, 1
"""Values of `null_matching_behavior` that never give NULL."""


def from_arrow(expression: Any) -> Expr:
    """The filter tree of a `pyarrow.compute.Expression`.

    Raises:
        InvalidInputError: it has a function, an option or a constant that filters do not have, or nests too deeply.
    """
    try:
        # The public way to its serialised form: what pickle stores.
        serialised = expression.__reduce__()[1][0]
        batch = pa.ipc.open_file(serialised).get_batch(0)
        tokens = _metadata(batch.schema)
        condition = _ExpressionReader(iter(tokens), batch).read()
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(
            f"the filter {expression} has no translation ({error}); write it as SQL text"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    if depth(condition) > MAX_TREE_DEPTH:
        raise _too_deep()
    return condition


def _too_deep() -> InvalidInputError:
    return InvalidInputError(f"the filter nests more than {MAX_TREE_DEPTH} operators in one another")


class _ExpressionReader:
    """Reads an expression from its tokens."""

    def __init__(self, tokens: Iterator[Token], constants: pa.RecordBatch) -> None:
        self._tokens = tokens
        self._constants = constants

    def read(self) -> Expr:
        """The expression that begins with the next token."""
        return self._expression(next(self._tokens))

    def _expression(self, token: Token) -> Expr:
        kind, value = token
        if kind == "field_ref":
            return Column((value,))
        if kind == "nested_field_ref":
            return Column(tuple(next(self._tokens)[1] for _ in range(int(value))))
        if kind == "literal":
            return literal(self._constants.column(int(value))[0])
        if kind == "call":
            return self._call(value)
        raise InvalidInputError(f"pyarrow's {kind.replace('_', ' ')} is not supported in filters; write it as SQL text")

    def _call(self, function: str) -> Expr:
        arguments: list[Expr] = []
        options: Options = {}
        while (token := next(self._tokens))[0] != "end":
            if token[0] == "options":
                options = self._constants.column(int(token[1]))[0]
            else:
                arguments.append(self._expression(token))
        if function not in _FUNCTIONS:
            raise InvalidInputError(
                f"pyarrow's function {function} is not supported in filters; write the condition as SQL text"
            )
        return _FUNCTIONS[function](arguments, options)


def _comparison(op: ComparisonOp) -> Callable[[list[Expr], Options], Expr]:
    return lambda arguments, _: Comparison(op, *arguments)


def _is_null(arguments: list[Expr], options: Options) -> Expr:
    (value,) = arguments
    with_nan = "nan_is_null" in options and options["nan_is_null"].as_py()
    return Or((IsNull(value), IsNan(value))) if with_nan else IsNull(value)


def _is_nan(arguments: list[Expr], _: Options) -> Expr:
    (value,) = arguments
    # NULL for a null, where `IsNan` alone is FALSE: the difference shows below NOT.
    return Or((IsNan(value), Comparison(ComparisonOp.NE, value, value)))


def _is_in(arguments: list[Expr], options: Options) -> Expr:
    (value,) = arguments
    nulls = options["null_matching_behavior"].as_py()
    if nulls not in (_NULLS_MATCH_NULLS, _NULLS_MATCH_NOTHING):
        raise InvalidInputError("pyarrow's is_in is supported with null_matching_behavior MATCH and SKIP only")
    # As Arrow's scalars: Python's values have no nanoseconds.
    values = options["value_set"].values
    constants = tuple(literal(item) for item in values if item.is_valid)
    # Unlike IN, is_in is never NULL.
    condition = And((Not(IsNull(value)), In(value, constants))) if constants else FALSE
    if nulls == _NULLS_MATCH_NULLS and len(constants) < len(values):
        return Or((IsNull(value), condition)) if constants else IsNull(value)
    return condition


def _string_match(op: StringMatchOp) -> Callable[[list[Expr], Options], Expr]:
    return lambda arguments, options: StringMatch(op, arguments[0], _pattern(options))


def _pattern(options: Options) -> str:
    if options["ignore_case"].as_py():
        raise InvalidInputError("pyarrow's ignore_case is not supported in filters; write the condition as SQL text")
    pattern = options["pattern"].as_py()
    return pattern.decode() if isinstance(pattern, bytes) else str(pattern)


_FUNCTIONS: dict[str, Callable[[list[Expr], Options], Expr]] = {
    "equal": _comparison(ComparisonOp.EQ),
    "not_equal": _comparison(ComparisonOp.NE),
    "less": _comparison(ComparisonOp.LT),
    "less_equal": _comparison(ComparisonOp.LE),
    "greater": _comparison(ComparisonOp.GT),
    "greater_equal": _comparison(ComparisonOp.GE),
    "and_kleene": lambda arguments, _: And(tuple(arguments)),
    "or_kleene": lambda arguments, _: Or(tuple(arguments)),
    "invert": lambda arguments, _: Not(arguments[0]),
    "is_null": _is_null,
    "is_valid": lambda arguments, _: Not(IsNull(arguments[0])),
    "is_nan": _is_nan,
    "is_in": _is_in,
    "starts_with": _string_match(StringMatchOp.STARTS_WITH),
    "ends_with": _string_match(StringMatchOp.ENDS_WITH),
    "match_substring": _string_match(StringMatchOp.CONTAINS),
    "match_like": lambda arguments, options: Like(arguments[0], _pattern(options)),
}
"""The functions with the same results as a node for every value. Arithmetic is not: integers overflow elsewhere."""


def _metadata(schema: pa.Schema) -> list[Token]:
    """All entries of the metadata of a schema in order; pyarrow's own dict keeps one of each name only."""
    # An encapsulated message: a mark and a length of 4 bytes each, then the flatbuffer `Message`.
    message = schema.serialize().to_pybytes()[8:]
    header = _member(message, _target(message, 0), 2)
    entries = _member(message, header, 2)
    (count,) = struct.unpack_from("<I", message, entries)
    places = [_target(message, entries + 4 + 4 * number) for number in range(count)]
    return [
        (_text(message, _member(message, place, 0)), _text(message, _member(message, place, 1))) for place in places
    ]


def _target(data: bytes, at: int) -> int:
    """Position that the reference at `at` points to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _member(data: bytes, table: int, number: int) -> int:
    """Position that a member of a flatbuffer's table, a reference, points to."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number)
    return _target(data, table + offset)


def _text(data: bytes, at: int) -> str:
    (length,) = struct.unpack_from("<I", data, at)
    return data[at + 4 : at + 4 + length].decode()
