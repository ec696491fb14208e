"""Options of Hadoop's file systems, ``fs.s3a.*`` and others: refused, each with the storage option to write instead.

Lance tables are not read through Hadoop. Without its options a client would look for credentials elsewhere, and for the
bucket in another store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lance_spark.errors import InvalidInputError

_NAME = re.compile(
    r"(?:storage\.|spark\.|hadoop\.)*fs\.(s3[an]?|gs|azure|adl|abfss?|wasbs?|oss|obs|cosn?)\.(?:bucket\.[^.]+\.)?(.+)"
)
_S3 = {
    "access.key": "storage.aws_access_key_id",
    "secret.key": "storage.aws_secret_access_key",
    "session.token": "storage.aws_session_token",
    "endpoint": "storage.aws_endpoint",
    "endpoint.region": "storage.aws_region",
    "path.style.access": "storage.aws_virtual_hosted_style_request with the opposite value",
    "connection.ssl.enabled": "storage.aws_endpoint with http:// or https:// before the host",
    "aws.credentials.provider": "storage.aws_profile or storage.aws_skip_signature, or nothing: credentials are looked "
    "for in the environment, in profiles and in the role of the machine",
    "server-side-encryption-algorithm": "storage.aws_server_side_encryption",
    "encryption.algorithm": "storage.aws_server_side_encryption",
    "server-side-encryption.key": "storage.aws_sse_kms_key_id",
    "encryption.key": "storage.aws_sse_kms_key_id",
    "requester.pays.enabled": "storage.aws_request_payer",
    "connection.establish.timeout": "storage.connect_timeout",
    "connection.timeout": "storage.timeout",
    "attempts.maximum": "storage.client_retry_timeout, a time",
    "retry.limit": "storage.client_retry_timeout, a time",
    "proxy.host": "storage.proxy_url",
    "proxy.port": "storage.proxy_url",
}
_GOOGLE = {
    "auth.service.account.json.keyfile": "storage.google_service_account",
    "auth.service.account.enable": "storage.google_service_account",
    "auth.access.token": "storage.google_storage_token",
    "project.id": "storage.project",
    "storage.root.url": "storage.google_base_url",
    "requester.pays.mode": "storage.requester_pays",
}
_AZURE = {
    "account.key": "storage.azure_storage_account_key",
    "sas": "storage.azure_storage_sas_key",
    "account.oauth2.client.id": "storage.azure_client_id",
    "account.oauth2.client.secret": "storage.azure_client_secret",
    "account.oauth2.client.endpoint": "storage.azure_tenant_id",
}
_OF_SCHEMES = {"s3": _S3, "s3a": _S3, "s3n": _S3, "gs": _GOOGLE}


def refuse_hadoop_names(names: Iterable[str]) -> None:
    """Passes if no option is one of Hadoop's file systems.

    Raises:
        InvalidInputError: one is; the message names the storage option to write instead.
    """
    for name in names:
        match = _NAME.match(name.lower())
        if match is None:
            continue
        renamed = _OF_SCHEMES.get(match[1], _AZURE)
        # Azure puts the account or the container behind the name.
        near = [ours for theirs, ours in renamed.items() if f"{match[2]}.".startswith(f"{theirs}.")]
        instead = near[-1] if near else "one of the options storage.* in docs/reference/options.md, or leave it out"
        raise InvalidInputError(
            f"option {name} is one of Hadoop, through which Lance tables are not read; write {instead}"
        )
