"""Indexes of kinds that this release does not know, which other libraries have built.

Such an index cannot follow rows to other addresses. A rewrite would take the rows from it, and its searches no longer
find them; so fragments that it covers stay as they are, unless a fragment reuse index records where their rows moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyroaring

from lance_spark.errors import LanceError, StorageError, UnsupportedFeatureError
from lance_spark.index.builders.kinds import builder_of
from lance_spark.index.members import is_member, member_type
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.indexes.definition import field_path
from lance_spark.table.indexes.optimize import index_files
from lance_spark.table.manifests.fragment_reuse import covered_fragments
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest


@dataclass(frozen=True, slots=True)
class UnknownIndexes:
    """The indexes of one version that this release cannot move to other addresses.

    Attributes:
        kinds: the name of each, and the kind that its metadata names.
        covered: the fragments that they cover.
    """

    kinds: Mapping[str, str]
    covered: pyroaring.BitMap

    @classmethod
    def none(cls) -> UnknownIndexes:
        """No index."""
        return cls({}, pyroaring.BitMap())

    @classmethod
    def of(cls, manifest: Manifest, bases: Bases) -> UnknownIndexes:
        """Unknown indexes of a version. Files are read only of a vector index whose metadata does not tell its kind.

        Raises:
            CorruptFileError: the metadata of an index is broken.
            StorageError: the store failed.
        """
        indexes = parse_indices(manifest.index_section)
        unknown = [index for index in indexes if not index.is_system and not _is_known(manifest.schema, index, bases)]
        if not unknown:
            return cls.none()
        kinds = {index.name: index.message.index_details.type_url.rpartition("/")[2] for index in unknown}
        return cls(kinds, pyroaring.BitMap.union(*map(covered_fragments(indexes, bases), unknown)))

    def reason(self, *, can_defer: bool) -> str:
        """The reason why fragments stay, and what to do."""
        names = ", ".join(f"{name!r} ({kind or 'no kind is given'})" for name, kind in self.kinds.items())
        way = "compact with defer_index_remap, " if can_defer else ""
        return (
            f"this release does not know the kind of index {names} and would take their rows from it; {way}drop the "
            "index first, or use the library that has built it"
        )


def _is_known(schema: LanceSchema, segment: IndexMetadata, bases: Bases) -> bool:
    """Whether this release can move a segment, or build it again from the values. Broken files do not count."""
    message = segment.message
    details = message.index_details.value
    builder_type = builder_of(message.index_details.type_url)
    kind = None if builder_type is None else builder_type.kind_in(details)
    path = field_path(schema, message.fields[0]) if len(message.fields) == 1 else ()
    if builder_type is None or kind is None or message.index_version > kind.max_version:
        return False
    if not path or not is_member(path, in_lists=builder_type.reaches_into_lists):
        return False
    try:
        return builder_type.of_segment(details, index_files(segment, bases)).supports(member_type(path))
    except UnsupportedFeatureError:
        return False
    except StorageError:
        raise
    except LanceError:
        return True
