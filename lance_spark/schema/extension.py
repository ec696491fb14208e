"""Arrow extension types: Lance stores their storage type, and their name and parameters in the field's metadata.

The keys are the keys of Arrow's IPC and C interfaces, so that readers which know the type can restore it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError

EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"
EXTENSION_KEYS = frozenset({EXTENSION_NAME.encode(), EXTENSION_METADATA.encode()})
LANCE_JSON = b"lance.json"
"""The extension of columns with binary JSON documents."""

JSON_METADATA = {EXTENSION_NAME: LANCE_JSON, EXTENSION_METADATA: b""}
"""The metadata of such a column. The reference library refuses appends to columns without the second entry."""

_JSON_TEXT = b"arrow.json"
_TEXT_TYPES = (pt.is_string, pt.is_large_string, pt.is_string_view)


def storage(field: pa.Field) -> tuple[pa.DataType, dict[str, bytes]]:
    """(storage type, metadata with the extension's name and parameters) of a field of any type.

    JSON text (`arrow.json`) is stored as binary documents.

    Raises:
        InvalidInputError: an extension type that cannot be stored, or metadata that is not UTF-8.
    """
    metadata = text_metadata(field.metadata, field.name)
    dtype = field.type
    if isinstance(dtype, pa.BaseExtensionType):
        metadata[EXTENSION_NAME] = dtype.extension_name.encode()
        metadata[EXTENSION_METADATA] = _parameters(dtype, field.name)
        dtype = dtype.storage_type
    if metadata.get(EXTENSION_NAME) == _JSON_TEXT:
        # Lance has a binary JSON type; the reference cannot read a text column with this extension name.
        return pa.large_binary(), metadata | JSON_METADATA
    return dtype, metadata


def is_json_field(field: pa.Field) -> bool:
    """Whether a column of a table has JSON documents."""
    is_binary = pt.is_binary(field.type) or pt.is_large_binary(field.type)
    return bool(is_binary and (field.metadata or {}).get(EXTENSION_NAME.encode()) == LANCE_JSON)


def is_json_text(field: pa.Field) -> bool:
    """Whether a field of rows to write has JSON text: Arrow's type, or text that only the metadata calls JSON."""
    is_tagged = (field.metadata or {}).get(EXTENSION_NAME.encode()) == _JSON_TEXT
    return isinstance(field.type, pa.JsonType) or (is_tagged and any(kind(field.type) for kind in _TEXT_TYPES))


def text_metadata(metadata: Mapping[bytes, bytes] | None, owner: str) -> dict[str, bytes]:
    """Arrow metadata with keys as text.

    Raises:
        InvalidInputError: a key or a value is not UTF-8, which other readers reject.
    """
    texts = {}
    for key, value in (metadata or {}).items():
        try:
            value.decode()
            texts[key.decode()] = value
        except UnicodeDecodeError:
            raise InvalidInputError(
                f"the metadata {key!r} of {owner!r} is not UTF-8; encode it, in base64 say"
            ) from None
    return texts


def _parameters(dtype: pa.BaseExtensionType, name: str) -> bytes:
    if isinstance(dtype, pa.ExtensionType):
        return bytes(dtype.__arrow_ext_serialize__())
    serialize = _BUILT_IN.get(dtype.extension_name)
    if serialize is None:
        raise InvalidInputError(
            f"{name!r} has extension type {dtype.extension_name}, whose parameters cannot be stored; "
            f"cast it to {dtype.storage_type} first"
        )
    return serialize(dtype)


def _no_parameters(dtype: Any) -> bytes:
    return b""


def _fixed_shape_tensor(dtype: Any) -> bytes:
    parameters = {"shape": dtype.shape, "dim_names": dtype.dim_names, "permutation": dtype.permutation}
    present = {key: value for key, value in parameters.items() if value is not None}
    return json.dumps(present, separators=(",", ":")).encode()


def _opaque(dtype: Any) -> bytes:
    parameters = {"type_name": dtype.type_name, "vendor_name": dtype.vendor_name}
    return json.dumps(parameters, separators=(",", ":")).encode()


# pyarrow does not expose the serialization of its built-in types; see Arrow's list of canonical extension types.
_BUILT_IN: dict[str, Callable[[Any], bytes]] = {
    "arrow.uuid": _no_parameters,
    "arrow.json": _no_parameters,
    "arrow.bool8": _no_parameters,
    "arrow.fixed_shape_tensor": _fixed_shape_tensor,
    "arrow.opaque": _opaque,
}
