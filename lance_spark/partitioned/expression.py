"""Partition expressions: DataFusion's SQL on `col0`, `col1`... (partitioning specification, Partition Expression).

They are evaluated by the `datafusion` package, an optional extra. The specification wants them deterministic and
without state: every word must be a column, a function that DataFusion itself calls deterministic, or part of a small
grammar, so `now()`, `random()` and subqueries are refused. `murmur3` and `murmur3_multi` are added, see `hashing`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.values import Family, family_of
from lance_spark.partitioned.transforms.identity import one_zero_one_nan, unwrapped, value_type
from lance_spark.partitioned.values.hashing import murmur3_multi
from lance_spark.partitioned.values.key_space import plain_type_of

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^']|'')*') | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*) | (?P<sign>::|\|\||<=|>=|<>|!=|[-+*/%=<>(),\[\]&|^~!])
    )""",
    re.VERBOSE,
)
_COLUMN = re.compile(r"col(0|[1-9][0-9]{0,3})\Z")
_HASHES = ("murmur3", "murmur3_multi")
_GRAMMAR = """
    and as at between case cast distinct else end escape extract false from ilike in interval is like not null or
    similar then to true try_cast when
    bigint binary boolean bytea char date decimal double float int integer numeric precision real smallint string text
    time timestamp tinyint unsigned varchar with without zone
    century day decade dow doy epoch hour isodow isoyear microsecond millisecond minute month quarter second week year
"""
_WORDS = frozenset(_GRAMMAR.split())
"""Words besides columns and functions; some are functions too."""

