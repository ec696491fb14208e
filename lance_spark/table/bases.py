"""Base paths: the roots of a table's files (`lance.table.BasePath`).

Most tables have one root. Files of shallow clones, branches and imported data have other base paths: a `DataFile` with
a base id is at that path, in `data/` below it if the base path is the root of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from lance_spark._proto import table_pb2
from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError, NotFoundError
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.cache import has_free_etags
from lance_spark.storage.paths import UriOrPath, below, uri_text
from lance_spark.table.base_places import followed, open_place, options_of
from lance_spark.table.manifests.manifest_store import ObjectManifests
from lance_spark.table.paths import DATA, INDICES, detached_manifest_path, is_detached
from lance_spark.table.rows.fragment import BaseId, DataFile, DeletionFile, FragmentId

REMOTE_READS = 16
"""Files that are read at once where each request takes a network's round trip."""


@dataclass(frozen=True, slots=True)
class BasePath:
    """One base path of a table.

    Attributes:
        id: its number, by which files name it; with 0 the table assigns one.
        path: an absolute path or a URI.
        is_dataset_root: files are in `data/`, `_deletions/` below the path, not in the path itself.
        name: by which writes choose it; None if it has none.
    """

    id: BaseId
    path: str
    is_dataset_root: bool
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", uri_text(self.path))

    @classmethod
    def at(cls, path: UriOrPath, name: str | None = None, *, is_dataset_root: bool = False) -> BasePath:
        """A new base path from an absolute path or a URI; the table assigns its id."""
        return cls(BaseId(0), uri_text(path), is_dataset_root, name)

    @classmethod
    def from_proto(cls, message: table_pb2.BasePath) -> BasePath:
        return cls(
            id=BaseId(message.id),
            path=message.path,
            is_dataset_root=message.is_dataset_root,
            name=message.name if message.HasField("name") else None,
        )

    def to_proto(self) -> table_pb2.BasePath:
        return table_pb2.BasePath(id=self.id, name=self.name, is_dataset_root=self.is_dataset_root, path=self.path)


@dataclass(frozen=True, slots=True)
class DataTarget:
    """The destination of new data files.

    Attributes:
        folder: inside the store, with a trailing slash unless it is the root.
        base_id: None for the table's own root.
    """

    store: ObjectStore
    folder: str
    base_id: BaseId | None = None


