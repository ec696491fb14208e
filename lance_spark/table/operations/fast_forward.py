"""A fast-forward: the content of another branch as the next version, in the message of an `Overwrite`.

The format has no operation for it. For other writers it is an overwrite: what they have read may no longer exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lance_spark.errors import InvalidInputError
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import Settings
from lance_spark.table.operations.manifest_builder import (
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)
from lance_spark.table.operations.overwrite import Overwrite


@dataclass(frozen=True, slots=True)
class FastForward(Overwrite):
    """Takes rows, row ids, schema, indexes, config and table metadata of a version of another branch.

    Attributes:
        state: the manifest of that version, with the base paths of the branch to commit to; not in the message.
    """

    state: Manifest | None = field(default=None, compare=False, repr=False)

    @classmethod
    def to(cls, state: Manifest, previous: Manifest) -> FastForward:
        """The operation that makes `state` the version after `previous`."""
        changed = {key: value for key, value in state.config.items() if previous.config.get(key) != value}
        return cls(tuple(state.fragments), state.schema, MappingProxyType(changed), state=state)

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        state = self.state
        if previous is None or state is None:
            raise InvalidInputError("there is no version to fast-forward")
        largest_id = max(largest_fragment_id(previous), largest_fragment_id(state))
        manifest = replace(
            state,
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(state) or settings.file_version,
            max_fragment_id=id_after(largest_id, 0),
            next_row_id=max(previous.next_row_id, state.next_row_id),
            writer_version=writer_version(),
            branch=previous.branch,
            tag="",
        )
        return with_flags(manifest, state, state.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        """None: the files are those of the other branch, whether or not this is committed."""
        return frozenset()
