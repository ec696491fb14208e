"""The locations of the tables of a directory namespace.

The column `location` contains a path relative to the root, without escapes. It comes from a file, so it is validated
before use: it must stay below the root and outside of `__manifest`. An external table has an absolute URI there
instead, which only this implementation reads and writes.

Directories of new tables (Lance directory namespace specification, "Manifest Table Directory"): ``<name>.lance`` in
the root namespace, so that readers of directory listings find it; ``<8 random hex digits>_<object_id>`` for others,
and for names that are not valid for a directory.

>>> checked_location("1f00ab23_a$b")
'1f00ab23_a$b'
>>> requested_location("/tables", "file:/elsewhere/a%20b"), requested_location("/tables", "file:/tables/t")
('file:///elsewhere/a%20b', 't')
>>> listed_directory("sales"), listed_directory("a/b")
('sales.lance', None)
>>> hashed_directory("a$b/ü")[8:]
'_a$b__'
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.storage.paths import UriOrPath, below, object_path, parse_root, uri_text

CATALOG_DIRECTORY = "__manifest"
LISTED_SUFFIX = ".lance"

_MAX_NAME_BYTES = 200
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PLAIN_DIRECTORY = r"\A[A-Za-z0-9_$-][A-Za-z0-9_.$-]*\z"
"""One directory in the root, of unproblematic characters only; other names may be valid too."""
_LOCAL_URI = re.compile(r"file:/(?!/)", re.IGNORECASE)
"""The form of local URIs in Hadoop's paths, and so in Spark."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.$-]")
_UNLISTABLE = re.compile(r'[$/\\%#?*:"<>|\x00-\x1f\x7f]')


def is_external(location: str) -> bool:
    """Whether a location is an absolute URI instead of a path below the root."""
    return _URI.match(location) is not None


def checked_location(location: str | None) -> str:
    """Returns `location` if it is safe to use: a path below the root, or a URI.

    Raises:
        CorruptFileError: it is above the root, is the root, or is inside `__manifest`.
    """
    if not location:
        raise CorruptFileError("a table has no location", path=CATALOG_DIRECTORY)
    try:
        if not is_external(location):
            object_path(location)
        elif ".." in location.split("/") or ".." in parse_root(location).location.split("/"):
            raise InvalidInputError("it has a '..'")
    except InvalidInputError as error:
        raise CorruptFileError(f"location {location!r} of a table: {error}", path=CATALOG_DIRECTORY) from error
    if overlaps(location, CATALOG_DIRECTORY):
        raise CorruptFileError(f"location {location!r} of a table lies in the catalog", path=CATALOG_DIRECTORY)
    return location


def check_locations(locations: pa.Array | pa.ChunkedArray) -> None:
    """Validates all locations as `checked_location`, and raises the same errors."""
    plain = pc.fill_null(pc.match_substring_regex(locations, _PLAIN_DIRECTORY), False)
    for location in locations.filter(pc.invert(plain)).to_pylist():
        checked_location(location)
    if pc.any(pc.equal(locations, CATALOG_DIRECTORY), min_count=0).as_py():
        checked_location(CATALOG_DIRECTORY)


def requested_location(root: str, location: UriOrPath) -> str:
    """The location to store for one that the caller gives: a path relative to the root, or an absolute URI.

    Raises:
        InvalidInputError: it is invalid, or is above the root because of ``..``.
    """
    location = uri_text(location).rstrip("/")
    if ".." in location.split("/"):
        raise InvalidInputError(f"location {location!r} has a '..'")
    if _LOCAL_URI.match(location):
        location = parse_root(location).location
    if is_external(location) or location.startswith("/"):
        place, base = parse_root(location), parse_root(root)
        outer = base.location.rstrip("/")
        if place.scheme == base.scheme and place.location.startswith(f"{outer}/"):
            location = place.location[len(outer) + 1 :]
        elif place.scheme == base.scheme and overlaps(place.location, outer):
            raise InvalidInputError(f"location {location!r} holds the namespace itself")
        elif not is_external(location):
            location = Path(place.location).as_uri()
    try:
        return checked_location(location)
    except CorruptFileError as error:
        raise InvalidInputError(str(error.args[0])) from error


def location_uri(root: str, location: str) -> str:
    """The URI of the table at `location`."""
    return location if is_external(location) else below(root, location)


def overlaps(one: str, other: str) -> bool:
    """Whether two locations are equal, or one is inside the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def listed_directory(name: str) -> str | None:
    """The directory of a table `name` in the root namespace in listings, None if the name is not valid for a
    directory.
    """
    unusable = _UNLISTABLE.search(name) or name in ("", ".", "..") or len(name.encode()) > _MAX_NAME_BYTES
    return None if unusable else f"{name}{LISTED_SUFFIX}"


def listed_name(location: str) -> str | None:
    """The name of a location in a listing of the root, None if it is not listed."""
    name = location.removesuffix(LISTED_SUFFIX)
    return name if listed_directory(name) == location else None


def hashed_directory(object_id: str) -> str:
    """A new directory for the table `object_id`."""
    name = f"{secrets.token_hex(4)}_{_UNSAFE.sub('_', object_id)[:_MAX_NAME_BYTES]}"
    # A listing of the root must not treat it as a separate table.
    return f"{name}_" if name.endswith(LISTED_SUFFIX) else name


def import_directory(object_id: str, number: int) -> str:
    """The directory in which a table is built that is imported under a name, which a listing does not show.

    The second call of an import has to come to the directory of the first one, so nothing in it is random; `number`
    counts those that have become tables.
    """
    digest = hashlib.sha256(object_id.encode()).hexdigest()[:8]
    name = f"{digest}_{number}_{_UNSAFE.sub('_', object_id)[:_MAX_NAME_BYTES]}"
    return f"{name}_" if name.endswith(LISTED_SUFFIX) else name
