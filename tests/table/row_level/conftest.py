from __future__ import annotations

from pathlib import Path

import lance
import pytest

from tests.support.keyed_rows import rows


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """0..9 and 10..19, two fragments, written by the reference."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(10)), uri, enable_stable_row_ids=request.param)
    lance.write_dataset(rows(*range(10, 20)), uri, mode="append")
    return uri
