from __future__ import annotations

import numpy as np
import pytest

from lance_spark.layouts.base import RowRanges


@pytest.mark.parametrize("count", [1, 10, 2048, 2049, 9000])
@pytest.mark.parametrize("longest", [1, 4])
def test_rows_within_a_stretch(count: int, longest: int) -> None:
    rng = np.random.default_rng(count + longest)
    starts = np.cumsum(rng.integers(longest, longest + 5, count))
    rows = RowRanges(starts, starts + rng.integers(1, longest + 1, count))
    end = int(rows.stops[-1]) + 3
    for start, stop in [(0, end), (0, 1), (end - 2, end), *np.sort(rng.integers(0, end, (30, 2)), axis=1).tolist()]:
        inside = rows.within(start, stop)
        expected = [row - start for row in rows.indices().tolist() if start <= row < stop]
        assert inside.indices().tolist() == expected
        assert bool((inside.starts < inside.stops).all())
