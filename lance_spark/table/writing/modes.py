"""The modes of a write."""

from __future__ import annotations

from lance_spark.errors import InvalidInputError

CREATE, APPEND, OVERWRITE = "create", "append", "overwrite"
MODES = (CREATE, APPEND, OVERWRITE)


def check_mode(mode: str) -> None:
    """Passes if `mode` is one of `MODES`.

    Raises:
        InvalidInputError: it is not.
    """
    if mode not in MODES:
        raise InvalidInputError(f"unknown mode {mode!r}; one of {', '.join(MODES)}")
