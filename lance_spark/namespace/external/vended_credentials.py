"""Credentials that catalogs send with tables, as storage options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.errors import InvalidInputError
from lance_spark.storage.paths import S3_SCHEMES, parse_root

_AZURE_SCHEMES = ("az", "abfs", "abfss", "adl", "azure", "wasb", "wasbs")
_GOOGLE_SCHEMES = ("gs", "gcs")
_EXPIRES = "expires_at_millis"

_S3_NAMES = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.session-token-expires-at-ms": _EXPIRES,
    "client.region": "aws_region",
    "s3.region": "aws_region",
    "s3.endpoint": "aws_endpoint",
}
_GOOGLE_NAMES = {"gcs.oauth2.token": "google_storage_token", "gcs.oauth2.token-expires-at": _EXPIRES}
_ADLS_TOKEN, _ADLS_EXPIRES = "adls.sas-token.", "adls.sas-token-expires-at-ms."

_S3_KEYS = ("access_key_id", "secret_access_key", "session_token", "token", "profile", "skip_signature")
_IDENTITIES = {
    "aws_access_key_id": {*_S3_KEYS, *(f"aws_{name}" for name in _S3_KEYS), "key", "secret", "anon"},
    "google_storage_token": {
        f"{prefix}{name}"
        for name in (
            "service_account",
            "service_account_path",
            "application_credentials",
            "service_account_key",
            "skip_signature",
        )
        for prefix in ("", "google_")
    }
    | {"token"},
    "azure_storage_sas_token": {
        f"{prefix}{name}"
        for name in (
            "account_key",
            "access_key",
            "master_key",
            "sas_key",
            "sas_token",
            "connection_string",
            "client_id",
            "client_secret",
            "tenant_id",
            "authority_id",
            "skip_signature",
        )
        for prefix in ("", "azure_", "azure_storage_")
    }
    | {"anon"},
    "aws_region": {"region", "default_region", "region_name", "aws_default_region"},
    "aws_endpoint": {"endpoint", "endpoint_url", "endpoint_url_s3", "aws_endpoint_url", "aws_endpoint_url_s3"},
    "aws_virtual_hosted_style_request": {"virtual_hosted_style_request"},
    "azure_storage_account_name": {"account_name", "azure_account_name"},
}
"""Names of our options that an option of a catalog replaces: an identity is never put together from two sources."""


def merged(own: Mapping[str, str], sent: Mapping[str, str] | None) -> dict[str, str]:
    """Storage options of a table: those of the catalog, and of ours what they do not replace."""
    if not sent:
        return dict(own)
    replaced = {name for key in sent for name in _IDENTITIES.get(key, ())}
    kept = {name: value for name, value in own.items() if name.lower() not in replaced and name.lower() not in sent}
    return {**kept, **sent}


def iceberg_options(location: str, answer: Mapping[str, Any]) -> dict[str, str]:
    """Storage options for `location` of an answer with ``config`` and ``storage-credentials``.

    Of several credentials that of the longest prefix of the location is taken, as the interface wants it.
    """
    config = _texts(answer.get("config"))
    best: tuple[int, dict[str, str]] = (-1, {})
    listed = answer.get("storage-credentials")
    for item in listed if isinstance(listed, list) else ():
        prefix = item.get("prefix") if isinstance(item, dict) else None
        if isinstance(prefix, str) and location.startswith(prefix) and len(prefix) > best[0]:
            best = len(prefix), _texts(item.get("config"))
    chosen, scheme = {**config, **best[1]}, _scheme(location)
    if scheme in S3_SCHEMES:
        found = {ours: chosen[theirs] for theirs, ours in _S3_NAMES.items() if theirs in chosen}
        if chosen.get("s3.path-style-access", "").lower() == "true":
            found["aws_virtual_hosted_style_request"] = "false"
        return found
    if scheme in _GOOGLE_SCHEMES:
        return {ours: chosen[theirs] for theirs, ours in _GOOGLE_NAMES.items() if theirs in chosen}
    if scheme in _AZURE_SCHEMES:
        return _azure_options(location, chosen)
    return {}


def unity_options(location: str, answer: Mapping[str, Any]) -> dict[str, str]:
    """Storage options for `location` of an answer to ``temporary-table-credentials``."""
    scheme = _scheme(location)
    aws, azure, google = (
        _texts(answer.get(name)) for name in ("aws_temp_credentials", "azure_user_delegation_sas", "gcp_oauth_token")
    )
    found: dict[str, str] = {}
    if scheme in S3_SCHEMES and "access_key_id" in aws and "secret_access_key" in aws:
        names = ("access_key_id", "secret_access_key", "session_token")
        found = {f"aws_{name}": aws[name] for name in names if name in aws}
    elif scheme in _AZURE_SCHEMES and "sas_token" in azure:
        found = {"azure_storage_sas_token": azure["sas_token"], **_account(location)}
    elif scheme in _GOOGLE_SCHEMES and "oauth_token" in google:
        found = {"google_storage_token": google["oauth_token"]}
    expires = answer.get("expiration_time")
    if found and isinstance(expires, int) and not isinstance(expires, bool):
        found[_EXPIRES] = str(expires)
    return found


def _azure_options(location: str, chosen: Mapping[str, str]) -> dict[str, str]:
    account = _account(location)
    name = next(iter(account.values()), "")
    found: dict[str, str] = {}
    for key, value in chosen.items():
        # The rest of the name is the account, or its host.
        for start, ours in ((_ADLS_TOKEN, "azure_storage_sas_token"), (_ADLS_EXPIRES, _EXPIRES)):
            if key.startswith(start) and (not name or key[len(start) :].partition(".")[0] == name):
                found[ours] = value
    return {**found, **account} if "azure_storage_sas_token" in found else {}


def _account(location: str) -> dict[str, str]:
    """The account that an address such as ``abfss://container@account.dfs.core.windows.net/path`` names."""
    name = parse_root(location).location.partition("/")[0].partition("@")[2].partition(".")[0]
    return {"azure_storage_account_name": name} if name else {}


def _texts(value: object) -> dict[str, str]:
    """The texts of an object; what is no text is no credential."""
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(key, str) and isinstance(item, str) and item}


def _scheme(location: str) -> str:
    try:
        return parse_root(location).scheme
    except InvalidInputError:
        return ""  # The location is reported where it is used.
