"""The scalar functions of a filter: names and numbers of arguments."""

from __future__ import annotations

from enum import Enum


class FunctionName(str, Enum):
    """A scalar function, under its Spark name, or under its name in the reference library if Spark does not have it."""

    LOWER = "lower"
    UPPER = "upper"
    LENGTH = "length"
    OCTET_LENGTH = "octet_length"
    BIT_LENGTH = "bit_length"
    SUBSTRING = "substring"
    LEFT = "left"
    RIGHT = "right"
    TRIM = "trim"
    LTRIM = "ltrim"
    RTRIM = "rtrim"
    BTRIM = "btrim"
    LPAD = "lpad"
    RPAD = "rpad"
    REPEAT = "repeat"
    REVERSE = "reverse"
    REPLACE = "replace"
    INSTR = "instr"
    SPLIT_PART = "split_part"
    CONCAT = "concat"
    CONCAT_WS = "concat_ws"
    REGEXP_LIKE = "regexp_like"
    REGEXP_MATCH = "regexp_match"
    COALESCE = "coalesce"
    IF = "if"
    GREATEST = "greatest"
    LEAST = "least"
    ABS = "abs"
    SIGN = "sign"
    ROUND = "round"
    FLOOR = "floor"
    CEIL = "ceil"
    SQRT = "sqrt"
    EXP = "exp"
    POWER = "power"
    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEKOFYEAR = "weekofyear"
    DAY = "day"
    DAYOFYEAR = "dayofyear"
    DAYOFWEEK = "dayofweek"
    ISODOW = "isodow"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    MILLISECOND = "millisecond"
    MICROSECOND = "microsecond"
    EPOCH = "epoch"
    DATE_TRUNC = "date_trunc"
    CARDINALITY = "cardinality"
    ARRAY_ELEMENT = "array_element"


FUNCTION_ARITIES: dict[FunctionName, tuple[int, int | None]] = dict.fromkeys(FunctionName, (1, 1)) | {
    FunctionName.SUBSTRING: (2, 3),
    FunctionName.LEFT: (2, 2),
    FunctionName.RIGHT: (2, 2),
    FunctionName.BTRIM: (1, 2),
    FunctionName.LPAD: (2, 3),
    FunctionName.RPAD: (2, 3),
    FunctionName.REPEAT: (2, 2),
    FunctionName.REPLACE: (3, 3),
    FunctionName.INSTR: (2, 2),
    FunctionName.SPLIT_PART: (3, 3),
    FunctionName.CONCAT: (1, None),
    FunctionName.CONCAT_WS: (2, None),
    FunctionName.REGEXP_LIKE: (2, 3),
    FunctionName.REGEXP_MATCH: (2, 3),
    FunctionName.COALESCE: (1, None),
    FunctionName.IF: (3, 3),
    FunctionName.GREATEST: (2, None),
    FunctionName.LEAST: (2, None),
    FunctionName.ROUND: (1, 2),
    FunctionName.POWER: (2, 2),
    FunctionName.DATE_TRUNC: (2, 2),
    FunctionName.ARRAY_ELEMENT: (2, 2),
}
"""Minimum and maximum number of arguments; None for no limit."""
