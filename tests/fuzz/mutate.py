"""Random changes of protobuf messages and bytes that keep their outer form."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

NUMBERS = (
    *(2**bits + by for bits in (0, 3, 4, 7, 8, 15, 16, 31, 32, 48, 62, 63) for by in (-1, 0, 1)),
    *(by - 2**bits for bits in (0, 3, 7, 8, 31, 32, 62, 63) for by in (-1, 0, 1)),
    2**64 - 1,
)
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 40),
}
_TYPES = ("int32", "struct", "list", "fixed_size_list:int32:4", "decimal:128:99:3", "dict:string:int32:false", "map")
_TEXTS = ("", "x", "../x", "/", "a.b", "\0", "é" * 300, *_TYPES)


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """`data` with some bits flipped, a piece removed or doubled, or a number written over it."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if not changed:
            return rng.randbytes(rng.randint(0, 9))
        at = rng.randrange(len(changed))
        match rng.randrange(5):
            case 0 | 1:
                changed[at] ^= 1 << rng.randrange(8)
            case 2:
                del changed[at : at + rng.randint(1, 8)]
            case 3:
                changed[at:at] = changed[at : at + rng.randint(1, 64)]
            case _:
                width = rng.choice((1, 2, 4, 8))
                number = rng.choice(NUMBERS) % (1 << 8 * width)
                changed[at : at + width] = number.to_bytes(width, "little")
    return bytes(changed)


def mutate_message(message: Message, rng: random.Random, times: int = 0) -> None:
    """Changes some fields of `message`, or of the messages in it, in place."""
    for _ in range(times or rng.choice((1, 1, 1, 2, 3))):
        _mutate_once(message, rng)


def _mutate_once(message: Message, rng: random.Random) -> None:
    fields = [field for field, _ in message.ListFields()]
    if not fields or rng.random() < 0.1:
        fields = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = rng.choice(fields)
    value = getattr(message, field.name)
    if field.is_repeated:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return
        _mutate_repeated(value, field, rng)
    elif field.message_type is not None:
        value.SetInParent()
        if rng.random() < 0.08:
            message.ClearField(field.name)
        else:
            _mutate_once(value, rng)
    else:
        setattr(message, field.name, _changed(value, field, rng))


def _mutate_repeated(values: Any, field: FieldDescriptor, rng: random.Random) -> None:
    if len(values) and rng.random() < 0.7:
        at = rng.randrange(len(values))
        if field.message_type is not None:
            _mutate_once(values[at], rng)
        else:
            values[at] = _changed(values[at], field, rng)
    elif len(values) and rng.random() < 0.5:
        del values[rng.randrange(len(values))]
    elif field.message_type is not None:
        made = values.add()
        if len(values) > 1:
            made.CopyFrom(values[0])
    else:
        values.append(values[0] if len(values) else field.default_value or _changed(0, field, rng))


def _changed(value: Any, field: FieldDescriptor, rng: random.Random) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not value
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return mutated_bytes(value, rng) if field.type == FieldDescriptor.TYPE_BYTES else rng.choice(_TEXTS)
    if field.cpp_type not in _RANGES:
        return value
    low, high = _RANGES[field.cpp_type]
    near = [value + by for by in (-64, -8, -4, -1, 1, 4, 8, 64)] + [value * 2, value // 2]
    return min(max(rng.choice(near if rng.random() < 0.5 else NUMBERS), low), high)


def mutated_as(kind: type[Message], data: bytes, rng: random.Random) -> bytes:
    """`data`, which is a message of `kind`, with fields changed; its bytes changed where it does not parse."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        return mutated_bytes(data, rng)
    mutate_message(message, rng)
    return message.SerializeToString()
