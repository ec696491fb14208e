"""Verbs in the reference library's words that have another form in this one, for tables of both kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lance_spark.errors import InvalidInputError
from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.column_verbs import ColumnVerbs
from lance_spark.table.maintenance.maintenance_verbs import CleanupVerbs
from lance_spark.table.reference_arguments import MISSING_VERBS
from lance_spark.table.row_level.row_verbs import RowVerbs
from lance_spark.table.versions.tag_verbs import TagVerbs

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.table.cleanup.cleanup import CleanupStats
    from lance_spark.table.columns.alter_column import Alteration
    from lance_spark.table.row_level.merge_insert import MergeInsert

_WRITES = ("append", "overwrite")
_ALTERATION = ("path", "name", "nullable", "data_type")


class ReferenceVerbs(RowVerbs, ColumnVerbs, CleanupVerbs, TagVerbs):
    """`insert`, `merge_insert`, `alter_columns`, `cleanup_old_versions`, `checkout_version`, `latest_version`.

    A dataset of the reference library changes when it is written to; these verbs return the new version, as all do.
    """

    if not TYPE_CHECKING:  # Type checkers are to find unknown names by themselves.

        def __getattr__(self, name: str) -> Any:
            what = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{what}; here: {MISSING_VERBS[name]}" if name in MISSING_VERBS else what)

    def insert(self, data: Any, *, mode: str = "append", **options: Any) -> Self:
        """The table with new rows.

        Args:
            data: rows as `lance_spark.write` takes them.
            mode: "append", or "overwrite" for these rows alone.
            options: of `append` or `overwrite`, whose errors are raised too.
        """
        if mode not in _WRITES:
            raise InvalidInputError(f"mode {mode!r} is not known; there are {' and '.join(_WRITES)}")
        return self.append(data, **options) if mode == "append" else self.overwrite(data, **options)

    def merge_insert(self, on: str | Sequence[str]) -> MergeInsert[Self]:
        """A merge by these key columns, whose actions are chosen by its methods and whose `execute` does it.

        For example ``table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)``.
        """
        from lance_spark.table.row_level.merge_insert import MergeInsert

        return MergeInsert(partial(self.merge, on=on))

    def alter_columns(self, *alterations: Mapping[str, Any]) -> Self:
        """The table with columns changed, in one version.

        Args:
            alterations: mappings of ``path`` and any of ``name``, ``nullable`` and ``data_type``, as the arguments of
                `alter_column`. A new type, whose values are written again, has to be alone.

        Raises:
            InvalidInputError: an unknown key, no ``path``, or a new type among other changes; and as `alter_column`.
        """
        changes = [_alteration(alteration) for alteration in alterations]
        if not changes:
            raise InvalidInputError("alter_columns needs a mapping for each column, such as {'path': 'a', 'name': 'b'}")
        if len(changes) == 1:
            return self._alter_column(changes[0])
        if any(change.data_type is not None for change in changes):
            raise InvalidInputError("change the type of one column at a time, apart from other changes")

        def changed(schema: LanceSchema) -> LanceSchema:
            for change in changes:
                schema = change.of_schema(schema)
            return schema

        return self._change_columns(changed)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
    ) -> CleanupStats:
        """`cleanup`, of which `retain_versions` is `keep_versions`."""
        return self.cleanup(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
        )

    def checkout_version(self, version: int | str) -> Self:
        """Another version of the branch.

        Args:
            version: its number, or the name of a tag.

        Raises:
            NotFoundError: there is no such version or tag.
            InvalidInputError: a tag of another branch.
        """
        location = self.versions_location
        if isinstance(version, str):
            tag = location.refs.tag(version)
            if tag.branch != location.branch:
                raise InvalidInputError(f"tag {version!r} is on branch {tag.branch or 'main'!r}; open the table by it")
            version = tag.version
        return self._at_manifest(location.at(version).manifest)

    @property
    def latest_version(self) -> int:
        """The number of the newest version of the branch; this one may be older."""
        return self.versions_location.newest().version


def _alteration(given: Mapping[str, Any]) -> Alteration:
    from lance_spark.table.columns.alter_column import Alteration

    if not isinstance(given, Mapping) or not isinstance(given.get("path"), str):
        raise InvalidInputError(f"{given!r} does not name a column as 'path'")
    unknown = given.keys() - set(_ALTERATION)
    if unknown:
        raise InvalidInputError(
            f"{min(unknown)!r} of {given['path']!r} is not known; there are {', '.join(_ALTERATION)}"
        )
    return Alteration(given["path"], given.get("name"), given.get("data_type"), given.get("nullable"))