class Bases:
    """The stores of a table's files. Thread safe; can be pickled, and opens its stores lazily.

    Attributes:
        split_key: of the split whose files these are; None for a plain table.
    """

    def __init__(
        self,
        root: ObjectStore,
        base_paths: tuple[BasePath, ...] = (),
        storage_options: Mapping[str, str] | None = None,
        *,
        version: int | None = None,
        display_name: str | None = None,
        split_key: str | None = None,
    ) -> None:
        self.split_key = split_key
        self._version = version
        self._display_name = display_name
        self._root = root
        self._base_paths = {base.id: base for base in base_paths}
        self._storage_options = dict(storage_options) if storage_options else None
        self._stores: dict[BaseId, ObjectStore] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        # The root is pickled as a store, not as its URI, which may be a path relative to this process.
        return {
            "_root": self._root,
            "_base_paths": self._base_paths,
            "_storage_options": self._storage_options,
            "_version": self._version,
            "_display_name": self._display_name,
            "split_key": self.split_key,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._stores = {}
        self._lock = Lock()

    def of_table(
        self,
        uri: str,
        base_paths: tuple[BasePath, ...],
        version: int,
        display_name: str | None,
        split_key: str | None = None,
    ) -> Bases:
        """Bases of a version of another table, opened with the same storage options; same arguments as the class."""
        return Bases(
            open_store(uri, options_of(self._storage_options)),
            base_paths,
            self._storage_options,
            version=version,
            display_name=display_name,
            split_key=split_key,
        )

    @cached_property
    def reads_at_once(self) -> int:
        """Number of files to read concurrently: several where a request waits for a network, otherwise one."""
        places = [base.path for base in self._base_paths.values()]
        is_remote = any("://" in place and not place.startswith("file:") for place in places)
        return REMOTE_READS if is_remote or not has_free_etags(self._root) else 1

    @cached_property
    def identity(self) -> Hashable | None:
        """Equal for those that see the same files with the same rights; None if that is not known of the store."""
        root = getattr(self._root, "identity", None)
        options = (self._storage_options or {}).items()
        return (
            None
            if root is None
            else (root, self.split_key, tuple(sorted((str(key), str(value)) for key, value in options)))
        )

    def reading(self) -> AbstractContextManager[None]:
        """Explains missing files of the version to a reader.

        Raises:
            NotFoundError: a clean-up has removed the version, or the table has lost the file.
        """
        return _Reading(self._explained)

    def _explained(self, error: NotFoundError) -> NotFoundError:
        """The error of a missing file as it is reported; `error` itself if the version is not known."""
        if self._version is None:
            return error
        display_name = self._display_name or f"version {self._version} of {self._root.uri}"
        if not self.is_removed:
            return NotFoundError(
                f"{error}; {display_name} names this file and is still there, so the table has lost it. Bring "
                "the file back, or RESTORE a version that does not need it"
            )
        return removed_meanwhile(display_name)

    @property
    def is_removed(self) -> bool:
        """Whether the version is no longer there; a request. False if these are the stores of no version."""
        if self._version is None:
            return False
        try:
            if is_detached(self._version):
                self._root.size(detached_manifest_path(self._version))
            else:
                ObjectManifests(self._root).locate(self._version)
        except NotFoundError:
            return True
        return False

    @property
    def root(self) -> ObjectStore:
        """The store of the table's own root."""
        return self._root

    def data_file(self, file: DataFile) -> tuple[ObjectStore, str]:
        """The store of a data file, and the file's path there.

        Raises:
            CorruptFileError: there is no such base path.
        """
        in_root = file.base_id is None or self._base(file.base_id).is_dataset_root
        return self._store(file.base_id), f"{DATA}/{file.path}" if in_root else file.path

    def data_folder(self, base_id: BaseId) -> str:
        """The URI of the folder of the data files of a base path.

        Raises:
            CorruptFileError: there is no such base path.
            UnsupportedFeatureError: it is in a store that is not followed.
        """
        base = self._base(base_id)
        uri = followed(base.path, base_id, self._root.uri)
        return below(uri, DATA) if base.is_dataset_root else uri

    def folder(self, base_id: BaseId) -> ObjectStore:
        """The store of a base path.

        Raises:
            CorruptFileError: there is no such base path.
        """
        return self._store(base_id)

    def other(self, uri: str) -> ObjectStore:
        """The store of a place that is no base path of the table; for blobs that are references."""
        return open_place(uri, self._root.uri, self._storage_options)

    def targets(self, names: Sequence[str]) -> tuple[DataTarget, ...]:
        """The destinations of new data files, for the base paths called `names`.

        Raises:
            NotFoundError: there is no base path with such a name.
        """
        by_name = {base.name: base for base in self._base_paths.values() if base.name is not None}
        unknown = [name for name in names if name not in by_name]
        if unknown:
            raise NotFoundError(f"no base is called {unknown[0]!r}; there are: {', '.join(sorted(by_name)) or 'none'}")
        chosen = [by_name[name] for name in names]
        return tuple(
            DataTarget(self._store(base.id), f"{DATA}/" if base.is_dataset_root else "", base.id) for base in chosen
        )

    def deletion_file(self, fragment_id: FragmentId, file: DeletionFile) -> tuple[ObjectStore, str]:
        """The store of a deletion file, and the file's path there.

        Raises:
            CorruptFileError: there is no such base path.
        """
        path = file.path(fragment_id)
        in_root = file.base_id is None or self._base(file.base_id).is_dataset_root
        return self._store(file.base_id), path if in_root else path.rsplit("/", 1)[1]

    def index_folder(self, index_uuid: str, base_id: BaseId | None) -> tuple[ObjectStore, str]:
        """The store that holds the files of an index, and their folder there.

        Raises:
            CorruptFileError: no such base.
        """
        in_root = base_id is None or self._base(base_id).is_dataset_root
        return self._store(base_id), f"{INDICES}/{index_uuid}" if in_root else index_uuid

    def _base(self, base_id: BaseId) -> BasePath:
        base = self._base_paths.get(base_id)
        if base is None:
            raise CorruptFileError(f"a file is under base path {base_id}, which the manifest does not list")
        return base

    def _store(self, base_id: BaseId | None) -> ObjectStore:
        if base_id is None:
            return self._root
        with self._lock:
            store = self._stores.get(base_id)
            if store is None:
                uri = followed(self._base(base_id).path, base_id, self._root.uri)
                store = self._stores[base_id] = open_place(uri, self._root.uri, self._storage_options, base_id)
            return store


class _Reading:
    """A context that replaces errors of missing files by what `explained` makes of them."""

    # A generator as context takes three times as long, which is much of a small read.
    def __init__(self, explained: Callable[[NotFoundError], NotFoundError]) -> None:
        self._explained = explained

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, NotFoundError) and (explained := self._explained(error)) is not error:
            raise explained from error


def removed_meanwhile(display_name: str) -> NotFoundError:
    """The error of a reader whose version a clean-up has removed; `display_name` is the version and its table."""
    return NotFoundError(
        f"{display_name} was removed by VACUUM or an automatic clean-up while it was read. Run the query again; for "
        "queries that take long, keep versions longer than they run, or give the version a tag, which VACUUM spares"
    )
