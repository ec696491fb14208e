"""Paths into JSON documents, and their values as columns."""

from __future__ import annotations

import re
from enum import Enum

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.jsonb import Scalar, Step, scalar_at
from lance_spark.expr.values import Operand

_STEP = re.compile(r'\.([A-Za-z_][A-Za-z0-9_]*)|\."([^"]*)"|\[(\d+)\]|\["([^"]*)"\]')
_WHOLE = re.compile("[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_MAX_INT = (1 << 63) - 1


class JsonKind(str, Enum):
    """The type that a value is read as."""

    INT = "int"
    FLOAT = "float"
    STRING = "string"
    BOOL = "bool"

    @property
    def dtype(self) -> pa.DataType:
        """The Arrow type of the values."""
        return {"int": pa.int64(), "float": pa.float64(), "string": pa.string(), "bool": pa.bool_()}[self.value]


def json_steps(path: str) -> tuple[Step, ...]:
    """The keys and positions of a path such as ``$.a."b c"[0]``; any other text is one key.

    >>> json_steps('$.a."b c"[0]'), json_steps("a.b")
    (('a', 'b c', 0), ('a.b',))

    Raises:
        InvalidInputError: it begins with ``$`` and is no such path.
    """
    if not path.startswith("$"):
        return (path,)
    steps: list[Step] = []
    position = 1
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise InvalidInputError(f'{path!r} is no path into JSON; write it as $.key[0]."other key"')
        name, quoted, number, bracketed = match.groups()
        keys = [key for key in (name, quoted, bracketed) if key is not None]
        steps.append(keys[0] if keys else int(number))
        position = match.end()
    return tuple(steps)


def json_values(documents: Operand, steps: tuple[Step, ...], kind: JsonKind) -> pa.Array:
    """The values at a path; null where there is none, or it is not one of this kind and cannot be converted.

    Raises:
        InvalidInputError: the documents are no binary JSON.
    """
    if isinstance(documents, pa.Scalar) or not (pt.is_binary(documents.type) or pt.is_large_binary(documents.type)):
        raise InvalidInputError(f"json_get_{kind.value} takes a JSON column, got {documents.type}")
    scalars = (None if item is None else scalar_at(item, steps)[1] for item in documents.to_pylist())
    return pa.array([None if value is None else _CONVERTED[kind](value) for value in scalars], kind.dtype)


def _to_int(value: Scalar) -> int | None:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    number = value if isinstance(value, int) else _to_float(value)
    if isinstance(number, float):
        number = int(number + (0.5 if number >= 0 else -0.5)) if abs(number) < _MAX_INT else None
    return int(number) if number is not None and -_MAX_INT - 1 <= number <= _MAX_INT else None


def _to_float(value: Scalar) -> float | None:
    if value is None or (isinstance(value, str) and _NUMBER.fullmatch(value) is None):
        return None
    return float(value)


def _to_string(value: Scalar) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # As the reference library, which writes exponents without zeros in front.
        return "NaN" if value != value else re.sub("e([+-])0+", r"e\1", repr(value))
    return None if value is None else str(value)


def _to_bool(value: Scalar) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value) if isinstance(value, str) else None


_CONVERTED = {
    JsonKind.INT: _to_int,
    JsonKind.FLOAT: _to_float,
    JsonKind.STRING: _to_string,
    JsonKind.BOOL: _to_bool,
}
