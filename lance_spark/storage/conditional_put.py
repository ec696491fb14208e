"""Put-if-absent with retries that remember the attempts before.

A put-if-absent must not be repeated blindly: if the first attempt took effect and only its reply was lost, the second
one is rejected because of our own object. So an attempt without a clear reply leaves the request in doubt, and a
rejection after that is no proof of another writer. Callers read the object to find out (`table.commits.commit`).
"""

from __future__ import annotations

from collections.abc import Callable

from lance_spark.storage.base import PutResult
from lance_spark.storage.patience import Judge, Patience

_MAX_ATTEMPTS = 5

Outcome = Callable[[BaseException], "PutResult | None"]
"""Outcome of an attempt that failed: EXISTS, UNKNOWN, or None if it certainly created nothing."""


def create_if_absent(
    patience: Patience,
    send: Callable[[], object],
    errors: tuple[type[BaseException], ...],
    outcome: Outcome,
    judge: Judge,
    *,
    max_attempts: int = _MAX_ATTEMPTS,
) -> PutResult:
    """The result of a put-if-absent; `send` makes one attempt, without retries of its own.

    Args:
        errors: what `send` raises when it fails.
        judge: as for `Patience.run`.

    Raises:
        StorageError: the timeout of the service has already expired in this statement. Nothing was created.
        Errors of `send`: the request was rejected, and no earlier attempt can have taken effect.
    """
    request = patience.request()
    in_doubt = False
    for attempt in range(max_attempts):
        if attempt:
            request.wait()
        try:
            with request.attempt(short=True):
                send()
        except errors as error:
            result = outcome(error)
            if result is None and not in_doubt:
                raise
            if result is not PutResult.UNKNOWN:
                return result or PutResult.UNKNOWN
            in_doubt = True
            # Don't give up on the service: the caller still checks whether the object exists.
            if not request.may_repeat(judge(error), error, gives_up=False):
                return PutResult.UNKNOWN
        else:
            request.answered()
            return PutResult.CREATED
    return PutResult.UNKNOWN
