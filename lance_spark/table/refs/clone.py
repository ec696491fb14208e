"""Shallow clones: separate tables that begin with a version of another one and share its files.

The clone references the files of the other table by a base path, an absolute path or a URI. The format records nothing
of it in the other table, whose clean-up would remove the files: `refs/clone_tags.py` keeps them.
"""

from __future__ import annotations

from lance_spark.errors import InvalidInputError
from lance_spark.table.base_places import base_path_of
from lance_spark.table.commits.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.clone import Clone
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import is_detached
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION


def shallow_clone(
    table: TableLocation, version: int, target: TableLocation, policy: RetryPolicy | None = None
) -> Manifest:
    """Creates the new table or branch `target` with one version: `version` of the branch `table`, with that number.

    Raises:
        NotFoundError: there is no such version.
        InvalidInputError: there is a table at `target`, or the version is detached.
        CommitConflictError: another writer created a table there at the same time.
        CommitStateUnknownError: it is unknown whether the clone was created.
        UnsupportedFeatureError: the version needs a feature that this release does not write.
    """
    if is_detached(version):
        raise InvalidInputError(f"version {version} is a detached one, which cannot be cloned")
    source = table.at(version).manifest
    if target.history.latest_location() is not None:
        raise InvalidInputError(f"there is a table at {target.store.uri} already")
    operation = Clone(
        is_shallow=True,
        ref_name=table.branch,
        ref_version=version,
        ref_path=base_path_of(table.store.uri),
        branch_name=target.branch,
        source=source,
    )
    transaction = Transaction.new(version, operation)
    new_table = NewTable(data_format(source) or DEFAULT_FILE_VERSION)
    return Commit(target.history, None, transaction, new_table, policy).run()
