"""Deterministic Arrow arrays of every type that Lance holds, of any length and share of nulls, nested at will."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

LEAF_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "time32_s": pa.time32("s"),
    "time32_ms": pa.time32("ms"),
    "time64_us": pa.time64("us"),
    "time64_ns": pa.time64("ns"),
    "timestamp_s": pa.timestamp("s"),
    "timestamp_us_utc": pa.timestamp("us", "UTC"),
    "timestamp_ns_zone": pa.timestamp("ns", "Europe/Berlin"),
    "duration_ms": pa.duration("ms"),
    "decimal128": pa.decimal128(38, 5),
    "decimal256": pa.decimal256(60, 5),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "fixed_size_binary": pa.binary(7),
    "fixed_size_list": pa.list_(pa.float32(), 4),
    "wide_fixed_size_list": pa.list_(pa.float32(), 96),
    "dictionary": pa.dictionary(pa.int16(), pa.string()),
}


def validity(n: int, null_share: float, rng: np.random.Generator) -> np.ndarray | None:
    """True where null; None when nothing is."""
    if null_share == 0 or n == 0:
        return None
    return rng.random(n) < null_share


def _null_buffer(nulls: np.ndarray | None) -> pa.Buffer | None:
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())


def _fixed(dtype: pa.DataType, n: int, nulls: np.ndarray | None, rng: np.random.Generator) -> pa.Array:
    raw = _raw_values(dtype, n, rng)
    return pa.Array.from_buffers(dtype, n, [_null_buffer(nulls), pa.py_buffer(raw)])


def _raw_values(dtype: pa.DataType, n: int, rng: np.random.Generator) -> bytes:
    if pa.types.is_boolean(dtype):
        return np.packbits(rng.random(n) < 0.5, bitorder="little").tobytes()
    if pa.types.is_floating(dtype):
        values = rng.standard_normal(n)
        values[::7] = np.nan
        values[::11] = -0.0
        return values.astype(dtype.to_pandas_dtype()).tobytes()
    width = dtype.byte_width
    if pa.types.is_decimal(dtype):
        low = rng.integers(-(2**60), 2**60, n)
        words = np.repeat((low >> 63)[:, None], width // 8, axis=1)
        words[:, 0] = low
        return words.astype("<i8").tobytes()
    if pa.types.is_fixed_size_binary(dtype):
        return rng.bytes(width * n)
    if pa.types.is_date64(dtype):
        return (rng.integers(-20000, 20000, n) * 86_400_000).astype("<i8").tobytes()
    if pa.types.is_time32(dtype) or pa.types.is_time64(dtype):
        return rng.integers(0, 86_399, n).astype(f"<i{width}").tobytes()
    if pa.types.is_unsigned_integer(dtype):
        return rng.integers(0, 2 ** (8 * width) - 1, n, dtype=np.uint64).astype(f"<u{width}").tobytes()
    spread = min(2 ** (8 * width - 1) - 1, 10_000)
    return rng.integers(-spread, spread, n).astype(f"<i{width}").tobytes()


def _variable(dtype: pa.DataType, n: int, nulls: np.ndarray | None, rng: np.random.Generator) -> pa.Array:
    lengths = rng.integers(0, 14, n)
    if nulls is not None:
        lengths[nulls] = 0
    wide = pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("<i8" if wide else "<i4")
    data = rng.integers(97, 123, int(offsets[-1]), dtype=np.uint8).tobytes()
    return pa.Array.from_buffers(dtype, n, [_null_buffer(nulls), pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])


def leaf(dtype: pa.DataType, n: int, null_share: float, rng: np.random.Generator) -> pa.Array:
    """`n` values of a leaf type, about `null_share` of them null."""
    nulls = validity(n, null_share, rng)
    if pa.types.is_dictionary(dtype):
        values = pa.array([f"word {i}" for i in range(50)], dtype.value_type)
        codes = pa.array(rng.integers(0, 50, n), dtype.index_type, mask=nulls)
        return pa.DictionaryArray.from_arrays(codes, values)
    if pa.types.is_fixed_size_list(dtype):
        items = leaf(dtype.value_type, n * dtype.list_size, 0.0, rng)
        return pa.Array.from_buffers(dtype, n, [_null_buffer(nulls)], children=[items])
    if dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return _variable(dtype, n, nulls, rng)
    return _fixed(dtype, n, nulls, rng)


def list_of(item: Callable[[int], pa.Array], n: int, null_share: float, rng: np.random.Generator) -> pa.Array:
    """Lists of 0 to 4 items; `item(k)` makes k of them."""
    nulls = validity(n, null_share, rng)
    lengths = rng.integers(0, 5, n)
    if nulls is not None:
        lengths[nulls] = 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("<i4")
    items = item(int(offsets[-1]))
    return pa.Array.from_buffers(
        pa.list_(items.type), n, [_null_buffer(nulls), pa.py_buffer(offsets.tobytes())], children=[items]
    )


def struct_of(children: dict[str, pa.Array], null_share: float, rng: np.random.Generator) -> pa.Array:
    """A struct of equally long children."""
    n = len(next(iter(children.values())))
    nulls = validity(n, null_share, rng)
    mask = None if nulls is None else pa.array(nulls)
    return pa.StructArray.from_arrays(list(children.values()), list(children), mask=mask)


def map_of(n: int, null_share: float, rng: np.random.Generator) -> pa.Array:
    """Maps of strings to nullable 64-bit integers."""
    nulls = validity(n, null_share, rng)
    lengths = rng.integers(0, 4, n)
    if nulls is not None:
        lengths[nulls] = 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("<i4")
    total = int(offsets[-1])
    keys = pa.array([f"k{i}" for i in range(total)], pa.string())
    entries = pa.StructArray.from_arrays(
        [keys, leaf(pa.int64(), total, null_share / 2, rng)],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())],
    )
    return pa.Array.from_buffers(
        pa.map_(pa.string(), pa.int64()), n, [_null_buffer(nulls), pa.py_buffer(offsets.tobytes())], children=[entries]
    )


def leaves_table(n: int, null_share: float, seed: int = 0) -> pa.Table:
    """One column a leaf type."""
    rng = np.random.default_rng(seed)
    columns = {name: leaf(dtype, n, null_share, rng) for name, dtype in LEAF_TYPES.items()}
    columns["null"] = pa.nulls(n)
    columns["constant"] = pa.array(np.full(n, 7), mask=validity(n, null_share, rng))
    columns["runs"] = pa.array(np.arange(n) // 100, mask=validity(n, null_share, rng))
    columns["words"] = pa.array([f"word {i % 20}" for i in range(n)], mask=validity(n, null_share, rng))
    return pa.table(columns)


def nested_table(n: int, null_share: float, seed: int = 0, *, maps: bool = True, null_structs: bool = True) -> pa.Table:
    """Lists, structs and maps in each other, nulls and empties at every level."""
    rng = np.random.default_rng(seed)
    structs = null_share if null_structs else 0.0

    def numbers(k: int) -> pa.Array:
        return leaf(pa.int32(), k, null_share, rng)

    def words(k: int) -> pa.Array:
        return leaf(pa.string(), k, null_share, rng)

    def pair(k: int) -> pa.Array:
        return struct_of({"a": numbers(k), "b": words(k)}, structs, rng)

    columns = {
        "list_int": list_of(numbers, n, null_share, rng),
        "list_string": list_of(words, n, null_share, rng),
        "list_list": list_of(lambda k: list_of(numbers, k, null_share, rng), n, null_share, rng),
        "struct": pair(n),
        "struct_struct": struct_of({"s": pair(n), "c": leaf(pa.float64(), n, null_share, rng)}, structs, rng),
        "list_struct": list_of(pair, n, null_share, rng),
        "struct_list": struct_of({"l": list_of(words, n, null_share, rng), "x": numbers(n)}, structs, rng),
        "deep": list_of(
            lambda k: struct_of({"l": list_of(pair, k, null_share, rng), "y": numbers(k)}, structs, rng),
            n,
            null_share,
            rng,
        ),
        "list_vector": list_of(lambda k: leaf(pa.list_(pa.float32(), 3), k, null_share, rng), n, null_share, rng),
    }
    if maps:
        columns["map"] = map_of(n, null_share, rng)
    return pa.table(columns)
