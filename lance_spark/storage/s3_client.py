"""Requests to S3 through s3fs: the user's client, with the retries that each kind of request may have.

Reads and data uploads may be sent again as often as the client likes. A put-if-absent may not: when its first try
landed and only the answer was lost, a silent second try is refused, and a refusal would be reported for our own
object; or the second try meets expired credentials, and a failure would be reported for an object that is there.
So commits use a client that never repeats a request, and this module repeats them, knowing what it did before.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from lance_spark.errors import StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.per_process import PerProcess
from lance_spark.storage.s3_options import with_environment

_CREATE_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 0.1

_TAKEN = frozenset({"PreconditionFailed", "412"})
_TRY_AGAIN = frozenset(
    {"ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "SlowDown", "Throttling", "TooManyRequests"}
)


class S3Client:
    """The s3fs file systems of this process for one set of arguments.

    Args:
        arguments: of `s3fs.S3FileSystem`, see `s3_options`.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = dict(arguments)
        self._reading = PerProcess(self._make_reading)
        self._committing = PerProcess(self._make_committing)

    @property
    def filesystem(self) -> Any:
        """The file system for everything but commits."""
        return self._reading.get()

    def call(self, method: str, **parameters: Any) -> Any:
        """The reply to one request of the S3 API (snake case name), sent again by the client if need be."""
        return self.filesystem.call_s3(method, **parameters)

    def create(self, bucket: str, key: str, body: bytes) -> PutResult:
        """A put-if-absent: one PUT with ``If-None-Match: *``, never in several parts.

        Raises:
            StorageError: the service does not know the condition.
            Other errors of the client: the request was refused, and no earlier try can have landed.
        """
        in_doubt = False
        for attempt in range(_CREATE_ATTEMPTS):
            if attempt:
                time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.0))
            try:
                self._committing.get().call_s3("put_object", Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
            except FileExistsError:
                return PutResult.EXISTS
            except client_errors() as error:
                answer = _judge(error)
                if answer is PutResult.EXISTS:
                    return answer
                if answer is PutResult.UNKNOWN:
                    in_doubt = True
                    continue
                if in_doubt:
                    return PutResult.UNKNOWN
                raise
            else:
                return PutResult.CREATED
        return PutResult.UNKNOWN

    def _make_reading(self) -> Any:
        # One reader at a time within s3fs: otherwise it asks for the size before it reads a whole object.
        return _s3fs()(**with_environment(self.arguments), max_concurrency=1, use_listings_cache=False)

    def _make_committing(self) -> Any:
        arguments = with_environment(self.arguments)
        config = {**arguments.get("config_kwargs", {}), "retries": {"total_max_attempts": 1, "mode": "standard"}}
        filesystem = _s3fs()(**(arguments | {"config_kwargs": config}), max_concurrency=1, use_listings_cache=False)
        filesystem.retries = 1
        return filesystem


@cache
def client_errors() -> tuple[type[BaseException], ...]:
    """Everything that s3fs raises when a request fails."""
    from aiohttp import ClientError as HttpError
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return (OSError, asyncio.TimeoutError, BotoCoreError, ClientError, ResponseParserError, HttpError)


def status_of(error: BaseException) -> tuple[int, str]:
    """(HTTP status, S3 error code) of a reply that s3fs turned into `error`; (0, "") if there was no reply."""
    for candidate in (error, error.__cause__):
        response = getattr(candidate, "response", None)
        if isinstance(response, dict) and "Error" in response:
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return int(status), str(response["Error"].get("Code", ""))
    return 0, ""


def _judge(error: BaseException) -> PutResult | None:
    """What a failed put-if-absent says about the object; None: this request did not create it."""
    status, code = status_of(error)
    if status == 412 or code in _TAKEN:
        return PutResult.EXISTS
    if status == 501 or code == "NotImplemented":
        raise StorageError(f"the service cannot create an object only if it is absent: {error}") from error
    if status >= 500 or status in (408, 409, 429) or code in _TRY_AGAIN:
        return PutResult.UNKNOWN
    if status:
        return None
    return PutResult.UNKNOWN if _may_have_been_sent(error) else None


def _may_have_been_sent(error: BaseException) -> bool:
    """Whether a request without a reply may have reached the service."""
    from botocore import exceptions

    # Of botocore's own errors only those of the transport come after sending; the rest (no credentials, a bad
    # parameter) come before.
    transport = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
    return not isinstance(error, exceptions.BotoCoreError) or isinstance(error, transport)


def _s3fs() -> Any:
    import s3fs

    return s3fs.S3FileSystem
