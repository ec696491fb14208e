"""Azure Blob Storage and Data Lake Storage, through adlfs.

Azure's client repeats each request three times with pauses of 15 s and more, whatever a statement has already waited
for. So its retry policy is replaced by one that asks `patience`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.storage.base import ObjectStore, OutputStream, PutResult
from lance_spark.storage.buffered_output import BLOCK_BYTES, BufferedOutput
from lance_spark.storage.conditional_put import create_if_absent
from lance_spark.storage.object_store import FsspecStore, Result, http_transport_errors, require_client
from lance_spark.storage.options import ClientArgument, boolean, seconds, translate
from lance_spark.storage.patience import CONNECT_SECONDS, READ_SECONDS, RETRY_SECONDS, Failure, Patience

_ACCOUNT_KEY = ClientArgument(("account_key",))
_SAS = ClientArgument(("sas_token",))
_ENDPOINT = ClientArgument(("endpoint",))

_NAMES = {
    "account_name": ClientArgument(("account_name",)),
    "account_key": _ACCOUNT_KEY,
    "access_key": _ACCOUNT_KEY,
    "master_key": _ACCOUNT_KEY,
    "sas_key": _SAS,
    "sas_token": _SAS,
    "connection_string": ClientArgument(("connection_string",)),
    "client_id": ClientArgument(("client_id",)),
    "client_secret": ClientArgument(("client_secret",)),
    "tenant_id": ClientArgument(("tenant_id",)),
    "authority_id": ClientArgument(("tenant_id",)),
    "skip_signature": ClientArgument(("anon",), boolean),
    "endpoint": _ENDPOINT,
}

_TARGETS = (
    _NAMES
    | {f"azure_{name}": target for name, target in _NAMES.items()}
    | {f"azure_storage_{name}": target for name, target in _NAMES.items()}
    | {"anon": ClientArgument(("anon",), boolean), "account_host": ClientArgument(("account_host",))}
    | {
        "client_retry_timeout": ClientArgument((RETRY_SECONDS,), seconds),
        "connect_timeout": ClientArgument(("connect_seconds",), seconds),
        "timeout": ClientArgument(("read_seconds",), seconds),
    }
)

_OWN_ARGUMENTS = (RETRY_SECONDS, "connect_seconds", "read_seconds")

_IGNORED = frozenset(
    [
        "allow_http",
        "azure_disable_tagging",
        "client_max_retries",
        "disable_tagging",
        "download_retry_count",
        "expires_at_millis",
        "user_agent",
    ]
)

KNOWN = frozenset({*_TARGETS, *_IGNORED})
"""Names of all storage options, in lower case."""

_MAY_HAVE_LANDED = frozenset({408, 409, 412, 429})
_COPY_POLL_SECONDS = 0.2

_FOR_NOW = frozenset({408, 429, 500, 502, 503, 504})

_COUNTS = ("retry_total", "retry_connect", "retry_read", "retry_status")
_MANY_RETRIES = 1_000_000
"""More than `patience` ever allows."""


def adlfs_arguments(options: Mapping[str, str], account_host: str) -> dict[str, Any]:
    """Arguments of `adlfs.AzureBlobFileSystem` for the storage options, and some of ours.

    These are ``connect_seconds``, ``read_seconds`` and `RETRY_SECONDS`.

    Args:
        options: as the user passed them.
        account_host: the part of the URI after ``@``, such as ``account.dfs.core.windows.net``; may be empty.

    Raises:
        InvalidInputError: see `options.translate`; also for an endpoint without account name and key, or a wrong host.
    """
    arguments = translate("Azure", options, _TARGETS, _IGNORED)
    if account_host:
        account = account_host.partition(".")[0]
        if not re.fullmatch("[A-Za-z0-9-]+", account):  # It becomes a part of a host's name.
            raise InvalidInputError(f"{account_host!r} names no Azure account; write account.dfs.core.windows.net")
        if arguments.setdefault("account_name", account) != account:
            raise InvalidInputError(f"URI has Azure account {account!r}, option account_name another; leave one out")
    endpoint = arguments.pop("endpoint", None)
    if endpoint is not None:
        arguments = _with_endpoint(arguments, endpoint)
    return arguments


class AzureStore(FsspecStore):
    """An `ObjectStore` over one container and a name prefix.

    Roots are ``az://container/path`` with the account in the options or the environment, or
    ``abfss://container@account.dfs.core.windows.net/path``.
    """

    def open_output(self, path: str) -> OutputStream:
        key = self._key(path)
        return BufferedOutput(self, path, lambda: self._filesystem.get().open(key, "wb", block_size=BLOCK_BYTES))

    def copy_object(self, source: ObjectStore, source_path: str, path: str, size: int) -> bool:
        """See `storage.base.copy_object`: by the service within one container, for as long as a request may take."""
        if not isinstance(source, AzureStore) or source.service != self.service or source.size(source_path) != size:
            return False
        client, key = self._filesystem.get(), self._key(path)
        with self.writing(path):
            client.cp_file(source._key(source_path), key)
            # The service answers before it has copied a large object.
            end = time.monotonic() + self._patience.seconds
            while (state := client.copy_status(key)) == "pending" and time.monotonic() < end:
                time.sleep(_COPY_POLL_SECONDS)
        if state == "pending":
            raise StorageError(f"{path!r} in {self._uri}: the service has not copied {source_path!r} in time")
        return bool(state == "success")

    def client_errors(self) -> tuple[type[BaseException], ...]:
        return _client_errors()

    def _client_arguments(self) -> dict[str, Any]:
        return adlfs_arguments(self._options, self._root.location.partition("/")[0].partition("@")[2])

    def _client_class(self) -> Any:
        require_client(self._root.scheme, "adlfs", "azure")
        return _azure_client_class()

    def _service_name(self) -> str:
        text = str(self._arguments.get("connection_string", ""))
        parts = dict(part.partition("=")[::2] for part in text.split(";"))
        account = parts.get("AccountName") or self._arguments.get("account_name")
        return parts.get("BlobEndpoint") or (f"Azure storage account {account}" if account else "Azure storage")

    def _ask(self, send: Callable[[Any], Result], *, short: bool = False) -> Result:
        # The client repeats by itself, see `_azure_client_class`.
        return send(self._filesystem.get())

    def _base(self, client: Any) -> str:
        container, slash, path = self._root.location.partition("/")
        return container.partition("@")[0] + slash + path

    def _make_filesystem(self) -> Any:
        arguments = {
            "connect_seconds": CONNECT_SECONDS,
            "read_seconds": READ_SECONDS,
            **self._arguments,
            "retry_service": self._patience.service,
            "retry_seconds": self._patience.seconds,
        }
        return self._client_class()(**arguments, use_listings_cache=False)

    def _prepare_folder(self, key: str) -> None:
        """Does nothing: there are no folders, and a request for one could create a container."""

    def _create(self, key: str, body: bytes) -> PutResult:
        def send() -> None:
            # A large object is uploaded in blocks; the one request that commits them carries the condition.
            self._filesystem.get().pipe_file(key, body, overwrite=False)

        return create_if_absent(self._patience, send, _client_errors(), _created, judge_failure)


def _created(error: BaseException) -> PutResult | None:
    """The outcome of a failed put-if-absent, as `conditional_put.Outcome`."""
    if isinstance(error, FileExistsError):
        return PutResult.EXISTS
    status = getattr(error, "status_code", None)
    if status is not None and 400 <= status < 500 and status not in _MAY_HAVE_LANDED:
        return None
    if isinstance(error, (FileNotFoundError, PermissionError, ValueError)):
        return None
    return PutResult.EXISTS if status == 412 else PutResult.UNKNOWN


def _with_endpoint(arguments: dict[str, Any], endpoint: str) -> dict[str, Any]:
    """adlfs accepts a custom endpoint only in a connection string."""
    missing = {"account_name", "account_key"} - arguments.keys()
    if missing:
        raise InvalidInputError(f"an Azure endpoint needs the storage options {sorted(missing)} too")
    protocol = endpoint.partition("://")[0]
    text = (
        f"DefaultEndpointsProtocol={protocol};AccountName={arguments['account_name']};"
        f"AccountKey={arguments['account_key']};BlobEndpoint={endpoint};"
    )
    own = {name: arguments[name] for name in _OWN_ARGUMENTS if name in arguments}
    return own | {"connection_string": text}


def _client_errors() -> tuple[type[BaseException], ...]:
    azure, http = import_module("azure.core.exceptions").AzureError, import_module("aiohttp").ClientError
    # adlfs wraps the failure of a block upload in a RuntimeError.
    return (OSError, asyncio.TimeoutError, ValueError, RuntimeError, http, azure)


def judge_failure(error: BaseException) -> Failure | None:
    """Whether a request may succeed on a retry."""
    status = getattr(error, "status_code", None)
    if status is not None:
        return Failure.REFUSED_FOR_NOW if status in _FOR_NOW else None
    azure = import_module("azure.core.exceptions")
    transport = (azure.ServiceRequestError, azure.ServiceResponseError)
    silent = (asyncio.TimeoutError, TimeoutError, ConnectionError, *http_transport_errors(), *transport)
    return Failure.UNANSWERED if isinstance(error, silent) else None


@cache
def _azure_client_class() -> Any:
    """`AzureBlobFileSystem` with the retries of `patience` in place of the retries of Azure's client."""
    plain, sync_wrapper = import_module("adlfs").AzureBlobFileSystem, import_module("fsspec.asyn").sync_wrapper

    class AzureClient(plain):  # type: ignore[misc, valid-type]
        def __init__(
            self,
            *args: Any,
            retry_service: str,
            retry_seconds: float,
            connect_seconds: float,
            read_seconds: float,
            **kwargs: Any,
        ) -> None:
            self._service_settings = {
                "retry_policy": _retry_policy_class()(Patience(retry_service, retry_seconds)),
                "connection_timeout": connect_seconds,
                "read_timeout": read_seconds,
            }
            super().__init__(*args, **kwargs)

        async def _copy_status(self, path: str) -> str:
            """Status of the copy that made an object: "pending", "success", or the kind of failure."""
            container, blob, _ = self.split_path(path, delimiter="/")
            async with self.service_client.get_blob_client(container, blob) as object_client:
                return str((await object_client.get_blob_properties()).copy.status)

        copy_status = sync_wrapper(_copy_status)

        def do_connect(self) -> None:
            super().do_connect()
            # adlfs has no argument for these settings.
            service: Any = self.service_client
            self.service_client: Any = type(service)(
                service.url, credential=service.credential, **self._service_settings
            )

    return AzureClient


