"""Columns that are members of structs, also of structs in lists, whose texts are one list for each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field
from lance_spark.schema.logical_type import is_list


def member_type(path: Sequence[Field], *, keeps_lists: bool = False) -> pa.DataType:
    """The type of `member_values` for the fields along a path: lists, if one of those around the last is a list."""
    dtype = to_arrow_type(path[-1])
    if not is_in_list(path):
        return dtype
    if not keeps_lists:
        return pa.large_list(dtype.value_type if _is_list(dtype) else dtype)
    for _ in range(list_levels(path[:-1])):
        dtype = pa.large_list(dtype)
    return dtype


def list_levels(path: Sequence[Field]) -> int:
    """Number of fields along a path that are lists."""
    return sum(is_list(field.logical_type) for field in path)


def names_without_items(path: Sequence[Field]) -> tuple[str, ...]:
    """The names along a path without those of the items of lists."""
    is_item = [False, *(is_list(field.logical_type) for field in path[:-1])]
    return tuple(field.name for field, left_out in zip(path, is_item, strict=True) if not left_out)


def is_member(path: Sequence[Field], *, in_lists: bool) -> bool:
    """Whether all fields of a path around the last are structs, or lists if `in_lists`; items are no columns."""
    around = [field.logical_type for field in path[:-1]]
    is_item = bool(around) and is_list(around[-1])
    return not is_item and all(kind == "struct" or (in_lists and is_list(kind)) for kind in around)


def check_path(path: Sequence[Field], column: str, *, in_lists: bool) -> None:
    """Whether a column is a member in the sense of `is_member`.

    Raises:
        InvalidInputError: it is not.
    """
    if not is_member(path, in_lists=in_lists):
        kinds = "structs, and of structs in lists," if in_lists else "structs"
        around = to_arrow_type(path[-2])
        raise InvalidInputError(f"column {column!r} is inside of a {around}; only members of {kinds} have indexes")


def is_in_list(path: Sequence[Field]) -> bool:
    """Whether one of the fields around the last of a path is a list."""
    return list_levels(path[:-1]) > 0


def member_values(values: pa.Array, names: Sequence[str], *, keeps_lists: bool = False) -> pa.Array:
    """The values of a member of structs, null where a struct around it is null.

    Args:
        names: from the member of `values` down to the last field; items of lists have a name too.
        keeps_lists: whether lists in lists stay lists, and are not joined.

    Returns: where one of the values around the member is a list, one list for each of `values`, which has the members
        of all items in their order. It is empty where a list is null.

    >>> orders = pa.array([[{"note": "new"}, None], None, [{"note": "old"}]])
    >>> member_values(orders, ["item", "note"]).to_pylist()
    [['new', None], [], ['old']]
    """
    for place, name in enumerate(names):
        if _is_list(values.type):
            return _lists_of_members(values, names[place + 1 :], keeps_lists=keeps_lists)
        values = pc.struct_field(values, [name])
    return values


def _lists_of_members(lists: pa.Array, names: Sequence[str], *, keeps_lists: bool) -> pa.LargeListArray:
    offsets = _offsets(lists)
    members = member_values(lists.flatten(), names, keeps_lists=keeps_lists)
    if _is_list(members.type) and not keeps_lists:
        offsets = _offsets(members)[offsets]
        members = members.flatten()
    return pa.LargeListArray.from_arrays(pa.array(offsets), members)


def _offsets(lists: pa.Array) -> npt.NDArray[np.int64]:
    """int64[n + 1]: where each list is in the items of all lists that are not null."""
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype))
