"""Identifiers of tables and namespaces, and their `object_id` in `__manifest`.

An identifier is the path of names from the root namespace, which is the empty path; an `object_id` joins them by ``$``
(Lance directory namespace specification, "Manifest Table Schema"). Names are case sensitive and may contain any
character except ``$``; they are not names of directories.

Spark compares them case-insensitively unless ``spark.sql.caseSensitive`` is set: an exact match of a name in the
catalog wins. Otherwise the name means the only one that differs from it just in case, if there is exactly one.
Namespaces are resolved before their content.

>>> object_id(("prod", "sales", "orders"))
'prod$sales$orders'
>>> child_names(["prod$sales$orders", "prod$sales"], ("prod",))
['sales']
>>> content = {(): ["Shop"], ("Shop",): ["orders", "Items", "ITEMS"]}
>>> spelling(("shop", "ORDERS"), lambda namespace, _is_last: content.get(namespace, []))
('Shop', 'orders')
>>> spelling(("Shop", "ITEMS"), lambda namespace, _is_last: content.get(namespace, []))
('Shop', 'ITEMS')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lance_spark.errors import InvalidInputError
from lance_spark.schema.projection import dotted

DELIMITER = "$"

Identifier = tuple[str, ...]


def object_id(identifier: Identifier) -> str:
    """The `object_id` of an identifier."""
    return DELIMITER.join(identifier)


def identifier_of(object_id: str) -> Identifier:
    """The identifier of an `object_id`."""
    return tuple(object_id.split(DELIMITER))


def prefix_of(namespace: Identifier) -> str:
    """The prefix of the `object_id` of everything below `namespace`."""
    return "".join(name + DELIMITER for name in namespace)


def child_names(object_ids: Iterable[str], namespace: Identifier) -> list[str]:
    """The last names of the `object_ids` (all below `namespace`) that are directly in it."""
    start = len(prefix_of(namespace))
    names = (child[start:] for child in object_ids)
    return [name for name in names if DELIMITER not in name]


def ancestors(identifier: Identifier) -> Iterator[Identifier]:
    """The parent namespaces of `identifier`, from the outermost, without the root."""
    return (identifier[:length] for length in range(1, len(identifier)))


def is_findable(identifier: Identifier) -> bool:
    """False for an identifier without an `object_id`: a name with ``$`` would be read as two."""
    return bool(identifier) and not any(DELIMITER in name for name in identifier)


def checked(identifier: Identifier) -> Identifier:
    """Returns `identifier` if it is valid for a new object.

    Raises:
        InvalidInputError: it is empty or not a tuple of names, or one of them is empty, has a ``$`` or a control
            character, or is not valid Unicode.
    """
    if isinstance(identifier, str) or not identifier:
        raise InvalidInputError(f"{identifier!r} is no identifier; give the names of the path as a tuple")
    for name in identifier:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"identifier {identifier!r} has an empty name, or one that is no text")
        if DELIMITER in name or any(ord(character) < 0x20 for character in name):
            raise InvalidInputError(f"the name {name!r} has a '{DELIMITER}' or a control character")
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInputError(f"the name {name!r} has a character that is not Unicode text") from None
    return tuple(identifier)


def format_identifier(identifier: Identifier) -> str:
    """The identifier as messages show it."""
    return dotted(identifier) if identifier else "the root namespace"


def folded(name: str) -> str:
    """The key by which names are compared case-insensitively."""
    return name.lower()


def spelling(identifier: Identifier, children: Callable[[Identifier, bool], Iterable[str]]) -> Identifier | None:
    """`identifier` as the catalog spells it; None if there is no match.

    Args:
        children: maps a namespace, and whether the last name of `identifier` is being resolved, to the names in it.

    Raises:
        InvalidInputError: there is no exact match, and several names differ only in case.
    """
    spelled: Identifier = ()
    for depth, name in enumerate(identifier, start=1):
        names = set(children(spelled, depth == len(identifier)))
        alike = [name] if name in names else sorted(other for other in names if folded(other) == folded(name))
        if not alike:
            return None
        if len(alike) > 1:
            candidates = " and ".join(format_identifier((*spelled, other)) for other in alike)
            raise InvalidInputError(
                f"{format_identifier(identifier)} may be {candidates}, which differ in case only; write "
                "the name that is meant with its capitals"
            )
        spelled = (*spelled, alike[0])
    return spelled
