"""A catalog of tables on a server (Lance REST namespace specification). The client needs the extra ``rest``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, StorageError, UnsupportedFeatureError
from lance_spark.namespace.object_id import DELIMITER, Identifier, format_identifier, object_id
from lance_spark.namespace.served import ERRORS, UNSUPPORTED, ServedNamespace, request_models
from lance_spark.namespace.settings import read_settings
from lance_spark.storage.served_versions import ServedTable

_NOT_FOUND = 404
_TIMEOUT_SECONDS = (10.0, 120.0)
_MAX_SHOWN = 500
_NOT_SUPPORTED = "Not supported"
"""What the reference's server says of operations that it lacks, with the code of an internal error."""
SETTINGS = {"uri": "uri"}
_LISTINGS = ("list_namespaces", "list_tables")
"""Operations whose fields are parameters of the address, not a body."""


class RestNamespace(ServedNamespace):
    """The tables and namespaces of a server.

    Args:
        uri: the server's address, ``https://host/path``.
        headers: sent with every request, such as ``Authorization``.
        parent: the levels above the root of this catalog.

    Raises:
        StorageError: the client is not installed.
    """

    def __init__(self, uri: str, headers: Mapping[str, str] | None = None, parent: Identifier = ()) -> None:
        client = request_models()
        if not uri.lower().startswith(("http://", "https://")):
            raise InvalidInputError(f"{uri!r} is no address of a REST namespace; http:// or https://")
        super().__init__(uri.rstrip("/"), parent)
        self._client = client
        self._headers = dict(headers or {})
        connection = client.ApiClient(client.Configuration(host=self.description))
        for name, value in (headers or {}).items():
            connection.set_default_header(name, value)
        self._namespaces = client.NamespaceApi(connection)
        self._tables = client.TableApi(connection)

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
        api = self._namespaces if "namespace" in operation else self._tables
        arguments: dict[str, Any] = dict(fields)
        if operation not in (*_LISTINGS, "drop_table"):
            words = operation.split("_")
            model = getattr(self._client, f"{''.join(word.title() for word in words)}Request")
            arguments = {f"{operation}_request": model(**fields)}
            if "check_declared" in fields:
                arguments["check_declared"] = fields["check_declared"]
        with self._translated(path):
            name = object_id(path) if path else DELIMITER
            return getattr(api, operation)(name, delimiter=DELIMITER, _request_timeout=_TIMEOUT_SECONDS, **arguments)

    @contextmanager
    def _translated(self, path: Identifier) -> Iterator[None]:
        """Translates the client's errors to ours."""
        from urllib3.exceptions import HTTPError

        try:
            yield
        except self._client.ApiException as error:
            raise self._error(error, path) from error
        except HTTPError as error:
            raise StorageError(f"{self.description} does not answer: {error}") from error
        except ValueError as error:
            # What the client says of an answer that is not what the protocol has.
            raise StorageError(
                f"the answer of {self.description} about {format_identifier(path)} is invalid: {error}"
            ) from error

    def _error(self, error: Any, path: Identifier) -> LanceError:
        code, text = _described(error.body)
        reason = f"{text or error.reason or 'nothing'} (status {error.status})"
        message = f"{self.description} says of {format_identifier(path)}: {reason}"
        is_refused = code == UNSUPPORTED or text.startswith(_NOT_SUPPORTED)
        if is_refused and error.status != _NOT_FOUND:
            return UnsupportedFeatureError(message, feature="REST namespace")
        kind = NotFoundError if code is None and error.status == _NOT_FOUND else ERRORS.get(code or -1, StorageError)
        return kind(message)


def _described(body: str | bytes | None) -> tuple[int | None, str]:
    """Code and text of an error, if the server sends them."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        told = json.loads(text)
    except ValueError:
        return None, text[:_MAX_SHOWN]
    if not isinstance(told, dict):
        return None, text[:_MAX_SHOWN]
    code = told.get("code")
    return code if isinstance(code, int) else None, str(told.get("detail") or told.get("error") or "")[:_MAX_SHOWN]
