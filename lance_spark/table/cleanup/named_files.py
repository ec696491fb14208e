"""The files that versions name, by the places where they lie below a root.

A name is unique whatever root it lies below, because it was made of random digits. So files that a version names
below another root count too where files are to be kept: that is safe, and does not depend on how roots are spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lance_spark._proto import table_pb2
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import DATA, DELETIONS, INDICES, TRANSACTIONS, deletion_path
from lance_spark.table.rows.deletion_vector import DeletionFileType

_EXTENSIONS = {kind.value: kind.extension for kind in DeletionFileType}


@dataclass(slots=True)
class NamedFiles:
    """Files that were seen in some versions; it grows with each.

    Attributes:
        data: paths of data files in `data/`.
        deletions: paths of deletion files, with their folder.
        indices: UUIDs of indices, each a folder in `_indices/`.
        transactions: names in `_transactions/`.
    """

    data: set[str] = field(default_factory=set)
    deletions: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)
    transactions: set[str] = field(default_factory=set)
    _last_places: tuple[bool, bool] | None = None
    _last_fragments: dict[int, table_pb2.DataFragment] = field(default_factory=dict)

    def add(self, manifest: Manifest, *, in_own_root: bool = True, elsewhere: bool = True) -> None:
        """Adds what a version names.

        Args:
            in_own_root: whether files below the root of the version itself count.
            elsewhere: whether files below its base paths count.

        Raises:
            CorruptFileError: the list of indices is damaged.
            UnsupportedFeatureError: the version names files that this release does not know.
        """

        def counts(has_base: bool) -> bool:
            return elsewhere if has_base else in_own_root

        # Versions differ in few fragments from those before them, and comparing is cheaper than looking.
        known = self._last_fragments if self._last_places == (in_own_root, elsewhere) else {}
        messages = manifest.fragments.messages
        for message in messages:  # Old releases gave one id to several fragments.
            if known.get(message.id) != message:
                self._add_fragment(message, counts)
        self._last_places = (in_own_root, elsewhere)
        self._last_fragments = {message.id: message for message in messages}
        for index in parse_indices(manifest.index_section):
            if counts(index.base_id is not None):
                self.indices.add(index.uuid)
        if in_own_root and manifest.transaction_file:
            self.transactions.add(manifest.transaction_file)

    def _add_fragment(self, message: table_pb2.DataFragment, counts: Callable[[bool], bool]) -> None:
        if message.overlays:
            raise UnsupportedFeatureError(f"fragment {message.id} has data overlay files", feature="data overlay files")
        for file in message.files:
            if counts(file.HasField("base_id")):
                self.data.add(file.path)
        if message.HasField("deletion_file") and counts(message.deletion_file.HasField("base_id")):
            self.deletions.add(_deletion_path(message))

    def has(self, path: str) -> bool:
        """True if `path`, below a root, is one of the files, or belongs to one."""
        folder, _, name = path.partition("/")
        if folder == DATA:
            # Blobs of a data file lie in a folder that is called like it.
            return name in self.data or f"{name.rpartition('/')[0]}.lance" in self.data
        if folder == INDICES:
            return name.partition("/")[0] in self.indices
        return (name in self.transactions) if folder == TRANSACTIONS else folder == DELETIONS and path in self.deletions


def _deletion_path(message: table_pb2.DataFragment) -> str:
    file = message.deletion_file
    if file.file_type not in _EXTENSIONS:
        raise UnsupportedFeatureError(f"deletion files of type {file.file_type} are unknown", feature="deletion file")
    return deletion_path(message.id, file.read_version, file.id, _EXTENSIONS[file.file_type])
