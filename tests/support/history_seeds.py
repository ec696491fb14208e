"""How many random histories are tried, and the seeds that they have."""

from __future__ import annotations

import os

FIRST_SEED = int(os.environ.get("LANCE_SEED", "0"))


def seeds(few: int, *, one_of: int = 1) -> range:
    """Seeds from LANCE_SEED on, as many as LANCE_HISTORIES says, by default `few`.

    Args:
        one_of: of this many histories of LANCE_HISTORIES one is tried, where each takes long.
    """
    asked = os.environ.get("LANCE_HISTORIES")
    count = few if asked is None else max(1, int(asked) // one_of)
    return range(FIRST_SEED, FIRST_SEED + count)
