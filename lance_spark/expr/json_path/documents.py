"""Whole documents of binary JSON (`jsonb`), as JSON text and from it."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path import jsonb
from lance_spark.kernels.documents.json_text import DEPTH, FIELDS, measure, write
from lance_spark.kernels.jit import address_of

JsonItem = Any
"""None, bool, int, float, str, a list of items, or a dict of items by key."""

PathTree: TypeAlias = "dict[jsonb.Step, PathTree]"
"""The steps of several paths into a document; at the end of a path nothing follows."""

_TOO_DEEP = "a JSON document is nested too deeply"

_CONTAINERS = (list, dict)

_MANY = 128
"""Documents that are worth compiled code, which takes half a second to load."""

_BYTES_OF_DOUBLE = 9
_MAX_BYTES = (1 << 31) - 1


def json_item(data: bytes) -> JsonItem:
    """The document in Python's types.

    >>> json_item(bytes.fromhex("40000001 10000001 20000002 61 5005"))
    {'a': 5}

    Raises:
        InvalidInputError: the bytes are no binary JSON.
    """
    return jsonb.checked(data, lambda: _item(data, *jsonb.root(data)))


def json_text(data: bytes, tree: PathTree | None = None) -> str:
    """The document as JSON text, without spaces, with keys in their stored order.

    NaN and infinities, which the reference library writes for numbers that are too large, are null, as there.

    Args:
        tree: the paths whose values are wanted; other members are left out, other items of arrays are null.

    Raises:
        InvalidInputError: the bytes are no binary JSON, or are nested too deeply.
    """
    item = json_item(data) if tree is None else jsonb.checked(data, lambda: _part(data, jsonb.root(data), tree))
    try:
        return _dumped(item)
    except RecursionError:
        # Compiled code needs no stack of Python's.
        whole = written_texts(pa.array([data], pa.large_binary()))
        if whole is None:
            raise InvalidInputError(_TOO_DEEP) from None
        return str(whole[0].as_py())


def _dumped(item: JsonItem) -> str:
    try:
        return json.dumps(item, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(item), ensure_ascii=False, separators=(",", ":"))


def json_part(data: bytes, steps: tuple[jsonb.Step, ...]) -> str | None:
    """JSON text of the value at a path, as the reference library (14.0.2) writes it; None if there is no value.

    >>> json_part(bytes.fromhex("40000001 10000001 20000002 61 5005"), ("a",))
    '5'

    Raises:
        InvalidInputError: the bytes are no binary JSON.
    """
    member = jsonb.checked(data, lambda: jsonb.found_at(data, steps))
    if member is None:
        return None
    try:
        return _written(jsonb.checked(data, lambda: _item(data, *member)))
    except RecursionError:
        raise InvalidInputError(_TOO_DEEP) from None


def _written(item: JsonItem) -> str:
    if isinstance(item, dict):
        return "{" + ",".join(f"{_written(key)}:{_written(value)}" for key, value in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ",".join(map(_written, item)) + "]"
    if isinstance(item, float):
        return _written_float(item)
    return json.dumps(item, ensure_ascii=False)


def _written_float(value: float) -> str:
    if not math.isfinite(value):
        return "null"
    text = re.sub("e([+-])0+", r"e\1", repr(value))
    if not text.endswith("e-5"):
        return text
    # Python changes to exponents one decimal place earlier.
    digits = text.removesuffix("e-5").removeprefix("-").replace(".", "")
    return f"{'-' if value < 0 else ''}0.0000{digits}"


def json_document(text: str) -> bytes:
    """The binary form of JSON text, byte for byte as the reference library (14.0.2) writes it.

    Raises:
        InvalidInputError: the text is no JSON, has a key twice in one object, or is nested too deeply.
    """
    try:
        item = json.loads(text, object_pairs_hook=_object, parse_constant=_refused_number)
        kind, payload = _encoded(item)
    except RecursionError:
        raise InvalidInputError(_TOO_DEEP) from None
    except ValueError as error:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise InvalidInputError(f"{shown!r} is no JSON: {error}") from error
    return payload if kind == jsonb.CONTAINER else struct.pack(">II", jsonb.SCALAR, kind | len(payload)) + payload


def json_texts(documents: pa.Array) -> pa.Array:
    """The text of each document (binary or large_binary): string; null for null. Raises as `json_text`."""
    texts = written_texts(documents) if len(documents) >= _MANY else None
    if texts is not None:
        return texts
    return pa.array([None if item is None else json_text(item) for item in documents.to_pylist()], pa.string())


def json_documents(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    """The binary form of each text, as `dtype`; null for null. Raises as `json_document`."""
    return pa.array([None if item is None else json_document(item) for item in texts.to_pylist()], dtype)


def _item(data: bytes, kind: int, start: int, size: int) -> JsonItem:
    stack: list[JsonItem] = [None]
    pending: list[tuple[Any, int | str, jsonb.Member]] = [(stack, 0, (kind, start, size))]
    while pending:
        parent, place, (kind, start, size) = pending.pop()
        if kind != jsonb.CONTAINER:
            parent[place] = jsonb.decoded(data, kind, start, size)
            continue
        keys, members = jsonb.members(data, start, start + size)
        made: Any = [None] * len(members) if keys is None else dict.fromkeys(keys)
        parent[place] = made
        places: Sequence[Any] = range(len(members)) if keys is None else keys
        pending += reversed([(made, place, member) for place, member in zip(places, members, strict=True)])
    return stack[0]


def _part(data: bytes, member: jsonb.Member, tree: PathTree) -> JsonItem:
    """Items at the paths of `tree` in a member; None if it has no members itself."""
    kind, start, size = member
    if not tree:
        return _item(data, kind, start, size)
    if kind != jsonb.CONTAINER:
        return None
    keys, members = jsonb.members(data, start, start + size)
    if keys is not None:
        pairs = zip(keys, members, strict=True)
        return {key: _part(data, found, tree[key]) for key, found in pairs if key in tree}
    places = [step for step in tree if isinstance(step, int) and step < len(members)]
    items: list[JsonItem] = [None] * (max(places, default=-1) + 1)
    for place in places:
        items[place] = _part(data, members[place], tree[place])
    return items


def _finite(item: JsonItem) -> JsonItem:
    if isinstance(item, dict):
        return {key: _finite(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_finite(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item


def _object(pairs: list[tuple[str, JsonItem]]) -> dict[str, JsonItem]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object has a key twice")
    return result


def _refused_number(text: str) -> JsonItem:
    raise ValueError(f"{text} is no number of JSON")


def _encoded(item: JsonItem) -> tuple[int, bytes]:
    """(kind of the entry, payload)."""
    containers = [item] if type(item) in _CONTAINERS else []
    for container in containers:
        values = container if type(container) is list else container.values()
        containers += [value for value in values if type(value) in _CONTAINERS]
    # Each after those in it. `json.loads` makes each container an object of its own.
    payloads: dict[int, bytes] = {}
    for container in reversed(containers):
        payloads[id(container)] = _container(container, payloads)
    return _entry(item, payloads)


def _entry(item: JsonItem, payloads: dict[int, bytes]) -> tuple[int, bytes]:
    """(kind of the entry, payload) of a value; `payloads` has those of containers by their identity."""
    if item is None:
        return jsonb.NULL, b""
    if isinstance(item, bool):
        return (jsonb.TRUE if item else jsonb.FALSE), b""
    if isinstance(item, str):
        return jsonb.STRING, item.encode()
    if isinstance(item, (int, float)):
        return jsonb.NUMBER, _number(item)
    return jsonb.CONTAINER, payloads.pop(id(item))


def _container(item: list[JsonItem] | dict[str, JsonItem], payloads: dict[int, bytes]) -> bytes:
    if isinstance(item, list):
        header, keys, values = jsonb.ARRAY, list[bytes](), item
    else:
        # In the order of the keys' bytes, as the reference library stores them.
        pairs = sorted(((key.encode(), value) for key, value in item.items()), key=lambda pair: pair[0])
        header, keys, values = jsonb.OBJECT, [key for key, _ in pairs], [value for _, value in pairs]
    members = [_entry(value, payloads) for value in values]
    entries = [jsonb.STRING | _size(len(key)) for key in keys] + [kind | _size(len(data)) for kind, data in members]
    packed = struct.pack(f">{1 + len(entries)}I", header | len(values), *entries)
    return packed + b"".join([*keys, *(data for _, data in members)])


def _size(size: int) -> int:
    if size > jsonb.MAX_SIZE:
        raise ValueError(f"a value has {size} bytes, more than binary JSON allows")
    return size


def _number(value: int | float) -> bytes:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        value = float(value)
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("a number is too large")
        return struct.pack(">Bd", jsonb.FLOAT, value)
    if value == 0:
        return bytes([jsonb.ZERO])
    widths = (1, 2, 4, 8)
    if value > 0:
        width = next(width for width in widths if value < 1 << 8 * width)
        return bytes([jsonb.UINT]) + value.to_bytes(width, "big")
    width = next(width for width in widths if value >= -(1 << (8 * width - 1)))
    return bytes([jsonb.INT]) + value.to_bytes(width, "big", signed=True)


def written_texts(documents: pa.Array) -> pa.Array | None:
    """The text of each document (binary or large_binary): string; null for null.

    Returns:
        None if one of them has a form that the compiled code does not support, or is damaged: `json_text` decodes it
        or raises.
    """
    num_rows = len(documents)
    _, starts, data = documents.buffers()
    if data is None:
        return None
    width = 8 if pt.is_large_binary(documents.type) else 4
    offsets = np.frombuffer(starts, f"<i{width}", num_rows + 1, documents.offset * width).astype(np.int64)
    valid = np.ascontiguousarray(documents.is_valid().to_numpy(zero_copy_only=False))
    stack, sizes = np.empty(DEPTH * FIELDS, np.int64), np.empty(num_rows, np.int64)
    used = np.empty(num_rows + 1, np.int64)
    doubles = np.empty(int(offsets[-1] - offsets[0]) // _BYTES_OF_DOUBLE + 1, np.float64)
    rows = (data.address, address_of(offsets), address_of(valid), num_rows, address_of(stack))
    if measure(*rows, address_of(sizes), address_of(used), address_of(doubles)) < 0:
        return None
    texts = [repr(value) for value in doubles[: used[-1]].tolist()]
    text_ends = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)]).astype(np.int64)
    ends = np.zeros(num_rows + 1, np.int64)
    np.cumsum(sizes + np.diff(text_ends[used]), out=ends[1:])
    if ends[-1] > _MAX_BYTES:
        return None
    joined = pa.py_buffer("".join(texts).encode())
    target = pa.allocate_buffer(int(ends[-1]))
    write(*rows, joined.address, address_of(text_ends), address_of(ends), target.address)
    validity = documents.is_valid().buffers()[1] if documents.null_count else None
    result = pa.StringArray.from_buffers(num_rows, pa.py_buffer(ends.astype(np.int32)), target, validity)
    return result if _is_utf8(result) else None


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
