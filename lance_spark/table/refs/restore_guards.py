"""Tags that keep a version while it is restored, so that a clean-up at the same time spares its files."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lance_spark.errors import LanceError
from lance_spark.table.cleanup.references import GUARD_PREFIX
from lance_spark.table.location import TableLocation
from lance_spark.table.refs.tagging import create_tag, delete_tag


@contextmanager
def kept_while_restored(table: TableLocation, version: int) -> Iterator[None]:
    """Keeps `version` of the branch `table`.

    Raises: as `create_tag`.
    """
    guard = f"{GUARD_PREFIX}{secrets.token_hex(8)}"
    try:
        create_tag(table, guard, version)
        yield
    finally:
        # A tag that is left spares a version until it is old; it must not hide what has happened.
        with suppress(LanceError):
            delete_tag(table, guard)
