"""The place where a table is built that is imported, and the file that says how far its import has to go.

The place has no name in the catalog, so that nobody sees the table before it gets one. The file `_import.json` in it
lists the files of the source and the steps; which steps are done, the table's mark says, the same as for streams.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import count

from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, RetryableConflictError
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.directory.places import delete_tables_in
from lance_spark.namespace.locations import import_directory, location_uri, requested_location
from lance_spark.namespace.object_id import Identifier, object_id
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.new_name import register
from lance_spark.spark.connector.imports.source import SourceFile
from lance_spark.storage import open_store
from lance_spark.storage.base import PutResult
from lance_spark.storage.paths import with_absolute_path
from lance_spark.table.access import located
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.epoch_mark import PREFIX, committed_epoch
from lance_spark.table.versions.changes import update_config

_STATE, _FORMAT = "_import.json", 1


@dataclass(frozen=True, slots=True)
class ImportState:
    """An import that has begun.

    Attributes:
        app: names its steps in the table's mark; random.
        source: the name of the source in SQL.
        definition: the statement that makes the table.
        files: of the source; None if Spark does not list them.
        steps: the paths of the files of each step; None for a step that reads the source as a whole.
    """

    app: str
    source: str
    definition: str
    files: tuple[SourceFile, ...] | None
    steps: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def begin(
        cls,
        source: str,
        definition: str,
        files: tuple[SourceFile, ...] | None,
        steps: tuple[tuple[str, ...] | None, ...],
    ) -> ImportState:
        """A new import."""
        return cls(f"import-{secrets.token_hex(8)}", source, definition, files, steps)

    def encode(self) -> bytes:
        """The content of the file."""
        return json.dumps({"format": _FORMAT, **asdict(self)}).encode()

    @classmethod
    def decode(cls, data: bytes, place: str) -> ImportState:
        """The import that the file of `place` describes.

        Raises:
            CorruptFileError: it is damaged, or of another format.
        """
        try:
            entry = json.loads(data)
            if entry["format"] != _FORMAT:
                raise ValueError(f"format {entry['format']}")
            return cls(
                str(entry["app"]),
                str(entry["source"]),
                str(entry["definition"]),
                None if entry["files"] is None else tuple(SourceFile(**file) for file in entry["files"]),
                tuple(None if step is None else tuple(map(str, step)) for step in entry["steps"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptFileError(
                f"the file of an import at {place} is damaged: {error}; begin again with restart => true", path=_STATE
            ) from error


@dataclass(frozen=True, slots=True)
class Staging:
    """The place of a table that is imported.

    Attributes:
        location: as `register` takes it.
    """

    uri: str
    location: str
    storage_options: Mapping[str, str]

    @classmethod
    def of(
        cls, names: Namespace, identifier: Identifier, storage_options: Mapping[str, str], location: str | None
    ) -> Staging:
        """The place for a new table: that of an earlier call, or one where nothing is.

        Args:
            location: the place that a user wants; None: one below the root of a catalog in a folder.

        Raises:
            InvalidInputError: something is there; or the catalog chooses no place.
        """
        if not isinstance(names, DirectoryNamespace):
            if location is None:
                raise InvalidInputError(
                    "this catalog gives places to names only; say by location => '...' where the table is to be"
                )
            return cls(with_absolute_path(location), location, storage_options)._free()
        if location is not None:
            place = requested_location(names.root, location)
            return cls(location_uri(names.root, place), place, storage_options)._free()
        for number in count():
            place = import_directory(object_id(identifier), number)
            staging = cls(location_uri(names.root, place), place, storage_options)
            if staging.is_begun() or staging.is_empty():
                return staging
        raise AssertionError("count does not end")

    def _free(self) -> Staging:
        if not self.is_begun() and not self.is_empty():
            raise InvalidInputError(f"{self.uri} is not empty; give a folder of its own to the table")
        return self

    def is_empty(self) -> bool:
        """Whether nothing is here."""
        return next(iter(open_store(self.uri, self.storage_options).list("", recursive=True)), None) is None

    def is_begun(self) -> bool:
        """Whether an import has begun here."""
        try:
            return open_store(self.uri, self.storage_options).size(_STATE) >= 0
        except NotFoundError:
            return False

    def state(self) -> ImportState | None:
        """The import that has begun here; None if there is none. Raises as `ImportState.decode`."""
        try:
            data = open_store(self.uri, self.storage_options).read(_STATE)
        except NotFoundError:
            return None
        return ImportState.decode(data.to_pybytes(), self.uri)

    def begin(self, state: ImportState) -> ImportState:
        """The import of this place from now on: `state`, or that of another call which was first."""
        result = open_store(self.uri, self.storage_options).put_if_absent(_STATE, state.encode())
        begun = state if result is PutResult.CREATED else self.state()
        if begun is None:
            raise RetryableConflictError(f"nobody knows whether an import has begun at {self.uri}; run it again")
        return begun

    def check_begun(self, state: ImportState) -> None:
        """Passes if `state` is the import of this place.

        Raises:
            RetryableConflictError: another call has begun it again, or has ended it.
        """
        begun = self.state()
        if begun is None or begun.app != state.app:
            raise RetryableConflictError(f"another call has taken over the import at {self.uri}; look at its answer")

    def table(self) -> Dataset | PartitionedDataset | None:
        """The newest version of the table; None if there is none yet."""
        return find_table(located(self.uri, self.storage_options))

    def steps_done(self, state: ImportState) -> int:
        """The number of steps whose rows the table has."""
        table = self.table()
        if table is None:
            return 0
        mark = committed_epoch(table.versions_location.newest().config, state.app)
        return 0 if mark is None else mark.epoch + 1

    def num_bytes(self) -> int:
        """Bytes of the data files."""
        entries = open_store(self.uri, self.storage_options).list("", recursive=True)
        return sum(entry.size for entry in entries if "data" in entry.path.split("/")[:-1])

    def publish(self, names: Namespace, identifier: Identifier, state: ImportState, version: int) -> None:
        """Gives the table its name. The file goes first, or a table that is dropped would look like an import.

        Raises:
            RetryableConflictError: the table has another version than the compared one.
            AlreadyExistsError: another writer was first with the name.
        """
        self.check_begun(state)
        table = self.table()
        if table is None or table.version != version:
            raise RetryableConflictError(
                f"somebody has changed the table at {self.uri} meanwhile; run the import again"
            )
        location = table.versions_location
        if state.steps:
            update_config(location, location.newest(), {PREFIX + state.app: None})
        open_store(self.uri, self.storage_options).delete(_STATE)
        register(names, identifier, self.location, self.storage_options)

    def remove(self) -> None:
        """Deletes what was imported so far. The file goes last: a part of a table would look like one."""
        root, _, name = self.uri.rstrip("/").rpartition("/")
        store = open_store(root, self.storage_options)
        delete_tables_in(store, root, name, self.storage_options, last=[f"{name}/{_STATE}"])
