"""Requests to AWS Glue by botocore, and what its errors mean. The client needs the extra ``glue``."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lance_spark.errors import AlreadyExistsError, InvalidInputError, LanceError, NotFoundError, StorageError
from lance_spark.namespace.settings import CatalogSettings
from lance_spark.storage.server_errors import LostReplyError

FIELDS = {"comment": "Description", "description": "Description", "location": "LocationUri"}
"""Properties of a namespace that are fields of a database; Spark has another word for one of them."""

_ATTEMPTS = 5
_CONNECT_SECONDS, _REPLY_SECONDS = 10, 60
_MAX_SHOWN = 500
_NEEDS_EXTRA = "impl = glue needs the extra: pip install lance-spark[glue]"


class ChangedMeanwhileError(StorageError):
    """A change of an object that is no longer in the version that the request names; nothing was changed."""


_KINDS: Mapping[str, type[LanceError]] = {
    "EntityNotFoundException": NotFoundError,
    "AlreadyExistsException": AlreadyExistsError,
    "InvalidInputException": InvalidInputError,
    "ValidationException": InvalidInputError,
    "ConcurrentModificationException": ChangedMeanwhileError,
}
_HINTS: Mapping[str, str] = {
    "AccessDeniedException": "; the role or user needs this action on the catalog, the database and the table",
    "ThrottlingException": f"; {_ATTEMPTS} attempts were throttled, try again later",
}


class GlueClient:
    """A client of Glue, made at the first request; processes that are forked make their own.

    Args:
        settings: of the catalog. Without keys the client takes those of the environment, as all of AWS's tools do.
        description: of the catalog, for messages.

    Raises:
        StorageError: botocore is not installed.
    """

    def __init__(self, settings: CatalogSettings, description: str) -> None:
        try:
            import botocore.session  # noqa: F401 - said before the first statement, not during it
        except ImportError as error:
            raise StorageError(_NEEDS_EXTRA) from error
        self._settings = settings
        self._description = description
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None
        self._sent = threading.local()

    def ask(self, operation: str, about: str, /, **arguments: Any) -> Mapping[str, Any]:
        """The reply to a request that changes nothing.

        Args:
            operation: in the client's spelling, such as ``get_table``.
            about: the object, for messages.

        Raises:
            LanceError: of the class that fits the service's error.
        """
        self._sent.is_no_object = False
        with self._translated(about):
            reply: Mapping[str, Any] = getattr(self._client(), operation)(**self._of_catalog(arguments))
        if self._sent.is_no_object:  # The client takes text of a proxy for a reply without fields.
            raise LostReplyError(f"the answer of {self._description} about {about} is invalid: no JSON object")
        return reply

    def change(self, operation: str, about: str, /, **arguments: Any) -> None:
        """Sends a request that changes something. The client repeats it if there is no reply.

        Raises:
            LostReplyError: a reply is missing, so that an error may be about the request's own repetition.
            LanceError: of the class that fits the service's error; nothing was changed.
        """
        self._sent.is_in_doubt = False
        try:
            self.ask(operation, about, **arguments)
        except LostReplyError:
            raise
        except LanceError as error:
            if self._sent.is_in_doubt:
                raise LostReplyError(f"a reply of {self._description} did not arrive: {error}") from error
            raise

    def pages(self, operation: str, items: str, about: str, /, **arguments: Any) -> Iterator[Mapping[str, Any]]:
        """The items of all pages of a listing; each has a name."""
        with self._translated(about):
            pages = self._client().get_paginator(operation).paginate(**self._of_catalog(arguments))
            for page in pages:
                found = page.get(items)
                if not isinstance(found, list):
                    raise StorageError(f"{self._description} does not list {items} of {about}: the reply has none")
                yield from found

    def fields(self, operation: str, argument: str) -> frozenset[str]:
        """The names of the fields that an argument of an operation may have."""
        model = self._client().meta.service_model.operation_model(operation)
        return frozenset(model.input_shape.members[argument].members)

    def _of_catalog(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        catalog = self._settings.text("catalog_id")
        return {**arguments, **({"CatalogId": catalog} if catalog else {})}

    def _client(self) -> Any:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), self._new_client())
            return self._made[1]

    def _new_client(self) -> Any:
        from botocore.config import Config
        from botocore.session import Session

        text = self._settings.text
        client = Session(profile=text("profile_name")).create_client(
            "glue",
            region_name=text("region"),
            endpoint_url=text("endpoint"),
            aws_access_key_id=text("access_key_id"),
            aws_secret_access_key=text("secret_access_key"),
            aws_session_token=text("session_token"),
            config=Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_REPLY_SECONDS,
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            ),
        )
        client.meta.events.register("needs-retry.glue", self._note_attempt)
        return client

    def _note_attempt(self, response: Any = None, caught_exception: Any = None, **_rest: Any) -> None:
        """Notes whether an attempt may have been carried out although it has no proper reply; changes no reply."""
        from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

        if caught_exception is not None:
            if not isinstance(caught_exception, (ConnectTimeoutError, EndpointConnectionError)):
                self._sent.is_in_doubt = True
        elif response is not None and response[0].status_code >= 500:
            self._sent.is_in_doubt = True
        elif response is not None:
            self._sent.is_no_object = not response[0].content.lstrip().startswith(b"{")

    @contextmanager
    def _translated(self, about: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
        from botocore.parsers import ResponseParserError

        try:
            yield
        except ClientError as error:
            raise self._error(error, about) from error
        except ResponseParserError as error:
            reason = str(error)[:_MAX_SHOWN]
            raise LostReplyError(f"the answer of {self._description} about {about} is invalid: {reason}") from error
        except (AttributeError, TypeError, KeyError) as error:
            if isinstance(error, LanceError):
                raise
            # The parser trusts the types in a reply.
            raise LostReplyError(f"the answer of {self._description} about {about} is invalid: {error}") from error
        except ParamValidationError as error:
            raise InvalidInputError(f"{self._description} cannot keep {about}: {str(error)[:_MAX_SHOWN]}") from error
        except (BotoCoreError, ValueError) as error:
            if isinstance(error, LanceError):
                raise
            # A profile or a region is missing, or the service cannot be reached.
            raise StorageError(f"{self._description} cannot be asked about {about}: {error}") from error

    def _error(self, error: Any, about: str) -> LanceError:
        answer = error.response.get("Error", {})
        code, text = str(answer.get("Code", "")), str(answer.get("Message", ""))[:_MAX_SHOWN]
        said = f"{self._description} says of {about}: {text or 'nothing'} ({code}){_HINTS.get(code, '')}"
        return _KINDS.get(code, StorageError)(said)


def parameters_of(found: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of a database or a table."""
    return dict(found.get("Parameters") or {})


def database_with(database: Mapping[str, Any], updates: Mapping[str, str | None]) -> dict[str, Any]:
    """The description of a database with properties changed; None removes one.

    Raises:
        InvalidInputError: two words for one field have different values.
    """
    fields: dict[str, str | None] = {}
    parameters: dict[str, str | None] = {**parameters_of(database)}
    for name, value in updates.items():
        field = FIELDS.get(name)
        if field is None:
            parameters[name] = value
        elif fields.setdefault(field, value) != value:
            raise InvalidInputError("comment and description of a database in Glue are the same; set one of them")
    kept = {name: value for name, value in parameters.items() if value is not None}
    changed = {name: value for name, value in {**database, **fields}.items() if value is not None}
    return {**changed, "Parameters": kept}
