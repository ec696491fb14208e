"""A catalog of tables on a server (Lance REST namespace specification). The client needs the extra ``rest``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, StorageError, UnsupportedFeatureError
from lance_spark.namespace.object_id import DELIMITER, Identifier, format_identifier, object_id
from lance_spark.namespace.served.namespace import ERRORS, UNSUPPORTED, ServedNamespace
from lance_spark.namespace.settings import read_settings
from lance_spark.storage.http_parts import HttpLimits
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.served_versions import ServedTable
from lance_spark.storage.server_errors import RefusedError

SETTINGS = {"uri": "uri"}
_NOT_FOUND = 404
_LISTINGS = {"list_namespaces": "list", "list_tables": "table/list"}
_READING = ("list", "describe", "exists")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "location": _is_text,
    "page_token": _is_text,
    "managed_versioning": _is_flag,
    "is_only_declared": _is_flag,
    "namespaces": _is_names,
    "tables": _is_names,
    "properties": _is_texts,
    "storage_options": _is_texts,
}
"""The fields of replies that are read, and what they have to be."""


class RestNamespace(ServedNamespace):
    """The tables and namespaces of a server.

    Args:
        uri: the server's address, ``https://host/path``.
        headers: sent with every request, such as ``Authorization``.
        parent: the levels above the root of this catalog.
        limits: of requests.

    Raises:
        StorageError: the client is not installed.
        InvalidInputError: the address, or a header, is invalid.
    """

    def __init__(
        self,
        uri: str,
        headers: Mapping[str, str] | None = None,
        parent: Identifier = (),
        limits: HttpLimits | None = None,
    ) -> None:
        if not uri.lower().startswith(("http://", "https://")):
            raise InvalidInputError(f"{uri!r} is no address of a REST namespace; http:// or https://")
        super().__init__(uri.rstrip("/"), parent)
        self._headers = dict(headers or {})
        self._server = JsonServer(uri, description=self.description, headers=headers, limits=limits)

    @classmethod
    def of_settings(
        cls, settings: Mapping[str, str], parent: Identifier, storage_options: Mapping[str, str]
    ) -> RestNamespace:
        """The catalog with these settings; the server sends storage options, and others go to each table."""
        read = read_settings("rest", settings, SETTINGS, has_headers=True)
        return cls(read.required("uri", "the server's address"), read.headers, parent)

    def served_table(self, full_name: Identifier, uri: str) -> ServedTable:
        return ServedTable(self.description, self._headers, full_name, uri)

    def ask(self, operation: str, path: Identifier, fields: Mapping[str, Any]) -> Any:
        verb, _, kind = operation.partition("_")
        if kind == "exists":
            verb, kind = kind, verb
        given = {name: value for name, value in fields.items() if value is not None}
        query, body = {"delimiter": DELIMITER}, None
        if operation in _LISTINGS:
            kind, verb, method = "namespace", _LISTINGS[operation], "GET"
            query |= given
        else:
            method, body = "POST", {"id": list(path), **given}
            if "check_declared" in given:
                query["check_declared"] = "true" if given["check_declared"] else "false"
        name = quote(object_id(path) if path else DELIMITER, safe="")
        about = format_identifier(path)
        try:
            reply = self._server.send(
                method,
                f"/v1/{kind}/{name}/{verb}",
                about,
                query=query,
                body=body,
                may_repeat=verb.endswith(_READING),
            )
        except RefusedError as error:
            raise self._translated(error) from error
        return self._read(reply, about)

    def _read(self, reply: Mapping[str, Any], about: str) -> SimpleNamespace:
        found = {name: reply.get(name) for name in _FIELDS}
        for name, fits in _FIELDS.items():
            if found[name] is not None and not fits(found[name]):
                raise StorageError(f"the answer of {self.description} about {about} is invalid: its {name} is none")
        return SimpleNamespace(**found)

    def _translated(self, error: RefusedError) -> LanceError:
        message = str(error)
        is_refused = error.code == UNSUPPORTED or error.is_unsupported
        if is_refused and error.status != _NOT_FOUND:
            return UnsupportedFeatureError(message, feature="REST namespace")
        if error.code is None and error.status == _NOT_FOUND:
            return NotFoundError(message)
        return ERRORS.get(-1 if error.code is None else error.code, StorageError)(message)
