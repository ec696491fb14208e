"""Catalogs of tables without Spark: `lance_spark.connect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.errors import AlreadyExistsError, CommitStateUnknownError, InvalidInputError, LanceError, NotFoundError
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.external.vended_credentials import merged
from lance_spark.namespace.object_id import Identifier
from lance_spark.namespace.opening import ADDRESSES, DIRECTORY, CatalogPlace, check_kind
from lance_spark.namespace.settings import boolean_setting
from lance_spark.partitioned.access import find_table, open_table, write_table
from lance_spark.partitioned.new_name import NewName, register
from lance_spark.schema.projection import dotted, parse_path
from lance_spark.storage.paths import UriOrPath, uri_text
from lance_spark.table.location import TableLocation
from lance_spark.table.versions.known_properties import check_known
from lance_spark.table.writing.modes import CREATE, OVERWRITE

if TYPE_CHECKING:
    from lance_spark.partitioned.dataset import PartitionedDataset
    from lance_spark.table.dataset import Dataset

Name = str | Sequence[str]
"""A table or namespace: its path with dots, in which a name that has a dot stands in backticks, or its names."""

_STORAGE = "storage."


def connect(root_or_uri: UriOrPath | None = None, *, impl: str = DIRECTORY, **properties: str) -> Catalog:
    """A catalog of tables: a folder, a server, or another service that keeps names and places of tables.

    Spark sees the same tables in a catalog with the same settings.

    Args:
        root_or_uri: the folder of a directory catalog; the address of the service of another one. None where
            `properties` say it, or nothing has to.
        impl: "dir", a folder; "rest", a server of the Lance REST specification; another kind of the catalog settings;
            or ``package.Class`` with the interface ``LanceNamespace``.
        properties: settings of the catalog, by the names that they have in Spark; those with a dot go in a dict:
            ``connect(uri, impl="rest", **{"header.Authorization": "Bearer x", "storage.aws_region": "eu-west-1"})``.

    Raises:
        InvalidInputError: an unknown kind or setting, or one that is missing.
        StorageError: a package that this kind needs is not installed.
    """
    try:
        kind = check_kind(impl)
    except ValueError as error:
        raise InvalidInputError(f"impl is {impl!r}, which is not {error}") from error
    for name, value in properties.items():
        if not isinstance(value, str):
            raise InvalidInputError(f"setting {name} of a catalog is {value!r}; give a text")
    storage = {name[len(_STORAGE) :]: value for name, value in properties.items() if name.lower().startswith(_STORAGE)}
    given = {name: value for name, value in properties.items() if not name.lower().startswith(_STORAGE)}
    parent, delimiter = given.pop("parent", None), given.pop("parent_delimiter", ".")
    single_level = boolean_setting("single_level_ns", given.pop("single_level_ns", "false"))
    if kind == DIRECTORY:
        if root_or_uri is None or given or parent is not None:
            wrong = next(iter(given), "parent")
            raise InvalidInputError(
                "a directory catalog needs its folder" if root_or_uri is None else f"a folder has no setting {wrong}"
            )
        return Catalog(CatalogPlace(kind, uri_text(root_or_uri), storage_options=storage, single_level=single_level))
    if root_or_uri is not None:
        if kind not in ADDRESSES:
            raise InvalidInputError(f"{kind} has no setting for an address that is known here; name the setting")
        given = {ADDRESSES[kind]: uri_text(root_or_uri), **given}
    if "." in kind:
        given |= {name: value for name, value in properties.items() if name.lower().startswith(_STORAGE)}
    levels = tuple(parent.split(delimiter)) if parent else ()
    return Catalog(CatalogPlace(kind, None, given, levels, storage, single_level=single_level))


class Catalog:
    """The tables and namespaces of a catalog, as `connect` opens it.

    A name is a text with dots, ``"db.t"``, in which a name that has a dot itself stands in backticks, or the names as a
    tuple, ``("db", "t")``; ``()`` is the root. Names are case sensitive here, unless the catalog folds them. Each call
    sees what the catalog has now. Catalogs can be pickled, with their settings and so with credentials among them.

    Methods raise `StorageError` if the catalog does not respond or fails, `UnsupportedFeatureError` if it cannot do
    what is asked, and `InvalidInputError` if it rejects it.
    """

    def __init__(self, place: CatalogPlace) -> None:
        self._place = place
        self._names: Namespace = place.open()

    def __repr__(self) -> str:
        return f"Catalog(impl={self._place.impl!r}, {self._names.description!r})"

    def __reduce__(self) -> tuple[type[Catalog], tuple[CatalogPlace]]:
        return type(self), (self._place,)

    def list_namespaces(self, parent: Name = ()) -> list[Any]:
        """Full names of the namespaces directly in `parent`, sorted: texts, or tuples if `parent` is a non-empty tuple.

        Raises:
            NotFoundError: there is no such namespace; some catalogs report an empty one instead.
        """
        return _listed(parent, self._names.list_namespaces(_path(parent)))

    def namespace_exists(self, name: Name) -> bool:
        """Whether there is such a namespace; the root always exists."""
        return self._names.namespace_exists(_path(name))

    def namespace_properties(self, name: Name) -> dict[str, str]:
        """The properties of a namespace.

        Raises:
            NotFoundError: there is no such namespace.
        """
        return dict(self._names.namespace_properties(_path(name)))

    def create_namespace(self, name: Name, properties: Mapping[str, str] | None = None) -> None:
        """Creates a namespace in an existing one.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
        """
        self._names.create_namespace(_path(name), properties)

    def drop_namespace(self, name: Name, cascade: bool = False) -> None:
        """Removes a namespace.

        Args:
            cascade: whether its content goes too: in a directory catalog with the files of its tables, but for those
                outside of the root; a server decides; other catalogs keep all files.

        Raises:
            NotFoundError: there is no such namespace.
            NotEmptyError: it is not empty, and `cascade` is False or the catalog cannot do that.
        """
        self._names.drop_namespace(_path(name), cascade=cascade, purge=cascade, keep_external=True)

    def list_tables(self, namespace: Name = ()) -> list[Any]:
        """Full names of the tables directly in a namespace, sorted: texts, or tuples if it is a non-empty tuple.

        Tables whose names are only reserved are among them.

        Raises:
            NotFoundError: there is no such namespace; some catalogs report an empty one instead.
        """
        return _listed(namespace, self._names.list_tables(_path(namespace)))

    def table_exists(self, name: Name) -> bool:
        """Whether the catalog has a table of this name that can be opened: one with a version."""
        place = self._find(_path(name))
        return place is not None and find_table(place) is not None

    def create_table(
        self,
        name: Name,
        data_or_schema: Any,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        mode: str = CREATE,
    ) -> Dataset | PartitionedDataset:
        """A new table with rows, or without, as one version.

        Args:
            data_or_schema: rows as `lance_spark.write` takes them, or a `pyarrow.Schema`.
            partition_by: transforms as in PARTITIONED BY, which `lance_spark.write` lists.
            properties: of the new table, such as ``{"lance.auto_zonemap": "id"}``.
            mode: "create"; or "overwrite": a table that is there gets these rows instead of its own.

        Raises:
            AlreadyExistsError: an object with this name exists, and `mode` is "create".
            NotFoundError: the namespace does not exist.
            InvalidInputError: the rows, a transform or a property are invalid. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the table was made.
        """
        if mode not in (CREATE, OVERWRITE):
            raise InvalidInputError(f"mode is {mode!r}; it is 'create' or 'overwrite', and Dataset.append adds rows")
        identifier, given = _identifier(name), dict(properties or {})
        check_known(given)
        data = data_or_schema.empty_table() if isinstance(data_or_schema, pa.Schema) else data_or_schema
        place = self._find(identifier)
        if place is not None and find_table(place) is not None:
            if mode == CREATE:
                raise AlreadyExistsError(f"there is a table {dotted(identifier)}")
            if given:
                raise InvalidInputError(
                    f"the table {dotted(identifier)} exists and keeps its properties; leave them out"
                )
            return write_table(
                data, place.uri, mode=OVERWRITE, partition_by=partition_by, storage_options=place.storage_options
            )
        if place is None:
            return self._made(identifier, data, partition_by, given)
        return write_table(  # A name that was reserved, and got no table.
            data, place.uri, partition_by=partition_by, properties=given, storage_options=place.storage_options
        )

    def open_table(
        self, name: Name, version: int | None = None, tag: str | None = None, branch: str | None = None
    ) -> Dataset | PartitionedDataset:
        """A version of a table, by default the newest.

        Args:
            tag: a tag, which determines the branch.
            branch: None is the main one.

        Raises:
            NotFoundError: no such table, version, tag or branch.
            InvalidInputError: more than one of version and tag, or a branch other than the tag's.
        """
        identifier = _identifier(name)
        place = self._find(identifier)
        if place is None:
            raise NotFoundError(f"there is no table {dotted(identifier)} in {self!r}")
        return open_table(place.uri, version, tag=tag, branch=branch, storage_options=place.storage_options)

    def drop_table(self, name: Name, purge: bool = False) -> None:
        """Removes a table from the catalog.

        Args:
            purge: whether its files go now. Otherwise they stay: in a directory catalog until their retention ends, in
                others until somebody deletes them.

        Raises:
            NotFoundError: there is no such table.
        """
        self._names.drop_table(_identifier(name), purge=purge)

    def rename_table(self, old: Name, new: Name) -> None:
        """Gives a table another name, possibly in another namespace.

        Raises:
            NotFoundError: there is no such table, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
        """
        self._names.rename_table(_identifier(old), _identifier(new))

    def register_table(self, name: Name, location: UriOrPath) -> Dataset | PartitionedDataset:
        """Gives a table that is there a name.

        Args:
            location: where it is: a URI, a path, or in a directory catalog a path relative to the root. Some REST
                servers take such a path only.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the namespace does not exist, or there is no table at the location.
        """
        return register(self._names, _identifier(name), location, self._place.storage_options)[0]

    def deregister_table(self, name: Name) -> None:
        """Removes a table from the catalog, and keeps its files until somebody deletes them.

        Raises:
            NotFoundError: there is no such table.
        """
        self._names.deregister_table(_identifier(name))

    def _made(
        self, identifier: Identifier, data: Any, partition_by: Sequence[str], properties: Mapping[str, str]
    ) -> Dataset | PartitionedDataset:
        """The new table of a name that is free."""
        new = NewName.reserve(self._names, identifier, self._place.storage_options, partitioned=bool(partition_by))
        try:
            made = write_table(
                data, new.uri, partition_by=partition_by, properties=properties, storage_options=new.storage_options
            )
        except CommitStateUnknownError:
            raise  # The table may exist; its name must be kept.
        except BaseException:
            with suppress(LanceError):  # The caller needs the first error, not a failure to take the name back.
                new.withdraw()
            raise
        try:
            new.give()
        except (AlreadyExistsError, NotFoundError):  # After other errors the table may have its name.
            new.delete_files()
            raise
        return made

    def _find(self, identifier: Identifier) -> TableLocation | None:
        try:
            entry = self._names.table_location(identifier)
        except NotFoundError:
            return None
        return TableLocation(entry.uri, merged(self._place.storage_options, entry.storage_options))


def _path(name: Name) -> Identifier:
    if not isinstance(name, str):
        return tuple(name)
    try:
        return parse_path(name)
    except InvalidInputError:
        raise InvalidInputError(
            f"{name!r} is no name in a catalog; write db.t, with backticks around a name that has a dot, or a tuple"
        ) from None


def _identifier(name: Name) -> Identifier:
    path = _path(name)
    if not path:
        raise InvalidInputError(f"{name!r} is no name of a table")
    return path


def _listed(parent: Name, names: Sequence[str]) -> list[Any]:
    path = _path(parent)
    found = [(*path, name) for name in names]
    return found if path and not isinstance(parent, str) else [dotted(identifier) for identifier in found]
