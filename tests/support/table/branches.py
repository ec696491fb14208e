"""A small table with branches, as the reference library reads it."""

from __future__ import annotations

from collections.abc import Iterable

import lance
import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])

Rows = dict[int, int]


def rows(ids: Iterable[int], value: int = 0) -> pa.Table:
    """Rows with these ids and one value."""
    listed = list(ids)
    return pa.table({"id": listed, "v": [value] * len(listed)}, schema=SCHEMA)


def reference(uri: str, branch: str | None = None, version: int | None = None) -> lance.LanceDataset:
    """A version of a branch, by the reference library."""
    return lance.dataset(uri).checkout_version((branch, version)) if branch else lance.dataset(uri, version=version)


def shown(uri: str, branch: str | None = None, version: int | None = None) -> Rows:
    """Rows by id, as the reference library reads them; each once, in a valid version."""
    dataset = reference(uri, branch, version)
    dataset.validate()
    listed = dataset.to_table().to_pylist()
    by_id = {row["id"]: row["v"] for row in listed}
    assert len(by_id) == len(listed) == dataset.count_rows(), "rows are doubled"
    return by_id
