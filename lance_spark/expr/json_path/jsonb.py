"""Binary JSON, as Lance stores it: one scalar of a document is found without decoding the rest.

A container has a header (big endian: 3 bits kind, 29 bits number of members) and one entry for each member (4 bits
kind, 28 bits number of bytes), then the members' bytes. An object has entries of its keys before those of its values.
A document that is a scalar is a container of one member.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from lance_spark.errors import InvalidInputError

Step = str | int
Scalar = str | int | float | bool | None
Result = TypeVar("Result")

_KIND = 0xE0000000
OBJECT, ARRAY, SCALAR = 0x40000000, 0x80000000, 0x20000000
_COUNT = 0x1FFFFFFF
_ENTRY_KIND, MAX_SIZE = 0x70000000, 0x0FFFFFFF
NULL, STRING, NUMBER, FALSE, TRUE, CONTAINER = (kind << 28 for kind in range(6))
INT, UINT, FLOAT, ZERO, _NAN, _INFINITY, _NEGATIVE_INFINITY = 0x40, 0x50, 0x60, 0x00, 0x10, 0x20, 0x30
_SPECIAL: dict[int, float | int] = {
    ZERO: 0,
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
    return checked(data, lambda: _scalar(data, steps))


def exists_at(data: bytes, steps: tuple[Step, ...]) -> bool:
    """Whether a document has anything at a path, null included.

    Raises:
        InvalidInputError: the bytes are no binary JSON.
    """
    return checked(data, lambda: found_at(data, steps) is not None)


def length_at(data: bytes, steps: tuple[Step, ...]) -> int | None:
    """The number of items of the array at a path, 0 for anything else; None for nothing. Raises as `exists_at`."""
    return checked(data, lambda: _length(data, steps))


def scalars_at(data: bytes, steps: tuple[Step, ...]) -> list[Scalar]:
    """The scalars among the items of the array at a path; empty if there is no array. Raises as `exists_at`."""
    return checked(
        data, lambda: [item for place in range(_length(data, steps) or 0) for item in _item(data, steps, place)]
    )


def checked(data: bytes, read: Callable[[], Result]) -> Result:
    """The result of `read`, which reads a document.

    Raises:
        InvalidInputError: it has found that the bytes are no binary JSON.
    """
    try:
        return read()
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise InvalidInputError(f"{len(data)} bytes are no binary JSON: {error}") from error


def _scalar(data: bytes, steps: tuple[Step, ...]) -> tuple[bool, Scalar]:
    member = found_at(data, steps)
    if member is None or member[0] == CONTAINER:
        return False, None
    return True, decoded(data, *member)


def _length(data: bytes, steps: tuple[Step, ...]) -> int | None:
    member = found_at(data, steps)
    if member is None:
        return None
    header = _header(data, member[1]) if member[0] == CONTAINER else 0
    return header & _COUNT if header & _KIND == ARRAY else 0


def _item(data: bytes, steps: tuple[Step, ...], place: int) -> list[Scalar]:
    is_scalar, value = _scalar(data, (*steps, place))
    return [value] if is_scalar else []


Member = tuple[int, int, int]
"""The kind of an entry, the first byte and the number of bytes of its payload."""


def root(data: bytes) -> Member:
    """The whole document as a member: its kind, start and size.

    Raises:
        IndexError: its value does not fit into it.
    """
    if _header(data, 0) & _KIND == SCALAR:
        (entry,) = struct.unpack_from(">I", data, 4)
        if 8 + (entry & MAX_SIZE) > len(data):
            raise IndexError(f"a value of {entry & MAX_SIZE} bytes does not fit")
        return entry & _ENTRY_KIND, 8, entry & MAX_SIZE
    return CONTAINER, 0, len(data)


def members(data: bytes, start: int, stop: int) -> tuple[list[str] | None, list[Member]]:
    """The keys (None for an array) and the members of the container at `start`, which ends at `stop`.

    Raises:
        IndexError: they do not fit into it.
    """
    header = _header(data, start)
    count = header & _COUNT
    is_object = header & _KIND == OBJECT
    if not is_object and header & _KIND != ARRAY:
        raise IndexError(f"no container at byte {start}")
    if 4 * count > stop - start:
        raise IndexError(f"{count} members at byte {start} do not fit")
    entries = struct.unpack_from(f">{count * (2 if is_object else 1)}I", data, start + 4)
    position = start + 4 + 4 * len(entries)
    result: list[Member] = []
    for entry in entries:
        size = entry & MAX_SIZE
        if position + size > stop:
            raise IndexError(f"a member of {size} bytes at byte {position} does not fit")
        result.append((entry & _ENTRY_KIND, position, size))
        position += size
    if not is_object:
        return None, result
    return [data[first : first + size].decode() for _, first, size in result[:count]], result[count:]


def found_at(data: bytes, steps: tuple[Step, ...]) -> Member | None:
    """(kind, first byte, bytes) of what is at a path; None if there is nothing."""
    member: Member | None = root(data)
    for step in steps:
        if member is None or member[0] != CONTAINER:
            return None
        member = _member(data, member[1], step)
    return member


def _header(data: bytes, start: int) -> int:
    header: int = struct.unpack_from(">I", data, start)[0]
    return header


def _member(data: bytes, start: int, step: Step) -> Member | None:
    """(kind, first byte, bytes) of a member of the container at `start`; None if there is none."""
    header = _header(data, start)
    count = header & _COUNT
    is_object = header & _KIND == OBJECT
    if is_object is not isinstance(step, str) or header & _KIND == SCALAR:
        return None
    entries = struct.unpack_from(f">{count * (2 if is_object else 1)}I", data, start + 4)
    position = start + 4 + 4 * len(entries)
    place: int | None = step if isinstance(step, int) and step < count else None
    if is_object:
        for number, entry in enumerate(entries[:count]):
            size = entry & MAX_SIZE
            if data[position : position + size].decode() == step:
                place = number
            position += size
        entries = entries[count:]
    if place is None:
        return None
    position += sum(entry & MAX_SIZE for entry in entries[:place])
    return entries[place] & _ENTRY_KIND, position, entries[place] & MAX_SIZE


def decoded(data: bytes, kind: int, start: int, size: int) -> Scalar:
    """The scalar of an entry of `kind`, whose payload is `size` bytes from `start` on."""
    payload = data[start : start + size]
    if kind == STRING:
        return payload.decode()
    if kind == NUMBER:
        return _number(payload)
    if kind in (TRUE, FALSE):
        return kind == TRUE
    return None


def _number(payload: bytes) -> int | float:
    kind, rest = payload[0], payload[1:]
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    if kind in (INT, UINT):
        return int.from_bytes(rest, "big", signed=kind == INT)
    if kind == FLOAT:
        value: float = struct.unpack(">d", rest)[0]
        return value
    raise InvalidInputError(f"binary JSON has a number of kind {kind:#x}, which this release does not read")
