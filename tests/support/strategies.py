"""Hypothesis strategies: Arrow types and arrays of them, nested, with what Arrow allows and few producers do.

`arrays` draws the type, the length, the share of nulls and a seed; the values come from the seed, so that examples stay
small to draw and long arrays are cheap. `messy` arrays are slices out of larger ones, hold values under nulls, null
lists that are not empty, and children longer than their parents need.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.support.arrays import LEAF_TYPES, leaf

SIMPLE_TYPES = [
    *LEAF_TYPES.values(),
    pa.null(),
    pa.binary(300),
    pa.list_(pa.list_(pa.int16(), 2), 3),
    pa.list_(pa.bool_(), 5),
]
"""Types of one column without children of its own."""


def data_types(*, maps: bool = True, max_leaves: int = 4) -> st.SearchStrategy[pa.DataType]:
    """Any type that Lance holds, nested at will; `maps` are in file version 2.2 only."""

    def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        options = [inner.map(pa.list_), inner.map(pa.large_list), st.lists(inner, min_size=1, max_size=3).map(_struct)]
        if maps:
            options.append(inner.map(lambda value: pa.map_(pa.string(), value)))
        return st.one_of(options)

    return st.recursive(st.sampled_from(SIMPLE_TYPES), nested, max_leaves=max_leaves)


def _struct(types: list[pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(f"f{number}", dtype) for number, dtype in enumerate(types)])


@st.composite
def arrays(
    draw: st.DrawFn,
    types: st.SearchStrategy[pa.DataType] | None = None,
    *,
    max_length: int = 60,
    maps: bool = True,
    null_structs: bool = True,
) -> pa.Array:
    """An array of a drawn type, sometimes messy, sometimes of nulls only; visible structs are never null on request."""
    dtype = draw(types if types is not None else data_types(maps=maps))
    length = draw(st.integers(0, max_length))
    null_share = draw(st.sampled_from([0.0, 0.2, 0.9, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = messy(dtype, length, null_share, rng) if draw(st.booleans()) else array(dtype, length, null_share, rng)
    return made if null_structs else _without_null_structs(made)


def _without_null_structs(values: pa.Array) -> pa.Array:
    """The same array with the validity of structs removed, also below lists."""
    dtype = values.type
    if not pa.types.is_nested(dtype) or pa.types.is_fixed_size_list(dtype):
        return values
    buffers, length, offset = values.buffers(), len(values), values.offset
    if pa.types.is_struct(dtype):
        members = [_without_null_structs(values.field(number)) for number in range(dtype.num_fields)]
        return pa.Array.from_buffers(dtype, length, [None], children=members)
    items = _without_null_structs(values.values)
    return pa.Array.from_buffers(dtype, length, buffers[:2], offset=offset, children=[items])


def array(
    dtype: pa.DataType, length: int, null_share: float, rng: np.random.Generator, *, dirty: bool = False
) -> pa.Array:
    """`length` values of any type; `dirty`: nulls may hide values, and children may be longer than needed."""
    nulls = rng.random(length) < null_share if null_share else None
    if pa.types.is_null(dtype):
        return pa.nulls(length)
    if pa.types.is_struct(dtype):
        children = [array(field.type, length, null_share, rng, dirty=dirty) for field in dtype]
        return pa.Array.from_buffers(dtype, length, [_validity(nulls)], children=children)
    if pa.types.is_map(dtype):
        entry = pa.struct([dtype.key_field, dtype.item_field])
        entries = _list(pa.list_(entry), length, nulls, rng, dirty, null_share)
        return pa.Array.from_buffers(dtype, length, entries.buffers()[:2], children=[entries.values])
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return _list(dtype, length, nulls, rng, dirty, null_share)
    if pa.types.is_fixed_size_list(dtype):
        return _fixed_size_list(dtype, length, nulls, rng, null_share)
    values = leaf(dtype, length, null_share, rng)
    return _with_hidden_values(values, rng) if dirty else values


def messy(dtype: pa.DataType, length: int, null_share: float, rng: np.random.Generator) -> pa.Array:
    """A slice of a longer dirty array."""
    before, after = int(rng.integers(0, 20)), int(rng.integers(0, 20))
    return array(dtype, before + length + after, null_share, rng, dirty=True).slice(before, length)


def _validity(nulls: np.ndarray | None) -> pa.Buffer | None:
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())


def _with_hidden_values(values: pa.Array, rng: np.random.Generator) -> pa.Array:
    """More values become null, so that the new ones hide what they were."""
    nulls = rng.random(len(values)) < 0.2
    if len(values) == 0 or pa.types.is_dictionary(values.type):
        return values
    valid = ~(nulls | np.asarray(values.is_null()))
    return pa.Array.from_buffers(values.type, len(values), [_validity(~valid), *values.buffers()[1:]])


def _list(
    dtype: pa.DataType,
    length: int,
    nulls: np.ndarray | None,
    rng: np.random.Generator,
    dirty: bool,
    null_share: float,
) -> pa.Array:
    lengths = rng.integers(0, 4, length)
    if rng.random() < 0.2:
        lengths[:] = 1
    if nulls is not None and not dirty:
        lengths[nulls] = 0
    first = int(rng.integers(0, 5)) if dirty else 0
    offsets = first + np.concatenate([[0], np.cumsum(lengths)])
    entry = dtype.value_type
    num_items = int(offsets[-1]) + (3 if dirty else 0)
    items = _entries(entry, num_items, null_share, rng, dirty) if _is_entry(entry) else None
    if items is None:
        items = array(entry, num_items, null_share, rng, dirty=dirty)
    kind = "<i8" if pa.types.is_large_list(dtype) else "<i4"
    return pa.Array.from_buffers(
        dtype, length, [_validity(nulls), pa.py_buffer(offsets.astype(kind).tobytes())], children=[items]
    )


def _is_entry(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_struct(dtype) and dtype.num_fields == 2 and not dtype.field(0).nullable)


def _entries(dtype: pa.DataType, length: int, null_share: float, rng: np.random.Generator, dirty: bool) -> pa.Array:
    """Entries of maps: neither they nor their keys are null."""
    keys = array(dtype.field(0).type, length, 0.0, rng)
    values = array(dtype.field(1).type, length, null_share, rng, dirty=dirty)
    return pa.Array.from_buffers(dtype, length, [None], children=[keys, values])


def _fixed_size_list(
    dtype: pa.DataType, length: int, nulls: np.ndarray | None, rng: np.random.Generator, null_share: float
) -> pa.Array:
    item_nulls = null_share if rng.random() < 0.5 else 0.0
    items = array(dtype.value_type, length * dtype.list_size, item_nulls, rng)
    return pa.Array.from_buffers(dtype, length, [_validity(nulls)], children=[items])
