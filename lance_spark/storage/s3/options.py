"""Storage options of S3 -> arguments of `s3fs.S3FileSystem`.

Options have the names of the Lance libraries (with and without ``aws_``) and of s3fs itself. Anything not set as an
option comes from the environment, profiles and roles, as with any AWS client.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lance_spark.errors import InvalidInputError
from lance_spark.storage.options import RENEWAL, ClientArgument, boolean, json_object, seconds, translate
from lance_spark.storage.patience import RETRY_SECONDS

_REGION = ClientArgument(("client_kwargs", "region_name"))
_PROXY = ClientArgument(("config_kwargs", "proxies", "https"))


def _addressing_style(text: str) -> str:
    return "virtual" if boolean(text) else "path"


def _unless(text: str) -> bool:
    return not boolean(text)


_WITH_AND_WITHOUT_PREFIX = {
    "access_key_id": ClientArgument(("key",)),
    "secret_access_key": ClientArgument(("secret",)),
    "session_token": ClientArgument(("token",)),
    "token": ClientArgument(("token",)),
    "region": _REGION,
    "default_region": _REGION,
    "endpoint": ClientArgument(("endpoint_url",)),
    "endpoint_url": ClientArgument(("endpoint_url",)),
    "endpoint_url_s3": ClientArgument(("endpoint_url",)),
    "profile": ClientArgument(("profile",)),
    "skip_signature": ClientArgument(("anon",), boolean),
    "virtual_hosted_style_request": ClientArgument(("config_kwargs", "s3", "addressing_style"), _addressing_style),
    "unsigned_payload": ClientArgument(("config_kwargs", "s3", "payload_signing_enabled"), _unless),
    "request_payer": ClientArgument(("requester_pays",), boolean),
    "server_side_encryption": ClientArgument(("s3_additional_kwargs", "ServerSideEncryption")),
    "sse_kms_key_id": ClientArgument(("s3_additional_kwargs", "SSEKMSKeyId")),
    "sse_bucket_key_enabled": ClientArgument(("s3_additional_kwargs", "BucketKeyEnabled"), boolean),
    "allow_http": ClientArgument(("allow_http",), boolean),
}

_PLAIN = {
    "allow_invalid_certificates": ClientArgument(("client_kwargs", "verify"), _unless),
    "timeout": ClientArgument(("config_kwargs", "read_timeout"), seconds),
    "connect_timeout": ClientArgument(("config_kwargs", "connect_timeout"), seconds),
    "client_retry_timeout": ClientArgument((RETRY_SECONDS,), seconds),
    "proxy_url": _PROXY,
    "region_name": _REGION,
    "key": ClientArgument(("key",)),
    "secret": ClientArgument(("secret",)),
    "anon": ClientArgument(("anon",), boolean),
    "use_ssl": ClientArgument(("use_ssl",), boolean),
    "requester_pays": ClientArgument(("requester_pays",), boolean),
    "client_kwargs": ClientArgument(("client_kwargs",), json_object),
    "config_kwargs": ClientArgument(("config_kwargs",), json_object),
    "s3_additional_kwargs": ClientArgument(("s3_additional_kwargs",), json_object),
}

_TARGETS = (
    _WITH_AND_WITHOUT_PREFIX | {f"aws_{name}": target for name, target in _WITH_AND_WITHOUT_PREFIX.items()} | _PLAIN
)

_IGNORED_WITH_AND_WITHOUT_PREFIX = (
    "checksum_algorithm",
    "conditional_put",
    "copy_if_not_exists",
    "disable_tagging",
    "imdsv1_fallback",
    "metadata_endpoint",
    "s3_express",
)

_IGNORED = frozenset(
    [
        *_IGNORED_WITH_AND_WITHOUT_PREFIX,
        *(f"aws_{name}" for name in _IGNORED_WITH_AND_WITHOUT_PREFIX),
        "client_max_retries",
        # Used by `dynamodb` and the registry.
        "ddb_table_name",
        "dynamodb_endpoint",
        "download_retry_count",
        "expires_at_millis",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "refresh_offset_millis",
        "user_agent",
    ]
)

KNOWN = frozenset({*_TARGETS, *_IGNORED})
"""Names of all storage options, in lower case."""


def s3fs_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of `s3fs.S3FileSystem` for the storage options `options`.

    Raises:
        InvalidInputError: see `options.translate`; also for plain HTTP where ``allow_http`` is false.
    """
    arguments = translate("S3", options, _TARGETS, _IGNORED | {RENEWAL})
    if RENEWAL in options:
        for name in ("key", "secret", "token"):
            arguments.pop(name, None)  # They are renewed.
    allow_http = arguments.pop("allow_http", True)
    endpoint = arguments.get("endpoint_url")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise InvalidInputError("the S3 endpoint begins with neither http:// nor https://")
    if endpoint is not None and endpoint.startswith("http://") and not allow_http:
        raise InvalidInputError("the S3 endpoint is plain HTTP, and allow_http is false")
    proxies = arguments.get("config_kwargs", {}).get("proxies")
    if proxies is not None and "http" not in proxies:
        arguments["config_kwargs"]["proxies"] = {"http": proxies["https"], **proxies}
    return arguments


def with_environment(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments`, completed by variables that the Lance libraries read from the environment and botocore does not.

    That is ``AWS_REGION`` and ``AWS_ENDPOINT``; everything else botocore finds by itself.
    """
    completed = dict(arguments)
    client = dict(completed.get("client_kwargs", {}))
    region = os.environ.get("AWS_REGION")
    if region and "region_name" not in client:
        completed["client_kwargs"] = client | {"region_name": region}
    endpoint = os.environ.get("AWS_ENDPOINT")
    variables = {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} & os.environ.keys()
    if endpoint and not variables and "endpoint_url" not in completed and "endpoint_url" not in client:
        completed["endpoint_url"] = endpoint
    return completed
