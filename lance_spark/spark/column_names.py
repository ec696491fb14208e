"""Names of columns and tables: as statements write them, and the validation of those to write."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import quote_name
from lance_spark.schema.projection import parse_path


def in_sql(path: str) -> str:
    """A dotted path of a column as a statement writes it.

    >>> in_sql("s.a b"), in_sql("s.`a.b`")
    ('s.`a b`', 's.`a.b`')
    """
    return quoted_name(parse_path(path))


def quoted_name(parts: Sequence[str]) -> str:
    """The name of these parts as a statement writes it."""
    return ".".join(map(quote_name, parts))


def check_distinct(columns: StructType, *, case_sensitive: bool) -> None:
    """Checks that the columns, and the members of each struct, have distinct names.

    Raises:
        InvalidInputError: two of them have the same name, or names that differ only in case unless
            `case_sensitive`.
    """
    _check(columns, "", case_sensitive)


def _check(dtype: DataType, path: str, case_sensitive: bool) -> None:
    if isinstance(dtype, StructType):
        known: dict[str, str] = {}
        for name, member in zip(dtype.fieldNames(), dtype.fields, strict=True):
            folded = name if case_sensitive else name.lower()
            if folded in known:
                raise _twice(path + known[folded], path + name)
            known[folded] = name
            _check(member.dataType, f"{path}{name}.", case_sensitive)
    elif isinstance(dtype, ArrayType):
        _check(dtype.elementType, f"{path}element.", case_sensitive)
    elif isinstance(dtype, MapType):
        _check(dtype.keyType, f"{path}key.", case_sensitive)
        _check(dtype.valueType, f"{path}value.", case_sensitive)


def _twice(one: str, other: str) -> InvalidInputError:
    if one == other:
        return InvalidInputError(f"the rows have several columns {one!r}; give each of them another name")
    return InvalidInputError(f"the rows have columns {one!r} and {other!r}, which differ in case only; rename one")