def _retry_policy_class() -> Any:
    """A retry policy of Azure's client that asks `patience`."""
    base = import_module("azure.storage.blob.aio").ExponentialRetry

    class AzureRetryPolicy(base):  # type: ignore[misc, valid-type]
        def __init__(self, patience: Patience) -> None:
            super().__init__(**dict.fromkeys(_COUNTS, _MANY_RETRIES))
            self._patience = patience

        async def send(self, request: Any) -> Any:
            budget = self._patience.request()
            request.context["lance_retries"] = budget
            http = request.http_request
            short = http.method in ("HEAD", "DELETE") or "comp=list" in http.url
            with budget.attempt(short=short):
                response = await super().send(request)
            if response.http_response.status_code not in _FOR_NOW:
                budget.answered()
            return response

        def configure_retries(self, request: Any) -> Any:
            return super().configure_retries(request) | {"budget": request.context["lance_retries"]}

        def increment(self, settings: Any, request: Any, response: Any = None, error: Any = None) -> bool:
            if request.headers.get("If-None-Match") == "*":
                # A put-if-absent: only `AzureStore._create` knows how to repeat it.
                return False
            failure = judge_failure(error) if error is not None else Failure.REFUSED_FOR_NOW
            cause = error or StorageError(f"status {getattr(response, 'status_code', None)}")
            again = settings["budget"].may_repeat(failure, cause)
            return bool(again and super().increment(settings, request, response, error))

        async def sleep(self, settings: Any, transport: Any) -> None:
            await settings["budget"].wait_async()

    return AzureRetryPolicy
