"""Conflicts name the table: by its path, whichever partition of it they were found in."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pyarrow as pa
import pytest

from lance_spark.errors import CommitConflictError, RetryableConflictError
from tests.table_verbs.kinds import ROWS, Kind, table_of


def compact_changed_fragments(kind: Kind, table: Any) -> None:
    for _ in range(2):
        table = table.append(table_of(*ROWS))
    plan = table.plan_compaction()
    results = [table.run_compaction_task(task) for task in getattr(plan, "tasks", plan)]
    table.overwrite(table_of(*ROWS))
    table.commit_compaction(results)


def append_to_other_columns(kind: Kind, table: Any) -> None:
    table.drop_columns(["v"]).add_columns(pa.field("v", pa.string()))
    table.append(table_of(*ROWS))


CONFLICTS = [compact_changed_fragments, append_to_other_columns]


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_conflict_names_the_table(kind: Kind, dataset: Any, conflict: Any) -> None:
    with pytest.raises(CommitConflictError) as raised:
        conflict(kind, dataset)
    text = str(raised.value)
    assert re.search(rf"(?<![\w/]){re.escape(dataset.uri)}(?![\w/])", text), text
    for made in (pickle.loads(pickle.dumps(raised.value)), copy.copy(raised.value)):
        assert str(made) == text


def test_text_names_the_table_once() -> None:
    error = RetryableConflictError("others were first on /data/t; try later")
    error.table = "/data/t"
    assert str(error) == "others were first on /data/t; try later"
    error = RetryableConflictError("others have changed /data/t/part; compact again")
    error.table = "/data/t"
    assert str(error) == "/data/t: others have changed /data/t/part; compact again"