_PROMOTIONS: dict[Family | None, tuple[pa.DataType, ...]] = {
    Family.INTEGER: (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    Family.FLOAT: (pa.float32(), pa.float64()),
}
_SAMPLES = (0, 1, 2, 5, 9, 10, 11, 99, 100, 127, -1, -5, -10, -128, None)


def evaluate_expression(expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
    """The value of the expression for each row, in `result_type`.

    Args:
        expression: DataFusion's SQL.
        columns: the values of `col0`, `col1`..., of one length.
        result_type: the declared type.

    Raises:
        UnsupportedFeatureError: the package `datafusion` is not installed.
        InvalidInputError: the expression is not one that may partition, fails, or gives values of another type.
    """
    plain_columns = [unwrapped(column) for column in columns]
    values = _evaluate(expression, [column.cast(value_type(column.type)) for column in plain_columns])
    if not _is_consistent(values.type, result_type):
        raise InvalidInputError(
            f"partition expression {expression!r} gives {values.type}, but its result_type is {result_type}"
        )
    try:
        return one_zero_one_nan(values.cast(result_type))
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"partition expression {expression!r} gives no {result_type}: {error}") from error


def type_of_expression(expression: str, sources: Sequence[pa.DataType]) -> pa.DataType:
    """The type of its values, for columns of the types `sources`; it meets the specification's requirements.

    Raises: as `check_expression`.
    """
    result_type = value_type(_evaluate(expression, [pa.nulls(1, value_type(source)) for source in sources]).type)
    if pa.types.is_null(result_type):
        raise InvalidInputError(f"partition expression {expression!r} is always NULL")
    check_expression(expression, sources, result_type)
    return result_type


def check_expression(expression: str, sources: Sequence[pa.DataType], result_type: pa.DataType) -> None:
    """Nothing, if the expression meets the specification's requirements as far as they can be tested.

    Tested are: only deterministic functions; the result type; that a row of NULLs has a value; that integers and floats
    give the same values in all widths.

    Raises:
        UnsupportedFeatureError: the package `datafusion` is not installed.
        InvalidInputError: it does not.
    """
    evaluate_expression(expression, [pa.nulls(1, value_type(source)) for source in sources], result_type)
    for position, source in enumerate(sources):
        widths = _PROMOTIONS.get(family_of(plain_type_of(source)), ())
        _check_promotion(expression, sources, position, widths)


def _check_promotion(
    expression: str, sources: Sequence[pa.DataType], position: int, types: tuple[pa.DataType, ...]
) -> None:
    """One column takes the sample values in all widths, the others are null or the sample too."""
    results: dict[pa.DataType, list[Any]] = {}
    for type_ in types:
        columns = [pa.nulls(len(_SAMPLES), value_type(source)) for source in sources]
        columns[position] = pa.array(_SAMPLES, pa.int64()).cast(type_)
        results[type_] = _evaluate(expression, columns).to_pylist()
    if len({repr(values) for values in results.values()}) > 1:
        raise InvalidInputError(
            f"partition expression {expression!r} gives different values for equal numbers in columns of type "
            f"{', '.join(map(str, types))}; CAST the column to one type first"
        )


def _is_consistent(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Whether `actual` is null or of the same family as `declared`.

    The specification's own `abs(murmur3(col0)) % N` is int64 in DataFusion and declared as int32.
    """
    return pa.types.is_null(actual) or len({family_of(plain_type_of(type_)) for type_ in (actual, declared)}) == 1


def _datafusion() -> Any:
    try:
        import datafusion
    except ImportError as error:
        raise UnsupportedFeatureError(
            "partition fields with an expression need the package datafusion: pip install 'lance-spark[datafusion]'",
            feature="partition expression",
        ) from error
    return datafusion


def _tokens(expression: str) -> Iterator[tuple[str, str, int]]:
    """(kind, text, end) of each token."""
    position = 0
    stripped = expression.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None or stripped.startswith(("--", "/*"), match.start(match.lastgroup or 0)):
            raise InvalidInputError(
                f"partition expression {expression!r} has an unexpected {stripped[position:].lstrip()[:10]!r}"
            )
        kind = match.lastgroup or ""
        yield kind, match[kind], match.end()
        position = match.end()


@functools.cache
def _deterministic_functions() -> frozenset[str]:
    datafusion = _datafusion()
    context = datafusion.SessionContext(datafusion.SessionConfig().with_information_schema(True))
    rows = context.sql(
        "SELECT routine_name, bool_and(is_deterministic) AS always, bool_and(function_type = 'SCALAR') AS scalar "
        "FROM information_schema.routines GROUP BY routine_name"
    ).to_arrow_table()
    names = {row["routine_name"] for row in rows.to_pylist() if row["always"] and row["scalar"]}
    # What a version or session says of itself is no function of the row.
    return frozenset(names - {"version"}) | {*_HASHES}


def _check_words(expression: str, num_columns: int) -> None:
    tokens = list(_tokens(expression))
    if not tokens:
        raise InvalidInputError("a partition expression is empty")
    for (kind, text, _), following in zip(tokens, [*(token[1] for token in tokens[1:]), ""], strict=True):
        word = text.lower()
        if kind != "word" or (word in _WORDS and following != "("):
            continue
        column = _COLUMN.match(word)
        if column is not None and int(column[1]) < num_columns:
            continue
        if following == "(" and (word in _WORDS or word in _deterministic_functions()):
            continue
        reason = f"has {num_columns} columns, no {text}" if column is not None else f"may not use {text}"
        raise InvalidInputError(
            f"partition expression {expression!r} {reason}: columns are col0, col1..., functions must be deterministic"
        )


def _evaluate(expression: str, columns: Sequence[pa.Array]) -> pa.Array:
    datafusion = _datafusion()
    _check_words(expression, len(columns))
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    names = [f"col{position}" for position in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(list(columns), names)
    context.register_record_batches("source", [[batch]])
    try:
        frame = context.sql(f"SELECT ({_with_hashes(expression, context)}\n) AS value FROM source")
        table = frame.to_arrow_table()
    except InvalidInputError:
        raise
    # The package raises plain Exceptions.
    except Exception as error:
        raise InvalidInputError(f"partition expression {expression!r}: {error}") from error
    if table.num_columns != 1 or table.num_rows != len(columns[0]):
        raise InvalidInputError(f"partition expression {expression!r} is not one value for each row")
    return table.column(0).combine_chunks()


def _with_hashes(expression: str, context: Any) -> str:
    """The expression with a name for each hash call: functions of DataFusion take arguments of fixed types."""
    number = 0
    while (call := _innermost_hash(expression)) is not None:
        start, opening, closing, arguments = call
        types = [_type_of(argument, context) for argument in arguments]
        if not arguments or (expression[start:opening].strip().lower() == "murmur3" and len(arguments) != 1):
            raise InvalidInputError(f"{expression[start : closing + 1]} has {len(arguments)} arguments")
        name = f"lance_hash_{number}"
        # As int64, in which abs(-2**31) has a value.
        context.register_udf(_datafusion().udf(_hash, types, pa.int64(), "immutable", name))
        expression = f"{expression[:start]}{name}{expression[opening:]}"
        number += 1
    return expression


def _hash(*columns: pa.Array) -> pa.Array:
    return murmur3_multi(columns).cast(pa.int64())


def _type_of(argument: str, context: Any) -> pa.DataType:
    return context.sql(f"SELECT ({argument}\n) AS value FROM source").schema().field(0).type


def _innermost_hash(expression: str) -> tuple[int, int, int, list[str]] | None:
    """The first hash call without another in it: where it starts, its parentheses, and its arguments."""
    tokens = list(_tokens(expression))
    for at in range(len(tokens) - 1, -1, -1):
        kind, text, end = tokens[at]
        if kind == "word" and text.lower() in _HASHES and at + 1 < len(tokens) and tokens[at + 1][1] == "(":
            return _call(expression, tokens, at, end - len(text))
    return None


def _call(
    expression: str, tokens: Sequence[tuple[str, str, int]], at: int, start: int
) -> tuple[int, int, int, list[str]]:
    opening = tokens[at + 1][2] - 1
    depth, begin, arguments = 0, opening + 1, []
    for _, text, end in tokens[at + 1 :]:
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if (text == "," and depth == 1) or (text == ")" and depth == 0):
            arguments.append(expression[begin : end - 1].strip())
            begin = end
        if depth == 0:
            return start, opening, end - 1, [argument for argument in arguments if argument]
    raise InvalidInputError(f"partition expression {expression!r} lacks a closing parenthesis")
