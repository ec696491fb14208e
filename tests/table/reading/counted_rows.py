"""How many rows are copied from files in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest


def counted_rows(monkeypatch: pytest.MonkeyPatch, *methods: tuple[type, str]) -> list[int]:
    """Gets the number of rows of each array that one of these methods returns from now on."""
    found: list[int] = []
    for kind, name in methods:
        plain = getattr(kind, name)

        def counted(self: Any, *arguments: Any, plain: Any = plain) -> pa.Array | None:
            values = plain(self, *arguments)
            found.extend([] if values is None else [len(values)])
            return values

        monkeypatch.setattr(kind, name, counted)
    return found
