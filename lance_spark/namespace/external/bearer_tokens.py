"""Tokens for requests: one from the settings, or those of a server of tokens (OAuth2 client credentials)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.namespace.settings import CatalogSettings
from lance_spark.storage.http_parts import BearerToken, HttpLimits, checked_url, is_header_value
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.server_errors import RefusedError

TOKEN_SETTINGS = {
    "auth_token": "auth_token",
    "token": "auth_token",
    "credential": "credential",
    "scope": "scope",
    "oauth2-server-uri": "oauth2-server-uri",
    "oauth2_server_uri": "oauth2-server-uri",
}

_MARGIN_SECONDS = 60.0


class FixedToken(BearerToken):
    """A token that the settings give, which cannot be renewed."""

    def __init__(self, token: str) -> None:
        self._value = token

    def current(self) -> str | None:
        return self._value


class ClientCredentials(BearerToken):
    """Tokens for the credential of a client, by OAuth2.

    Args:
        ask: sends a form to the server of tokens, and returns its answer.
        fields: of the form.
        clock: seconds that never go back.
        description: of the server of tokens, for messages.
        first: a token to begin with.
    """

    def __init__(
        self,
        ask: Callable[[Mapping[str, str]], Mapping[str, Any]],
        fields: Mapping[str, str],
        clock: Callable[[], float],
        description: str,
        first: str | None = None,
    ) -> None:
        self._ask, self._fields, self._clock, self._description = ask, fields, clock, description
        self._value, self._until = first, float("inf")
        self._lock = threading.Lock()

    def current(self) -> str | None:
        with self._lock:
            if self._value is None or self._clock() >= self._until:
                self._renew()
            return self._value

    def instead_of(self, refused: str | None) -> str | None:
        with self._lock:
            if self._value == refused:  # Otherwise another thread has renewed it.
                self._renew()
            return self._value

    def _renew(self) -> None:
        asked = self._clock()
        try:
            answer = self._ask(self._fields)
        except RefusedError as error:
            raise StorageError(f"{error}; check credential, scope and oauth2-server-uri of the catalog") from error
        token, seconds = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token or not is_header_value(token):
            raise StorageError(f"{self._description} sends no access_token that a header can have")
        kind = answer.get("token_type", "bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise StorageError(f"{self._description} sends a token that is no bearer token")
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
            # Before the end, because a request takes time; a token of a few seconds is used for half of them.
            self._until = asked + max(seconds / 2, seconds - _MARGIN_SECONDS)
        else:
            self._until = float("inf")
        self._value = token


def bearer_token(
    settings: CatalogSettings, *, endpoint: str | None, scope: str, limits: HttpLimits | None = None
) -> BearerToken:
    """The tokens that the settings of a catalog ask for.

    Args:
        endpoint: the address of tokens if the setting ``oauth2-server-uri`` does not say it; None: it has to.
        scope: asked for if the setting ``scope`` does not say it.

    Raises:
        InvalidInputError: a setting is missing or invalid.
    """
    token, credential = settings.text("auth_token"), settings.text("credential")
    if token is not None and not is_header_value(token):
        raise InvalidInputError("the setting auth_token has characters that no header can have")
    if credential is None:
        for name in ("scope", "oauth2-server-uri"):
            if settings.text(name) is not None:
                raise InvalidInputError(f"the setting {name} is for tokens of a credential; set credential too")
        return BearerToken() if token is None else FixedToken(token)
    given = settings.text("oauth2-server-uri") or endpoint
    if given is None:
        raise InvalidInputError("the setting credential needs oauth2-server-uri, the address that gives tokens")
    url = checked_url(given, "oauth2-server-uri")
    identity, colon, secret = credential.partition(":")
    fields = {"grant_type": "client_credentials", "scope": settings.text("scope") or scope}
    fields |= {"client_id": identity, "client_secret": secret} if colon else {"client_secret": credential}
    description = f"the token server at {url}"
    server = JsonServer(url, description=description, limits=limits, impl=settings.impl)
    about = "a token for the credential of the catalog"
    return ClientCredentials(
        lambda form: server.post_form(url, form, about), fields, server.limits.clock, description, token
    )
