"""Display names of tables in messages: remembers the names that an operation has looked up while it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lance_spark.namespace.locations import CATALOG_DIRECTORY

_names: ContextVar[dict[str, str] | None] = ContextVar("names of tables by place", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """A context in which `remember` has an effect."""
    token = _names.set({})
    try:
        yield
    finally:
        _names.reset(token)


def remember(uri: str, name: str) -> None:
    """Records that the statement of this operation calls the table at `uri` `name`."""
    known = _names.get()
    if known is not None:
        known.setdefault(uri, name)


def with_names(text: str) -> str:
    """`text` with the URIs of tables replaced by their names; paths of single files are kept."""
    for uri, name in (_names.get() or {}).items():
        place = rf"(?<![\w/]){re.escape(uri)}(?:/{CATALOG_DIRECTORY})?(?![\w/$-]|\.\w)"
        text = re.sub(place, lambda _found, name=name: name, text)  # type: ignore[misc]
    return text
