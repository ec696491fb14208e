"""Members of messages that the schema does not know."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet


def unknown_members(message: Message) -> Iterator[str]:
    for unknown in UnknownFieldSet(message):
        yield f"{message.DESCRIPTOR.full_name}.{unknown.field_number}"
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for child in value if descriptor.is_repeated else [value]:
            yield from unknown_members(child)
