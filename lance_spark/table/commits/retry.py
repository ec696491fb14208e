"""After a failed commit: running the operation again on the newest version, and removing the files that it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lance_spark.errors import CommitStateUnknownError, LanceError, RetryableConflictError
from lance_spark.table.commits.commit import RetryPolicy

MAX_ATTEMPTS = 10
"""How often an operation is tried at most. Each attempt may read and write rows."""

_Version = TypeVar("_Version")
_Result = TypeVar("_Result")


def retry_on_conflict(
    attempt: Callable[[_Version], _Result],
    base: _Version,
    newest: Callable[[], _Version],
    policy: RetryPolicy | None = None,
    *,
    max_attempts: int | None = None,
) -> _Result:
    """The result of `attempt` on `base`, or on a newer version after each `RetryableConflictError`.

    Any other error passes at once; after a `CommitStateUnknownError` in particular a second attempt could apply the
    change twice.

    Args:
        newest: gives the version for the next attempt.
        policy: the waits between attempts.
        max_attempts: None for `MAX_ATTEMPTS`.

    Raises:
        RetryableConflictError: that of the last attempt.
    """
    policy = policy or RetryPolicy()
    for number in range((max_attempts or MAX_ATTEMPTS) - 1):
        try:
            return attempt(base)
        except RetryableConflictError:
            policy.wait(number)
        base = newest()
    return attempt(base)


@contextmanager
def cleanup_on_failure(remove: Callable[[], None]) -> Iterator[None]:
    """Calls `remove` if the block raises a `LanceError`, unless the commit may have succeeded and need the files."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except LanceError:
        remove()
        raise
