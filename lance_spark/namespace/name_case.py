"""Names that are compared without regard to case, as Spark does unless ``spark.sql.caseSensitive`` is set.

A name that is written as the catalog has it always means that one. Otherwise it means the one name that differs from it
in case only, if there is exactly one. Namespaces are looked up before what lies in them.

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
    """What two names that differ in case only have in common."""
    return name.lower()


def spelling(identifier: Identifier, children: Callable[[Identifier, bool], Iterable[str]]) -> Identifier | None:
    """`identifier` as the catalog writes it; None if nothing there is meant.

    Args:
        children: the names right in a namespace, and whether the last name of `identifier` is looked for.

    Raises:
        InvalidInputError: several names differ from the given one in case only, and none is written like it.
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
