"""Settings that catalogs on servers have in common."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.namespace.external.bearer_tokens import TOKEN_SETTINGS, bearer_token
from lance_spark.namespace.object_id import Identifier
from lance_spark.namespace.settings import CatalogSettings, boolean_setting
from lance_spark.storage.http_parts import HttpLimits, checked_url
from lance_spark.storage.json_server import JsonServer

COMMON_SETTINGS = {
    "endpoint": "endpoint",
    "uri": "endpoint",
    **TOKEN_SETTINGS,
    "root": "root",
    "vend_credentials": "vend_credentials",
    **dict.fromkeys(("connect_timeout", "connect_timeout_millis"), "connect_timeout"),
    **dict.fromkeys(("read_timeout", "read_timeout_millis"), "read_timeout"),
}


def server_of(
    settings: CatalogSettings, url: str, description: str, *, token_path: str | None, scope: str
) -> JsonServer:
    """The server of a catalog.

    Args:
        url: its address.
        description: of the catalog, for messages, without its address.
        token_path: what is appended to the address for tokens; None: the setting ``oauth2-server-uri`` has to say it.
        scope: of tokens, if no setting says it.

    Raises:
        InvalidInputError: a setting is missing or invalid.
        StorageError: the client is not installed.
    """
    standard = HttpLimits()
    limits = HttpLimits(
        connect_seconds=settings.whole_number("connect_timeout", int(standard.connect_seconds * 1000)) / 1000,
        read_seconds=settings.whole_number("read_timeout", int(standard.read_seconds * 1000)) / 1000,
    )
    endpoint = None if token_path is None else f"{url}{token_path}"
    token = bearer_token(settings, endpoint=endpoint, scope=scope, limits=limits)
    return JsonServer(
        url,
        description=f"{description} at {url}",
        headers=settings.headers,
        token=token,
        limits=limits,
        impl=settings.impl,
    )


def address(settings: CatalogSettings) -> str:
    """The setting ``endpoint``.

    Raises:
        InvalidInputError: it is missing or no address.
    """
    return checked_url(settings.required("endpoint", "the server's address"), "endpoint")


def vends_credentials(settings: CatalogSettings) -> bool:
    """Whether the settings let the catalog send credentials.

    Raises:
        InvalidInputError: the value is neither true nor false.
    """
    return boolean_setting("vend_credentials", settings.text("vend_credentials") or "true")


def with_level(settings: CatalogSettings, name: str, parent: Identifier) -> Identifier:
    """The levels above the root of a catalog whose setting `name` is the first of them."""
    level = settings.text(name)
    return parent if level is None else (level, *parent)


def with_and_without(prefix: str, known: Mapping[str, str]) -> dict[str, str]:
    """Settings that may have a prefix too, such as ``polaris.endpoint``."""
    return {**known, **{f"{prefix}.{name}": target for name, target in known.items()}}
