from __future__ import annotations

from typing import Any

import pytest

from tests.table_verbs.kinds import ROWS, Kind, Partitioned, Plain

_KINDS: dict[str, Kind] = {
    "plain": Plain(stable_row_ids=False),
    "plain-stable": Plain(stable_row_ids=True),
    "partitioned": Partitioned(stable_row_ids=False),
    "partitioned-stable": Partitioned(stable_row_ids=True),
}


@pytest.fixture(params=_KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return _KINDS[request.param]


@pytest.fixture
def dataset(kind: Kind) -> Any:
    """Version 2 of a table, with `ROWS`."""
    return kind.create(*ROWS)
