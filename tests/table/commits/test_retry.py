"""Retries after conflicts, and the removal of files after failed commits."""

from __future__ import annotations

import itertools

import pytest

from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lance_spark.table.commits import retry
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict

FINAL = [
    CommitStateUnknownError("unknown"),
    IncompatibleConflictError("incompatible"),
    CommitConflictError("conflict"),
    StorageError("storage"),
    NotFoundError("missing"),
    InvalidInputError("input"),
    ValueError("not ours"),
]


class Operation:
    """Fails with `errors`, one an attempt, and then succeeds; keeps the versions that it was tried on and the waits."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.versions: list[int] = []
        self.waits: list[float] = []
        self._newer = itertools.count(101)

    def attempt(self, version: int) -> str:
        self.versions.append(version)
        if self.errors:
            raise self.errors.pop(0)
        return f"done on {version}"

    def newest(self) -> int:
        return next(self._newer)

    def run(self, max_attempts: int | None = None) -> str:
        policy = RetryPolicy(first_delay=1.0, max_delay=4.0, sleep=self.waits.append)
        return retry_on_conflict(self.attempt, 1, self.newest, policy, max_attempts=max_attempts)


def conflicts(count: int) -> list[Exception]:
    return [RetryableConflictError(f"conflict {number}") for number in range(count)]


def test_retry_first_attempt_succeeds_on_base() -> None:
    operation = Operation()
    assert operation.run() == "done on 1"
    assert (operation.versions, operation.waits) == ([1], [])


def test_retry_after_conflicts_takes_newest_version() -> None:
    operation = Operation(*conflicts(2))
    assert operation.run() == "done on 102"
    assert operation.versions == [1, 101, 102]
    assert len(operation.waits) == 2


def test_retry_gives_up_with_last_conflict() -> None:
    operation = Operation(*conflicts(20))
    with pytest.raises(RetryableConflictError, match="conflict 9"):
        operation.run()
    assert len(operation.versions) == retry.MAX_ATTEMPTS == 10
    assert len(operation.waits) == 9  # None after the last attempt.


def test_retry_max_attempts() -> None:
    operation = Operation(*conflicts(20))
    with pytest.raises(RetryableConflictError, match="conflict 2"):
        operation.run(max_attempts=3)
    assert operation.versions == [1, 101, 102]
    assert Operation(*conflicts(2)).run(max_attempts=3) == "done on 102"


def test_retry_single_attempt_looks_for_no_newer_version() -> None:
    operation = Operation(*conflicts(1))
    with pytest.raises(RetryableConflictError):
        operation.run(max_attempts=1)
    assert (operation.versions, operation.waits, operation.newest()) == ([1], [], 101)


def test_retry_waits_are_bounded() -> None:
    operation = Operation(*conflicts(9))
    operation.run()
    bounds = [1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    assert all(0 <= wait <= bound for wait, bound in zip(operation.waits, bounds, strict=True))


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
def test_retry_other_error_passes_at_once(error: Exception) -> None:
    operation = Operation(error)
    with pytest.raises(type(error)) as caught:
        operation.run()
    assert caught.value is error
    assert (operation.versions, operation.waits) == ([1], [])


def test_retry_unknown_commit_after_conflict_is_not_repeated() -> None:
    operation = Operation(*conflicts(1), CommitStateUnknownError("unknown"))
    with pytest.raises(CommitStateUnknownError):
        operation.run()
    assert operation.versions == [1, 101]


def test_retry_error_of_newest_passes() -> None:
    def newest() -> int:
        raise NotFoundError("the table was dropped")

    operation = Operation(*conflicts(1))
    with pytest.raises(NotFoundError, match="dropped"):
        retry_on_conflict(operation.attempt, 1, newest, RetryPolicy(sleep=lambda _: None))
    assert operation.versions == [1]


def test_retry_conflict_while_finding_newest_passes() -> None:
    def newest() -> int:
        raise RetryableConflictError("nothing left to do")

    with pytest.raises(RetryableConflictError, match="nothing left"):
        retry_on_conflict(Operation(*conflicts(1)).attempt, 1, newest, RetryPolicy(sleep=lambda _: None))


@pytest.mark.parametrize("error", [RetryableConflictError("x"), StorageError("x"), InvalidInputError("x")])
def test_cleanup_on_failure_removes_after_error(error: LanceError) -> None:
    removed: list[str] = []
    with pytest.raises(type(error)), cleanup_on_failure(lambda: removed.append("files")):
        raise error
    assert removed == ["files"]


def test_cleanup_on_failure_keeps_files_of_unknown_commit() -> None:
    removed: list[str] = []
    with pytest.raises(CommitStateUnknownError), cleanup_on_failure(lambda: removed.append("files")):
        raise CommitStateUnknownError("unknown")
    assert removed == []


def test_cleanup_on_failure_keeps_files_of_success() -> None:
    removed: list[str] = []
    with cleanup_on_failure(lambda: removed.append("files")):
        pass
    assert removed == []
