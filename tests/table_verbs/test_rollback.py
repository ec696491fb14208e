"""A rollback brings back a version that the newest one descends from, in tables of both kinds."""

from __future__ import annotations

from typing import Any

import pytest

from lance_spark.errors import InvalidInputError, NotFoundError
from tests.table_verbs.kinds import ROWS, Kind, Partitioned

NEW = (6, "c", 60)


def test_rollback_makes_a_version_with_the_rows_of_the_old_one(kind: Kind, dataset: Any) -> None:
    grown = kind.append(dataset, NEW)
    kind.check(grown, [*ROWS, NEW])
    back = grown.rollback_to_version(dataset.version)
    assert back.version == grown.version + 1
    kind.check(back, ROWS)
    kind.check(kind.append(back, NEW), [*ROWS, NEW])


def test_rollback_refuses_what_a_restore_has_undone(kind: Kind, dataset: Any) -> None:
    grown = kind.append(dataset, NEW)
    back = grown.rollback_to_version(dataset.version)
    with pytest.raises(InvalidInputError, match=f"version {grown.version} .* is no ancestor of version {back.version}"):
        back.rollback_to_version(grown.version)
    kind.check(back, ROWS)
    kind.check(back.restore(grown.version), [*ROWS, NEW])
    # Its content is the newest one now, so it counts again, and what was restored in between does not.
    kind.check(back.newest().rollback_to_version(grown.version), [*ROWS, NEW])
    with pytest.raises(InvalidInputError, match="no ancestor"):
        back.newest().rollback_to_version(back.version)


def test_rollback_to_no_version(kind: Kind, dataset: Any) -> None:
    for version in (99, dataset.version + 1):
        with pytest.raises(NotFoundError):
            dataset.rollback_to_version(version)
    for wrong in (0, -1, True):
        with pytest.raises(InvalidInputError, match="is not a version"):
            dataset.rollback_to_version(wrong)
    assert dataset.newest().version == dataset.version


def test_rollback_to_a_version_that_was_cleaned_up(kind: Kind, dataset: Any) -> None:
    newest = kind.append(dataset, NEW)
    newest.cleanup(keep_versions=1, delete_unverified=True)
    with pytest.raises(NotFoundError):
        newest.rollback_to_version(dataset.version)
    kind.check(newest, [*ROWS, NEW])


def test_history_names_a_restore(kind: Kind, dataset: Any) -> None:
    back = kind.append(dataset, NEW).rollback_to_version(dataset.version)
    last = back.versions()[-1]
    assert last.operation == "restore"
    assert isinstance(kind, Partitioned) == ("lance.restored_version" in last.properties)
