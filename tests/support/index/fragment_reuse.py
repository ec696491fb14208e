"""Compactions that defer the remapping of indexes."""

from __future__ import annotations

import lance

import lance_spark
from tests.index.comparisons import check, check_all
from tests.support.index.lifecycle import CONDITIONS

ANSWERED_BY = {
    "x = 17": "tree",
    "k = 'beta'": "map",
    "y < 3": "zones",
    "z = 33": "bloom",
    "contains(s, 'alpha')": "grams",
    "array_contains(l, 3)": "labels",
}


def compact(uri: str, target_rows: int, *, deferred: bool = True) -> None:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=target_rows, defer_index_remap=deferred)


def check_answered(uri: str) -> None:
    """Every index answers for every fragment, and right."""
    for condition, index in ANSWERED_BY.items():
        reference = condition.replace("array_contains", "array_has")
        check(uri, condition, reference=reference, index=index)
        assert lance_spark.open(uri).explain(condition).endswith("scanned without index: none"), condition
    check_all(uri, CONDITIONS)
