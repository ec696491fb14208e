"""Small tables that are an answer by themselves, not read by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StructField, StructType

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Rows for the JVM: values as text, those of arrays in lists, those of maps in lists of pairs."""

    schema: StructType
    rows: tuple[object, ...]

    @classmethod
    def of(cls, schema: StructType, rows: Iterable[Sequence[object]]) -> LocalRows:
        """Rows of Python values in the order of the columns."""
        types = [field.dataType for field in schema.fields]
        made = [[_text(value, kind) for value, kind in zip(row, types, strict=True)] for row in rows]
        return cls(schema, tuple(made))


def row_type(**columns: DataType) -> StructType:
    """A schema of columns that may be null."""
    return StructType([StructField(name, kind, True) for name, kind in columns.items()])


def _text(value: object, kind: DataType) -> object:
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        assert isinstance(value, (list, tuple)), "a column of arrays has lists"
        return [_text(item, kind.elementType) for item in value]
    if isinstance(kind, MapType):
        assert isinstance(value, dict), "a column of maps has dictionaries"
        return [[_text(key, kind.keyType), _text(item, kind.valueType)] for key, item in value.items()]
    if isinstance(kind, BooleanType):
        return "true" if value else "false"
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        return str((moment - _EPOCH) // _MICROSECOND)
    return str(value)
