"""Random JSON documents."""

from __future__ import annotations

import json

import pyarrow as pa


def documents(first: int, count: int) -> pa.Array:
    values = [
        None
        if i % 9 == 0
        else {}
        if i % 11 == 0
        else {"a": i % 10, "b": {"c": f"s{i % 7}"}, "f": i / 2, "t": i % 2 == 0}
        for i in range(first, first + count)
    ]
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.json_())
