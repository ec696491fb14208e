"""Checks whether a schema can be written in a file version."""

from __future__ import annotations

from lance_spark.encodings.hints import EncodingHints
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.schema import logical_type as lt
from lance_spark.schema.blob import BlobSizes, is_blob_v2, is_described, is_placed
from lance_spark.schema.columns import is_array_leaf, is_blob, is_leaf, is_packed
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import written_path

WRITABLE_VERSIONS = (FileVersion.V2_0, FileVersion.V2_1, FileVersion.V2_2)
"""The versions of data files that can be written, oldest first."""


def require_writable(schema: LanceSchema, version: FileVersion) -> None:
    """Checks that files of `version` support every field.

    Raises:
        UnsupportedFeatureError: a field is not supported by the version, or not written by this release.
    """
    if version not in WRITABLE_VERSIONS:
        raise UnsupportedFeatureError(_refusal(version), feature="file version", version=version.value)
    for top in schema.fields:
        _check(top, (), version)


_VARIABLE = ("string", "binary", "large_string", "large_binary")


def _refusal(version: FileVersion) -> str:
    if version is FileVersion.V0_1:
        return (
            "files of the legacy version 0.1 are not written; "
            "convert the table with upgrade_files, or overwrite it with version 2.0, 2.1 or 2.2"
        )
    return (
        f"files of version {version.value} are not written, because that version is not final and its files may become "
        "unreadable; choose 2.0, 2.1 or 2.2"
    )


def _check(field: Field, above: tuple[Field, ...], version: FileVersion) -> None:
    name = written_path((*above, field))
    if is_blob(field):
        _check_blob(field, above, name, version)
        return
    _check_hints(field, name)
    if version is FileVersion.V2_0:
        _check_v2_0(field, name)
    if is_packed(field):
        _check_packed(field, name, version)
        return
    if version is not FileVersion.V2_2 and field.logical_type == "map":
        raise _needs_2_2(name, "map", version)
    if lt.is_fixed_size_list(field.logical_type):
        _check_fixed_size_list(field, above, name, version)
    if field.logical_type == "struct" and not field.children and any(_is_list(node) for node in above):
        raise UnsupportedFeatureError(
            f"field {name!r}: structs without fields cannot be in a list; remove the field", feature="empty struct"
        )
    if field.logical_type == "fixed_size_binary:0":
        raise UnsupportedFeatureError(
            f"field {name!r}: values of no bytes are not written; remove the field", feature="fixed_size_binary:0"
        )
    for child in field.children:
        _check(child, (*above, field), version)


def _check_hints(field: Field, name: str) -> None:
    """Refuses requests that no writer understands, before anything is written."""
    try:
        EncodingHints.of(field.metadata)
    except InvalidInputError as error:
        raise InvalidInputError(f"field {name!r}: {error.args[0]}") from None


def _check_blob(field: Field, above: tuple[Field, ...], name: str, version: FileVersion) -> None:
    if is_described(field) or is_placed(field):
        raise UnsupportedFeatureError(
            f"field {name!r} has descriptions of blobs, which mean nothing in another table; write the bytes (read "
            "them with blob_handling='all_binary')",
            feature="descriptions of blobs",
        )
    if version is not FileVersion.V2_2:
        if field.logical_type != "large_binary":
            raise UnsupportedFeatureError(
                f"field {name!r}: a blob column has large binary values in files of version {version.value}, not "
                f"{field.logical_type}; other forms need version 2.2",
                feature="blob column",
                version=FileVersion.V2_2.value,
            )
    elif not is_blob_v2(field):
        raise UnsupportedFeatureError(
            f"field {name!r}: a blob column of files of 2.2 is a struct of data and uri, not {field.logical_type}; "
            "upgrade_files converts the columns of older tables",
            feature="blob column",
        )
    if any(node.logical_type != "struct" or is_packed(node) for node in above):
        raise UnsupportedFeatureError(
            f"field {name!r}: blobs in lists, maps or packed structs are not written", feature="list of blobs"
        )
    BlobSizes.of(field)


def _check_v2_0(field: Field, name: str) -> None:
    if field.logical_type == "struct" and is_array_leaf(field) and not is_leaf(field):
        raise UnsupportedFeatureError(
            f"field {name!r}: in files of version 2.0 the metadata key lance-encoding:packed means packed for each "
            "value; remove the key",
            feature="packed struct",
        )
    requested = field.metadata.get("lance-encoding:compression", b"").lower()
    if field.logical_type in ("large_string", "large_binary") and requested == b"fsst":
        # The reference library reads no such file.
        raise UnsupportedFeatureError(
            f"field {name!r}: fsst compression of {field.logical_type} needs file version 2.1 or later",
            feature="fsst",
            version=FileVersion.V2_1.value,
        )


def _check_packed(field: Field, name: str, version: FileVersion) -> None:
    for child in field.children:
        kind = lt.split(child.logical_type)[0]
        if child.children or kind in ("bool", "null", "dict", "struct"):
            raise UnsupportedFeatureError(
                f"field {name!r}: {child.logical_type} cannot be in a packed struct; remove the metadata",
                feature="packed struct",
            )
        if (version is not FileVersion.V2_2 and kind in _VARIABLE) or (
            version is FileVersion.V2_1 and kind == "fixed_size_list"
        ):
            raise _needs_2_2(name, f"a packed struct with {kind}", version)
    if not field.children:
        raise UnsupportedFeatureError(f"field {name!r}: a packed struct needs fields", feature="packed struct")


def _check_fixed_size_list(field: Field, above: tuple[Field, ...], name: str, version: FileVersion) -> None:
    if not field.children:
        if "struct" in field.logical_type:
            raise UnsupportedFeatureError(
                f"field {name!r}: fixed-size lists of fixed-size lists of structs are not written",
                feature="fixed_size_list of struct",
            )
        return
    if version is not FileVersion.V2_2:
        raise _needs_2_2(name, "fixed_size_list of struct", version)
    below = [node for child in field.children for node in child.walk()]
    if any(_is_list(node) for node in (*above, *below)):
        raise UnsupportedFeatureError(
            f"field {name!r}: fixed-size lists of structs are not written inside of lists or around them; "
            "use a list instead",
            feature="fixed_size_list of struct",
        )


def _is_list(field: Field) -> bool:
    return lt.is_list(field.logical_type) or field.logical_type == "map"


def _needs_2_2(name: str, feature: str, version: FileVersion) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"field {name!r}: {feature} needs file version 2.2, not {version.value}", feature=feature, version="2.2"
    )
