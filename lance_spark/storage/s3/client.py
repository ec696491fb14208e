"""Requests to S3: through s3fs, and for commits through botocore, on which s3fs is built.

Reads and data uploads may be retried freely. A put-if-absent may not: when its first attempt took effect and only the
reply was lost, a silent retry is refused because of our own object, which looks like a conflict with another writer;
or the retry fails with expired credentials, and a failure is reported for an object that exists. Retries of s3fs
cannot be disabled (aiohttp retries every PUT whose connection breaks). So commits use botocore's own transport with
all retries off, and this module retries with knowledge of the earlier attempts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lance_spark.errors import StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.conditional_put import create_if_absent
from lance_spark.storage.options import RENEWAL
from lance_spark.storage.patience import DEFAULT_SECONDS, RETRY_SECONDS, Failure, Patience
from lance_spark.storage.per_process import PerProcess
from lance_spark.storage.s3.options import with_environment
from lance_spark.storage.s3.renewed import RenewedCredentials

_SHORT_REQUESTS = frozenset({"list_objects_v2", "head_object", "delete_object"})

_TRY_AGAIN = frozenset(
    {"ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "SlowDown", "Throttling", "TooManyRequests"}
)


def shared_client(arguments: Mapping[str, Any], options: Mapping[str, str]) -> S3Client:
    """The shared client for these arguments: creating one takes longer than most requests.

    Args:
        options: storage options, among them credentials that are renewed.
    """
    text, renewal = json.dumps(arguments, sort_keys=True), options.get(RENEWAL)
    if renewal is None:
        return _shared(text)
    client = _renewing(text, renewal)
    client.credentials.offer(options)
    return client


@lru_cache(maxsize=64)
def _shared(arguments: str) -> S3Client:
    return S3Client(json.loads(arguments))


@lru_cache(maxsize=64)
def _renewing(arguments: str, renewal: str) -> S3Client:
    return S3Client(json.loads(arguments), RenewedCredentials(renewal))


class S3Client:
    """The clients of this process for one set of arguments.

    Args:
        arguments: of `s3fs.S3FileSystem`, see `options`.
        credentials: those of a catalog; None: of the arguments, or of the environment.
    """

    def __init__(self, arguments: Mapping[str, Any], credentials: RenewedCredentials | None = None) -> None:
        self._credentials = credentials
        self.arguments = dict(arguments)
        seconds = self.arguments.pop(RETRY_SECONDS, DEFAULT_SECONDS)
        self.patience = Patience(_service_name(self.arguments), seconds)
        self._reading = PerProcess(self._make_reading)
        self._committing = PerProcess(self._make_committing)

    @property
    def credentials(self) -> RenewedCredentials:
        """The credentials of a catalog, which this client has."""
        assert self._credentials is not None, "the client has credentials of its own"
        return self._credentials

    @property
    def filesystem(self) -> Any:
        """The file system for everything but commits."""
        return self._reading.get()

    def call(self, method: str, **parameters: Any) -> Any:
        """The reply to one request of the S3 API (snake case name), with retries."""
        return self.patience.run(
            lambda: self.filesystem.call_s3(method, **parameters),
            client_errors(),
            judge_failure,
            short=method in _SHORT_REQUESTS,
        )

    def fetch(self, place: str, start: int | None = None, end: int | None = None) -> bytes:
        """The bytes of an object (``bucket/key``) from `start` to before `end`, with retries."""
        return self.patience.run(
            lambda: bytes(self.filesystem.cat_file(place, start=start, end=end)), client_errors(), judge_failure
        )

    def create(self, bucket: str, key: str, body: bytes) -> PutResult:
        """A put-if-absent: one PUT with ``If-None-Match: *``, never in several parts.

        Raises:
            StorageError: the service does not support the condition.
            Other errors of the client: the request was rejected, and no earlier attempt can have taken effect.
        """
        client, fixed = self._committing.get()

        def send() -> None:
            client.put_object(**fixed, Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")

        return create_if_absent(self.patience, send, client_errors(), _judge, judge_failure)

    def _make_reading(self) -> Any:
        # One reader at a time within s3fs: otherwise it requests the size before it reads a complete object.
        arguments = with_environment(self.arguments)
        # `patience` does the retries, with a timeout per statement.
        arguments["config_kwargs"] = {"retries": {"total_max_attempts": 1}, **arguments.get("config_kwargs", {})}
        if self._credentials is not None:
            arguments["session"] = self._credentials.aiobotocore_session()
        filesystem = _s3fs()(**arguments, max_concurrency=1, use_listings_cache=False)
        filesystem.retries = 1
        return filesystem

    def _make_committing(self) -> tuple[Any, dict[str, Any]]:
        """(botocore client without retries, parameters of every PutObject)."""
        arguments = with_environment(self.arguments)
        endpoint = arguments.get("client_kwargs", {}).get("endpoint_url") or arguments.get("endpoint_url")
        client = plain_client("s3", self.arguments, endpoint, self._credentials)
        members = client.meta.service_model.operation_model("PutObject").input_shape.members
        if "IfNoneMatch" not in members:
            raise StorageError("the installed botocore cannot send If-None-Match; commits need 1.35.20 or later")
        fixed = {name: value for name, value in arguments.get("s3_additional_kwargs", {}).items() if name in members}
        return client, fixed | ({"RequestPayer": "requester"} if arguments.get("requester_pays") else {})


def plain_client(
    service: str, arguments: Mapping[str, Any], endpoint: str | None, credentials: RenewedCredentials | None = None
) -> Any:
    """A botocore client without retries.

    Args:
        service: "s3", or another service that takes the same credentials.
        arguments: of `s3fs.S3FileSystem`; those specific to S3 have no effect on other services.
        endpoint: URL of the service, None for its default.
        credentials: those of a catalog, if the arguments have none.
    """
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.session import Session

    environment = with_environment(arguments)
    config = {"connect_timeout": 5, "read_timeout": 15, **environment.get("config_kwargs", {})}
    config["retries"] = {"total_max_attempts": 1, "mode": "standard"}
    names = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token"}
    chosen = {names[name]: environment[name] for name in names if name in environment}
    if environment.get("anon"):
        chosen, config["signature_version"] = {}, UNSIGNED
    if "use_ssl" in environment:
        chosen["use_ssl"] = environment["use_ssl"]
    more = {name: value for name, value in environment.get("client_kwargs", {}).items() if name != "endpoint_url"}
    if endpoint is not None:
        more["endpoint_url"] = endpoint
    chosen |= more
    session = Session(profile=environment.get("profile"))
    if credentials is not None:
        credentials.give_to(session)
    return session.create_client(service, config=Config(**config), **chosen)


def client_errors() -> tuple[type[BaseException], ...]:
    """Everything that s3fs raises when a request fails."""
    from aiohttp import ClientError as HttpError
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return (OSError, asyncio.TimeoutError, BotoCoreError, ClientError, ResponseParserError, HttpError)


def judge_failure(error: BaseException) -> Failure | None:
    """Whether a request may succeed on a retry."""
    from botocore import exceptions

    answer = error if isinstance(error, exceptions.ClientError) else error.__cause__
    if isinstance(answer, exceptions.ClientError):
        status = int(answer.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = str(answer.response.get("Error", {}).get("Code", ""))
        passes = status >= 500 or status in (408, 429) or code in _TRY_AGAIN
        return Failure.REFUSED_FOR_NOW if passes and status != 501 else None
    return Failure.UNANSWERED if isinstance(error, _transport_errors()) else None


def _transport_errors() -> tuple[type[BaseException], ...]:
    """Exceptions of s3fs and botocore for a request that was not sent or got no valid reply."""
    from aiohttp import ClientError as HttpError
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    transport = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
    return (*transport, ResponseParserError, HttpError, asyncio.TimeoutError, TimeoutError, ConnectionError)


def _service_name(arguments: Mapping[str, Any]) -> str:
    environment = with_environment(arguments)
    return str(environment.get("client_kwargs", {}).get("endpoint_url") or environment.get("endpoint_url") or "S3")


def _judge(error: BaseException) -> PutResult | None:
    """The outcome of a failed put-if-absent; None: this request did not create the object."""
    from botocore import exceptions

    if not isinstance(error, exceptions.ClientError):
        # Of botocore's own errors only transport errors occur after sending; the rest (no credentials, a bad
        # parameter) occur before.
        transport = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
        before = isinstance(error, exceptions.BotoCoreError) and not isinstance(error, transport)
        return None if before else PutResult.UNKNOWN
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    code = str(error.response.get("Error", {}).get("Code", ""))
    if status == 412 or code == "PreconditionFailed":
        return PutResult.EXISTS
    if status == 501 or code == "NotImplemented":
        raise StorageError(f"the service cannot create an object only if it is absent: {error}") from error
    in_doubt = status >= 500 or status in (0, 408, 409, 429) or code in _TRY_AGAIN
    return PutResult.UNKNOWN if in_doubt else None


def _s3fs() -> Any:
    import s3fs

    return s3fs.S3FileSystem
