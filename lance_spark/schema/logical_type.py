"""`Field.logical_type`: the string by which Lance names a type (`lance.file.Field`, member 5).

Parameters are joined by colons, outermost first, so the inner type of a list or dictionary may contain colons:

>>> split("fixed_size_list:fixed_size_list:float:2:3")
('fixed_size_list', ('fixed_size_list:float:2', '3'))
>>> split("timestamp:us:+05:30")
('timestamp', ('us', '+05:30'))
>>> split("dict:timestamp:us:UTC:int16:false")
('dict', ('timestamp:us:UTC', 'int16', 'false'))
>>> split("list.struct")
('list.struct', ())
"""

from __future__ import annotations

LIST_TYPES = frozenset({"list", "list.struct"})
LARGE_LIST_TYPES = frozenset({"large_list", "large_list.struct"})


def split(logical_type: str) -> tuple[str, tuple[str, ...]]:
    """(kind, parameters) of a logical type; parameters of unknown kinds are split at every colon."""
    kind, _, rest = logical_type.partition(":")
    if not rest:
        return kind, ()
    if kind == "fixed_size_list":
        return kind, tuple(rest.rsplit(":", 1))
    if kind == "dict":
        return kind, tuple(rest.rsplit(":", 2))
    if kind == "timestamp":
        return kind, tuple(rest.split(":", 1))
    return kind, tuple(rest.split(":"))


def is_list(logical_type: str) -> bool:
    """True for lists of variable length, including large ones."""
    return logical_type in LIST_TYPES or logical_type in LARGE_LIST_TYPES


def is_dictionary(logical_type: str) -> bool:
    """True for Arrow dictionary types."""
    return logical_type.startswith("dict:")


def is_fixed_size_list(logical_type: str) -> bool:
    """True for lists of fixed size, of structs too."""
    return logical_type.startswith("fixed_size_list:")
