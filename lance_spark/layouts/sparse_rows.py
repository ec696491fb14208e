"""Splits rows at the boundaries of long runs of null and empty lists, so that the runs become pages without values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lance_spark.layouts.shred import Levels, Shredded

_LONG_RUN = 4096
"""Minimum slots without a value for a separate page."""


def cut_at_long_runs(rows: Shredded, levels: Levels) -> list[Shredded]:
    """`rows` split around every long run of rows without values; unchanged if there is none."""
    if levels.reps is None or levels.defs is None:
        return [rows]
    row_starts = np.flatnonzero(levels.reps == levels.scheme.max_rep)
    visible = levels.defs <= levels.scheme.max_visible_def
    values_before = np.concatenate([[0], np.cumsum(visible)])
    values_of_rows = np.diff(values_before[np.append(row_starts, levels.num_items)])
    # Rows with values bound the runs; a run extends from the row after one of them to the next one.
    holding = np.concatenate([[-1], np.flatnonzero(values_of_rows), [len(row_starts)]])
    item_of_row = np.append(row_starts, levels.num_items)
    cuts = {0, len(row_starts)}
    for before, after in zip(holding[:-1].tolist(), holding[1:].tolist(), strict=True):
        if item_of_row[after] - item_of_row[before + 1] >= _LONG_RUN:
            cuts |= {before + 1, after}
    edges = sorted(cuts)
    return [
        _piece(rows, int(item_of_row[start]), int(item_of_row[stop]), values_before, stop - start)
        for start, stop in pairwise(edges)
    ]


def _piece(rows: Shredded, start: int, stop: int, values_before: np.ndarray, num_rows: int) -> Shredded:
    codes = rows.codes_or_zeros()[start:stop]
    first, last = int(values_before[start]), int(values_before[stop])
    present = 0
    for code in np.unique(codes).tolist():
        present |= 1 << code
    return Shredded(
        rows.lists,
        present & ~1,
        num_rows,
        stop - start,
        None if rows.reps is None else rows.reps[start:stop],
        codes,
        rows.values.slice(first, last - first),
    )
