"""Azure Blob Storage and Data Lake Storage, through adlfs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from lance_spark.errors import InvalidInputError
from lance_spark.storage.base import OutputStream, PutResult
from lance_spark.storage.buffered_output import BLOCK_BYTES, BufferedOutput
from lance_spark.storage.object_store import FsspecStore, require_client
from lance_spark.storage.options import Target, boolean, translate

_ACCOUNT_KEY = Target(("account_key",))
_SAS = Target(("sas_token",))
_ENDPOINT = Target(("endpoint",))

_NAMES = {
    "account_name": Target(("account_name",)),
    "account_key": _ACCOUNT_KEY,
    "access_key": _ACCOUNT_KEY,
    "master_key": _ACCOUNT_KEY,
    "sas_key": _SAS,
    "sas_token": _SAS,
    "connection_string": Target(("connection_string",)),
    "client_id": Target(("client_id",)),
    "client_secret": Target(("client_secret",)),
    "tenant_id": Target(("tenant_id",)),
    "authority_id": Target(("tenant_id",)),
    "skip_signature": Target(("anon",), boolean),
    "endpoint": _ENDPOINT,
}

_TARGETS = (
    _NAMES
    | {f"azure_{name}": target for name, target in _NAMES.items()}
    | {f"azure_storage_{name}": target for name, target in _NAMES.items()}
    | {"anon": Target(("anon",), boolean), "account_host": Target(("account_host",))}
)

_IGNORED = frozenset(
    [
        "allow_http",
        "azure_disable_tagging",
        "client_max_retries",
        "client_retry_timeout",
        "connect_timeout",
        "disable_tagging",
        "download_retry_count",
        "expires_at_millis",
        "timeout",
        "user_agent",
    ]
)

KNOWN = frozenset({*_TARGETS, *_IGNORED})
"""Names of all storage options, in lower case."""

_MAY_HAVE_LANDED = frozenset({408, 409, 412, 429})


def adlfs_arguments(options: Mapping[str, str], account_host: str) -> dict[str, Any]:
    """Arguments of `adlfs.AzureBlobFileSystem` for the storage options.

    Args:
        options: as the user passed them.
        account_host: the part of the URI after ``@``, such as ``account.dfs.core.windows.net``; may be empty.

    Raises:
        InvalidInputError: see `options.translate`; also for an endpoint without account name and key.
    """
    arguments = translate("Azure", options, _TARGETS, _IGNORED)
    if account_host:
        arguments.setdefault("account_name", account_host.partition(".")[0])
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

    def client_errors(self) -> tuple[type[BaseException], ...]:
        return _client_errors()

    def _client_arguments(self) -> dict[str, Any]:
        return adlfs_arguments(self._options, self._root.location.partition("/")[0].partition("@")[2])

    def _client_class(self) -> Any:
        return require_client(self._root.scheme, "adlfs", "azure").AzureBlobFileSystem

    def _base(self, client: Any) -> str:
        container, slash, path = self._root.location.partition("/")
        return container.partition("@")[0] + slash + path

    def _make_filesystem(self) -> Any:
        return self._client_class()(**self._arguments, use_listings_cache=False)

    def _prepare_folder(self, key: str) -> None:
        """Does nothing: there are no folders, and a request for one could create a container."""

    def _create(self, key: str, body: bytes) -> PutResult:
        # A large object is uploaded in blocks; the one request that commits them carries the condition.
        try:
            self._filesystem.get().pipe_file(key, body, overwrite=False)
        except FileExistsError:
            return PutResult.EXISTS
        except _client_errors() as error:
            status = getattr(error, "status_code", None)
            if status is not None and 400 <= status < 500 and status not in _MAY_HAVE_LANDED:
                raise
            if isinstance(error, (FileNotFoundError, PermissionError, ValueError)):
                raise
            return PutResult.EXISTS if status == 412 else PutResult.UNKNOWN
        return PutResult.CREATED


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
    return {"connection_string": text}


@cache
def _client_errors() -> tuple[type[BaseException], ...]:
    azure, http = import_module("azure.core.exceptions").AzureError, import_module("aiohttp").ClientError
    # adlfs wraps the failure of a block upload in a RuntimeError.
    return (OSError, asyncio.TimeoutError, ValueError, RuntimeError, http, azure)
