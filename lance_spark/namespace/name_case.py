"""Case-insensitive names, as in Spark unless ``spark.sql.caseSensitive`` is set.

An exact match of a name in the catalog wins. Otherwise the name means the only one that differs from it just in case,
if there is exactly one. Namespaces are resolved before their content.

>>> content = {(): ["Shop"], ("Shop",): ["orders", "Items", "ITEMS"]}
>>> spelling(("shop", "ORDERS"), lambda namespace, _is_last: content.get(namespace, []))
('Shop', 'orders')
>>> spelling(("Shop", "ITEMS"), lambda namespace, _is_last: content.get(namespace, []))
('Shop', 'ITEMS')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.object_id import Identifier, format_identifier


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
    found: Identifier = ()
    for depth, name in enumerate(identifier, start=1):
        known = set(children(found, depth == len(identifier)))
        alike = [name] if name in known else sorted(other for other in known if folded(other) == folded(name))
        if not alike:
            return None
        if len(alike) > 1:
            candidates = " and ".join(format_identifier((*found, other)) for other in alike)
            raise InvalidInputError(
                f"{format_identifier(identifier)} may be {candidates}, which differ in case only; write "
                "the name that is meant with its capitals"
            )
        found = (*found, alike[0])
    return found
