"""Names and paths of the files of a table (Lance table format specification, "Storage Layout").

::

    data/<any name>                                     data files, DataFile.path is relative to data/
    _versions/<name>.manifest                           one manifest a version, two naming schemes
    _transactions/<read_version>-<uuid>.txn
    _deletions/<fragment>-<read_version>-<id>.arrow|.bin
    _refs/tags/<tag>.json, _refs/branches/<branch, / as %2F>.json
    tree/<branch>/...                                   a branch: _versions, data, ... of its own

A manifest is named ``<version>.manifest`` (V1) or, so that the newest one sorts first, by twenty digits of
``2**64 - 1 - version`` (V2):

>>> ManifestNaming.V1.file_name(1), ManifestNaming.V2.file_name(1)
('1.manifest', '18446744073709551614.manifest')
>>> parse_manifest_name("18446744073709551614.manifest")
(<ManifestNaming.V2: 'v2'>, 1)

Everything else in ``_versions`` is ignored: the hint (it can be stale), detached versions (``d...``), and staged files
(``.tmp...``, ``...#1``).
"""

from __future__ import annotations

from enum import Enum
from urllib.parse import quote

from lance_spark.errors import CorruptFileError, InvalidInputError

DATA = "data"
DELETIONS = "_deletions"
INDICES = "_indices"
VERSIONS = "_versions"
TRANSACTIONS = "_transactions"
TAGS = "_refs/tags"
BRANCHES = "_refs/branches"
TREE = "tree"

_MANIFEST_SUFFIX = ".manifest"
_MAX_VERSION = (1 << 64) - 1
_V2_DIGITS = 20
_DETACHED_BIT = 1 << 63


class ManifestNaming(str, Enum):
    """The naming scheme of the manifests of a table; a table has one scheme."""

    V1 = "v1"
    V2 = "v2"

    def file_name(self, version: int) -> str:
        """Name of the manifest of `version` inside `_versions/`."""
        if self is ManifestNaming.V1:
            return f"{version}{_MANIFEST_SUFFIX}"
        return f"{_MAX_VERSION - version:0{_V2_DIGITS}d}{_MANIFEST_SUFFIX}"

    def path(self, version: int) -> str:
        """Path of the manifest of `version`, relative to the table."""
        return f"{VERSIONS}/{self.file_name(version)}"


def parse_manifest_name(name: str) -> tuple[ManifestNaming, int] | None:
    """(naming, version) of a file name in `_versions/`, or None for a file that is not a manifest of this history."""
    stem = name.removesuffix(_MANIFEST_SUFFIX)
    if stem == name or not (stem.isascii() and stem.isdigit()):
        return None
    if len(stem) == _V2_DIGITS:
        version = _MAX_VERSION - int(stem)
        return (ManifestNaming.V2, version) if 0 < version < _DETACHED_BIT else None
    version = int(stem)
    return (ManifestNaming.V1, version) if 0 < version < _DETACHED_BIT and stem == str(version) else None


def is_detached(version: int) -> bool:
    """True for the number of a detached version, which is not part of the table's history."""
    return version >= _DETACHED_BIT


def detached_manifest_path(version: int) -> str:
    """Path of the manifest of a detached version, relative to the table."""
    return f"{VERSIONS}/d{version}{_MANIFEST_SUFFIX}"


def transaction_name(read_version: int, transaction_uuid: str) -> str:
    """Name of a transaction file inside `_transactions/`."""
    return f"{read_version}-{transaction_uuid}.txn"


def tag_path(tag: str) -> str:
    """Path of a tag, relative to the main branch's root."""
    return f"{TAGS}/{checked_ref_name(tag)}.json"


def branch_root(branch: str) -> str:
    """Root of a branch, relative to the main branch's root.

    Raises:
        InvalidInputError: the name is not valid for a branch.
    """
    segments = branch.split("/")
    allowed = all(segment and all(c.isalnum() or c in "._-" for c in segment) for segment in segments)
    if not allowed or ".." in branch or branch.endswith(".lock") or "." in segments:
        raise InvalidInputError(
            f"{branch!r} cannot name a branch: use letters, digits, '.', '_' and '-', in parts joined by '/', "
            "without '..' or the ending '.lock'"
        )
    return f"{TREE}/{branch}"


def branch_path(branch: str) -> str:
    """Path of a branch's description, relative to the main branch's root."""
    branch_root(branch)
    return f"{BRANCHES}/{quote(branch, safe='')}.json"


def checked_ref_name(name: str) -> str:
    """Returns `name` if it is valid for a tag or a part of a new branch: letters, digits, ``.``, ``_`` and ``-``.

    Raises:
        InvalidInputError: it is not.
    """
    allowed = bool(name) and all(c.isascii() and (c.isalnum() or c in "._-") for c in name)
    if not allowed or name.startswith(".") or name.endswith((".", ".lock")) or ".." in name:
        raise InvalidInputError(
            f"{name!r} cannot name a tag or branch: use letters, digits, '.', '_' and '-', "
            "without '..', a '.' at either end, or the ending '.lock'"
        )
    return name


def new_job() -> str:
    """The name of a new write job: 16 random hex digits, the suffix of the names of its data files."""
    import secrets

    return secrets.token_hex(8)


def new_data_file_name(job: str | None = None) -> str:
    """A new unique name inside `data/`: 24 binary digits, to spread names over an object store, then 26 hex digits.

    The last 16 of these are `job`, so that a job of many tasks can find the orphan files of killed tasks.
    """
    import secrets

    random = secrets.token_bytes(8)
    return "".join(f"{byte:08b}" for byte in random[:3]) + random[3:].hex() + (job or new_job()) + ".lance"


def is_of_job(name: str, job: str) -> bool:
    """True for the name of a data file of `job`."""
    return name.endswith(f"{job}.lance")


def deletion_path(fragment_id: int, read_version: int, deletion_id: int, extension: str) -> str:
    """Path of a deletion file below its base path."""
    return f"{DELETIONS}/{fragment_id}-{read_version}-{deletion_id}.{extension}"


def checked_relative(path: str, what: str) -> str:
    """Returns `path` if it is relative and stays below its folder.

    Raises:
        CorruptFileError: it is absolute, is in another store, or has ``..`` parts.
    """
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or "://" in path or ".." in parts or "\0" in path:
        raise CorruptFileError(f"the {what} path {path!r} leaves its folder")
    return path
