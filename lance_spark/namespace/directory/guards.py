"""Preconditions of changes of a directory's catalog, and their errors."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.directory.catalog_rows import NAMESPACE, TABLE, VIEW, CatalogEntry, CatalogRows
from lance_spark.namespace.locations import checked_location, is_external
from lance_spark.namespace.object_id import (
    DELIMITER,
    Identifier,
    ancestors,
    format_identifier,
    is_findable,
    object_id,
    prefix_of,
)


def require_free(found: CatalogEntry | None, identifier: Identifier) -> None:
    """Raises `AlreadyExistsError` if the name is taken."""
    if found is not None:
        advice = "; DROP VIEW removes it" if found.kind == VIEW else ""
        raise AlreadyExistsError(f"{format_identifier(identifier)} exists already; it is a {found.kind}{advice}")


def require_distinct(
    rows: CatalogRows, identifier: Identifier, listed: Iterable[str], instead_of: Identifier | None
) -> None:
    """Raises `AlreadyExistsError` if another name differs only in case.

    Args:
        listed: names of tables with a directory, possibly without a row.
        instead_of: an old name that is being removed.
    """
    rows_alike = [tuple(entry.object_id.split(DELIMITER)) for entry in rows.alike(object_id(identifier))]
    listed_alike = [(name,) for name in listed if name != identifier[-1]]
    for other in [*rows_alike, *listed_alike]:
        if other != instead_of:
            raise AlreadyExistsError(
                f"{format_identifier(identifier)} cannot be made beside "
                f"{format_identifier(other)}, from which it differs in case only"
            )


def require_namespaces(rows: CatalogRows, identifier: Identifier) -> None:
    """Raises `NotFoundError` if a parent namespace of `identifier` does not exist."""
    for namespace in ancestors(identifier):
        if not rows.has_namespace(object_id(namespace)):
            raise no_namespace(namespace)


def require_same(entry: CatalogEntry | None, location: str, identifier: Identifier) -> None:
    """Raises `NotFoundError` if the table found at `location` no longer exists, even if another one has its name."""
    if entry is None or entry.object_type != TABLE or entry.location != location:
        raise NotFoundError(f"another writer has dropped the table {format_identifier(identifier)} meanwhile")


def require_unshared(rows: CatalogRows, locations: Iterable[str]) -> None:
    """Raises `InvalidInputError` if a table of `rows` has files in one of the locations."""
    for location in locations:
        others = rows.tables_at(location)
        if others:
            raise InvalidInputError(f"the files at {location!r} belong to the table {others[0].object_id!r} too")


def require_inside(locations: Iterable[str]) -> None:
    """Raises `InvalidInputError` if one of the locations is outside of the root."""
    for location in locations:
        if is_external(location):
            raise InvalidInputError(
                f"the files at {location!r} lie outside of the root and are not deleted; take the table out of the "
                "catalog without deleting, and delete them yourself"
            )


def no_namespace(path: Identifier) -> NotFoundError:
    """The error that says so."""
    return NotFoundError(f"there is no namespace {format_identifier(path)}")


def no_table(identifier: Identifier) -> NotFoundError:
    """The error that says so."""
    return NotFoundError(f"there is no table {format_identifier(identifier)}")


def exists(identifier: Identifier) -> AlreadyExistsError:
    """The error that a table with this name exists."""
    return AlreadyExistsError(f"the table {format_identifier(identifier)} exists already")


def needs_catalog(what: str) -> UnsupportedFeatureError:
    """The error that `what` needs a catalog, not only directories."""
    return UnsupportedFeatureError(
        f"{what} need the catalog table; make the namespace with manifest=True", feature="directory namespace V2"
    )


def removable_content(rows: CatalogRows, path: Identifier, *, cascade: bool) -> dict[str, str | None]:
    """Locations by id of the content of a namespace to drop; None for namespaces.

    Raises:
        NotFoundError: there is no such namespace.
        NotEmptyError: it is not empty, and `cascade` is false.
        UnsupportedFeatureError: it contains an object of an unknown type.
    """
    if not is_findable(path) or not rows.has_namespace(object_id(path)):
        raise no_namespace(path)
    content = rows.below(prefix_of(path))
    if content and not cascade:
        raise NotEmptyError(
            f"namespace {format_identifier(path)} has {len(content)} objects in it, such as {content[0].object_id!r}"
        )
    for entry in content:
        if entry.object_type not in (TABLE, NAMESPACE):
            raise UnsupportedFeatureError(
                f"{entry.object_id!r} is a {entry.object_type!r}, which this release does not drop",
                feature=entry.object_type,
            )
    return {
        entry.object_id: checked_location(entry.location) if entry.object_type == TABLE else None for entry in content
    }
