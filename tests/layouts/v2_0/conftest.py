"""Every buffer ends where memory ends, so that nothing reads or writes one byte too far unseen."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.layouts.v2_0.files import OpenFile
from tests.support.guarded_memory import allocate_guarded, guarded


@pytest.fixture(autouse=True)
def guard(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = OpenFile._bytes
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    monkeypatch.setattr(OpenFile, "_bytes", lambda file, start, length: guarded(fetch(file, start, length)))
