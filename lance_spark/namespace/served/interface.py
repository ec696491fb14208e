"""A catalog by a class of another package, which has the Python interface ``LanceNamespace`` of lance-namespace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.served.namespace import ERRORS, UNSUPPORTED, ServedNamespace, request_models

_NEEDED = ("list_namespaces", "describe_namespace", "list_tables", "describe_table", "declare_table")
_DESCRIBED = {"namespace_exists": "describe_namespace", "table_exists": "describe_table"}
"""Some classes have no operation that asks whether an object is there."""

_MAX_SHOWN = 500
_BY_NAME: Mapping[str, type[LanceError]] = {
    "NotFound": NotFoundError,
    "NoSuch": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
    "NotEmpty": NotEmptyError,
    "InvalidInput": InvalidInputError,
}
_BY_WORDS: Mapping[str, type[LanceError]] = {
    "does not exist": NotFoundError,
    "not found": NotFoundError,
    "already exists": AlreadyExistsError,
    "not empty": NotEmptyError,
    "non-empty": NotEmptyError,
    "not a lance table": InvalidInputError,
}


class InterfaceNamespace(ServedNamespace):
    """The tables and namespaces of an object with the interface ``LanceNamespace``.

    Args:
        class_path: ``package.module.Class``.
        properties: the arguments of the class, by name.
        parent: the levels above the root of this catalog.

    Raises:
        InvalidInputError: there is no such class, it lacks the interface, or it refuses the properties.
        StorageError: the client package with the interface's requests is not installed.
    """

    def __init__(self, class_path: str, properties: Mapping[str, str], parent: Identifier = ()) -> None:
        super().__init__(class_path, parent)
        self._models = request_models()
        self._names = _made(class_path, tuple(sorted(properties.items())))

    def ask(self, operation: str, path: Identifier, fields: Mapping[str, Any]) -> Any:
        operation = _DESCRIBED.get(operation, operation)
        model = getattr(self._models, f"{''.join(word.title() for word in operation.split('_'))}Request")
        request = model(id=list(path), **{name: value for name, value in fields.items() if value is not None})
        try:
            return getattr(self._names, operation)(request)
        except Exception as error:  # The interface says nothing of what its classes raise.
            translated = self._translated(error, operation, path)
            if isinstance(translated, StorageError):
                _made.cache_clear()  # The object may hold a connection that has ended.
            raise translated from error

    def _translated(self, error: Exception, operation: str, path: Identifier) -> LanceError:
        text = str(error)[:_MAX_SHOWN] or type(error).__name__
        message = f"{self.description} says of {format_identifier(path)}: {text}"
        code = getattr(error, "code", None)
        if isinstance(error, NotImplementedError) or code == UNSUPPORTED:
            asked = "" if operation in text else f" ({operation})"
            return UnsupportedFeatureError(f"{message}{asked}", feature=f"{operation} of {self.description}")
        if isinstance(code, int):
            return ERRORS.get(int(code), StorageError)(message)
        name = type(error).__name__
        kind = next((kind for part, kind in _BY_NAME.items() if part in name), None)
        if kind is None:
            kind = next((kind for words, kind in _BY_WORDS.items() if words in text.lower()), StorageError)
        return kind(message)


@lru_cache(maxsize=16)
def _made(class_path: str, properties: tuple[tuple[str, str], ...]) -> Any:
    """The object of a class, which may hold connections; one for equal properties."""
    module, _, name = class_path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"the setting impl names {class_path}, which cannot be imported: {error}") from error
    missing = [operation for operation in _NEEDED if not callable(getattr(found, operation, None))]
    if not isinstance(found, type) or missing:
        raise InvalidInputError(
            f"the setting impl names {class_path}, which is no class with the interface LanceNamespace of the package "
            f"lance-namespace{': it lacks ' + ', '.join(missing) if missing else ''}"
        )
    try:
        return found(**dict(properties))
    except Exception as error:  # noqa: BLE001 - a constructor of another package may raise anything.
        text = f"{type(error).__name__}: {error}"
        for value in filter(None, dict(properties).values()):
            text = text.replace(value, "***")  # It may be a credential.
        names = ", ".join(name for name, _ in properties) or "none"
        raise InvalidInputError(f"{class_path} cannot be made with the settings {names}: {text}") from None
