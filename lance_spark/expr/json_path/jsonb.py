"""Binary JSON, as Lance stores it: one scalar of a document is found without decoding the rest.

A container has a header (big endian: 3 bits kind, 29 bits number of members) and one entry for each member (4 bits
kind, 28 bits number of bytes), then the members' bytes. An object has entries of its keys before those of its values.
A document that is a scalar is a container of one member.
"""

from __future__ import annotations

import struct

from lance_spark.errors import InvalidInputError

Step = str | int
Scalar = str | int | float | bool | None

_KIND = 0xE0000000
_OBJECT, _ARRAY, _SCALAR = 0x40000000, 0x80000000, 0x20000000
_COUNT = 0x1FFFFFFF
_ENTRY_KIND, _ENTRY_SIZE = 0x70000000, 0x0FFFFFFF
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = (kind << 28 for kind in range(6))
_INT, _UINT, _FLOAT, _ZERO, _NAN, _INFINITY, _NEGATIVE_INFINITY = 0x40, 0x50, 0x60, 0x00, 0x10, 0x20, 0x30
_SPECIAL: dict[int, float | int] = {
    _ZERO: 0,
    _NAN: float("nan"),
    _INFINITY: float("inf"),
    _NEGATIVE_INFINITY: float("-inf"),
}


def scalar_at(data: bytes, steps: tuple[Step, ...]) -> tuple[bool, Scalar]:
    """(whether there is a scalar at a path, the scalar); (False, None) for nothing, an object or an array.

    >>> document = bytes.fromhex("40000001 10000001 20000002 61 5005")
    >>> scalar_at(document, ("a",)), scalar_at(document, ("b",))
    ((True, 5), (False, None))

    Raises:
        InvalidInputError: the bytes are no binary JSON.
    """
    try:
        return _scalar(data, steps)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise InvalidInputError(f"{len(data)} bytes are no binary JSON: {error}") from error


def _scalar(data: bytes, steps: tuple[Step, ...]) -> tuple[bool, Scalar]:
    start = 0
    for number, step in enumerate(steps):
        found = _member(data, start, step)
        if found is None:
            return False, None
        kind, start, size = found
        if kind != _CONTAINER:
            is_last = number == len(steps) - 1
            return (True, _decoded(data, kind, start, size)) if is_last else (False, None)
    if not steps and _header(data, 0) & _KIND == _SCALAR:
        (entry,) = struct.unpack_from(">I", data, 4)
        return True, _decoded(data, entry & _ENTRY_KIND, 8, entry & _ENTRY_SIZE)
    return False, None


def _header(data: bytes, start: int) -> int:
    header: int = struct.unpack_from(">I", data, start)[0]
    return header


def _member(data: bytes, start: int, step: Step) -> tuple[int, int, int] | None:
    """(kind, first byte, bytes) of a member of the container at `start`; None if there is none."""
    header = _header(data, start)
    count = header & _COUNT
    is_object = header & _KIND == _OBJECT
    if is_object is not isinstance(step, str) or header & _KIND == _SCALAR:
        return None
    entries = struct.unpack_from(f">{count * (2 if is_object else 1)}I", data, start + 4)
    position = start + 4 + 4 * len(entries)
    place: int | None = step if isinstance(step, int) and step < count else None
    if is_object:
        for number, entry in enumerate(entries[:count]):
            size = entry & _ENTRY_SIZE
            if data[position : position + size].decode() == step:
                place = number
            position += size
        entries = entries[count:]
    if place is None:
        return None
    position += sum(entry & _ENTRY_SIZE for entry in entries[:place])
    return entries[place] & _ENTRY_KIND, position, entries[place] & _ENTRY_SIZE


def _decoded(data: bytes, kind: int, start: int, size: int) -> Scalar:
    payload = data[start : start + size]
    if kind == _STRING:
        return payload.decode()
    if kind == _NUMBER:
        return _number(payload)
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE
    return None


def _number(payload: bytes) -> int | float:
    kind, rest = payload[0], payload[1:]
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    if kind in (_INT, _UINT):
        return int.from_bytes(rest, "big", signed=kind == _INT)
    if kind == _FLOAT:
        value: float = struct.unpack(">d", rest)[0]
        return value
    raise InvalidInputError(f"binary JSON has a number of kind {kind:#x}, which this release does not read")
