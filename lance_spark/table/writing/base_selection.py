"""The base paths chosen by a writer: those of a new table, and the targets of its data files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lance_spark.errors import IncompatibleConflictError, InvalidInputError
from lance_spark.table.bases import BasePath
from lance_spark.table.commits.commit import Rebase
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import CommittableOperation
from lance_spark.table.operations.clone import free_base_id
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.operations.update_bases import clashing


def checked_bases(bases: Sequence[BasePath]) -> tuple[BasePath, ...]:
    """The base paths, with a free id of 1 or more in place of id 0.

    Raises:
        InvalidInputError: two have the same id, name or path, or a path is not absolute.
    """
    result: list[BasePath] = []
    explicit = {base.id for base in bases if base.id}
    for base in bases:
        if not (base.path.startswith("/") or "://" in base.path):
            raise InvalidInputError(f"the path {base.path!r} of a base is neither absolute nor a URI")
        for other in result:
            if clash := clashing(base, other):
                raise InvalidInputError(f"two bases have the {clash}")
        used = explicit.union(other.id for other in result)
        result.append(base if base.id else replace(base, id=free_base_id(used, first=1)))
    return tuple(result)


def require_same_bases(operation: Append | Overwrite, base: Manifest) -> Rebase | None:
    """Lets an operation follow only versions in which the bases that have its new files are those of `base`.

    A restore can remove base paths, whose ids can then be reused.

    Raises:
        InvalidInputError: `base` lacks some of them.
    """
    used = {file.base_id for fragment in operation.fragments for file in fragment.files} - {None}
    if not used:
        return None
    expected = {entry for entry in base.base_paths if entry.id in used}
    if len(expected) < len(used):
        raise InvalidInputError("data files were written to a base that the table does not have")

    def on_version(manifest: Manifest) -> CommittableOperation:
        if not expected <= set(manifest.base_paths):
            raise IncompatibleConflictError(
                "another writer has taken away the base paths that new data files were written to",
                own=operation.kind.value,
                table_version=manifest.version,
            )
        return operation

    return on_version
