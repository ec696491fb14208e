"""The verbs of branches, which partitioned tables do not have: the versions of `__manifest` are one line."""

from __future__ import annotations

from typing import NoReturn

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.partitioned.table import PartitionedTable


class WithoutBranches(PartitionedTable):
    """See the verbs of `Dataset`; each raises `UnsupportedFeatureError`."""

    def create_branch(self, name: str, version: int | None = None, *, tag: str | None = None) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._without_branches()

    def delete_branch(self, name: str, *, force: bool = False) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._without_branches()

    def fast_forward(self, branch: str, to: str) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._without_branches()

    def cherrypick(self, version: int, branch: str | None = None, onto: str | None = None) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._without_branches()

    def publish_changes(self, wap_id: str) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._without_branches()

    def compare_branches(self, left: str, right: str) -> NoReturn:
        """Raises `UnsupportedFeatureError`."""
        raise self._without_branches()

    def _without_branches(self) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"{self.root} is a partitioned table, which has no branches: its versions are those of __manifest, in one "
            "line. Use a tag",
            feature="branches of partitioned tables",
        )
