"""Tables whose store fails as told, and what their writers leave behind."""

from __future__ import annotations

import lance_spark
from lance_spark.storage.faults import Fault, FaultStore
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.writing.save import CommitOptions

PUT = "put_if_absent"
NO_WAIT = RetryPolicy(sleep=lambda seconds: None)
QUIET = CommitOptions(policy=NO_WAIT)


def with_faults(uri: str, *faults: Fault) -> TableLocation:
    """The table at `uri`; the store of its data and versions does harm."""
    location = TableLocation(uri)
    location.store = FaultStore(location.store, faults)
    location.history = History(location.store)
    return location


def files(uri: str, folder: str = "data") -> list[str]:
    """The files of a folder of a table, whether a version names them or not."""
    return sorted(entry.path for entry in TableLocation(uri).store.list(folder, recursive=True))


def named_files(uri: str) -> set[str]:
    """Data files and deletion files that some version names."""
    paths = set()
    for entry in lance_spark.open(uri).versions():
        for fragment in lance_spark.open(uri, version=entry.version).fragments:
            paths.update(f"data/{file.path}" for file in fragment.files)
            if fragment.deletion_file is not None:
                paths.add(fragment.deletion_file.path(fragment.id))
    return paths


def assert_nothing_left_over(uri: str) -> None:
    assert set(files(uri)) | set(files(uri, "_deletions")) == named_files(uri)
