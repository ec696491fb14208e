"""Random changes of a namespace against a dictionary of what has to be there, and as the reference library sees it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance_namespace as spec
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lance.namespace import DirectoryNamespace as ReferenceNamespace

import lance_spark
from lance_spark.errors import AlreadyExistsError, NotEmptyError, NotFoundError
from lance_spark.namespace.directory.namespace import DirectoryNamespace

NAMES = st.sampled_from(["a", "b", "A b", "a.lance"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
CHANGES = st.one_of(
    st.tuples(st.just("create"), PATHS),
    st.tuples(st.just("create"), PATHS),
    st.tuples(st.just("declare"), PATHS),
    st.tuples(st.just("declare"), PATHS),
    st.tuples(st.just("directory"), NAMES.map(lambda name: (name,))),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("drop"), PATHS, st.booleans()),
    st.tuples(st.just("drop namespace"), PATHS, st.booleans()),
)

Path_ = tuple[str, ...]


class Model:
    """What has to be there: namespaces, and tables with the number that is their one row."""

    def __init__(self) -> None:
        self.namespaces: set[Path_] = set()
        self.tables: dict[Path_, int] = {}
        self._rows = 0

    def next_row(self) -> int:
        self._rows += 1
        return self._rows

    def has_parents(self, path: Path_) -> bool:
        return all(path[:length] in self.namespaces for length in range(1, len(path)))

    def expected_for_new(self, path: Path_) -> type[Exception] | None:
        if path in self.tables or path in self.namespaces:
            return AlreadyExistsError
        return None if self.has_parents(path) else NotFoundError


def attempt(change: Callable[[], Any], expected: type[Exception] | None) -> Any:
    """Runs a change that has to raise `expected`, or nothing."""
    if expected is None:
        return change()
    with pytest.raises(expected):
        change()
    return None


def apply(change: tuple[Any, ...], namespace: DirectoryNamespace, model: Model) -> None:
    kind, path = change[0], change[1]
    if kind == "create":
        expected = model.expected_for_new(path)
        attempt(lambda: namespace.create_namespace(path, {"path": "/".join(path)}), expected)
        if expected is None:
            model.namespaces.add(path)
    elif kind == "declare":
        entry = attempt(lambda: namespace.declare_table(path), model.expected_for_new(path))
        if entry is not None:
            row = model.tables[path] = model.next_row()
            lance_spark.write(pa.table({"row": [row]}), entry.uri)
    elif kind == "directory":
        folder = Path(namespace.root) / f"{path[0]}.lance"
        if path not in model.tables and path not in model.namespaces and not folder.exists():
            row = model.tables[path] = model.next_row()
            lance_spark.write(pa.table({"row": [row]}), str(folder))
    elif kind == "rename":
        expected = NotFoundError if path not in model.tables else model.expected_for_new(change[2])
        attempt(lambda: namespace.rename_table(path, change[2]), expected)
        if expected is None:
            model.tables[change[2]] = model.tables.pop(path)
    elif kind == "drop":
        expected = None if path in model.tables else NotFoundError
        attempt(lambda: namespace.drop_table(path, purge=change[2]), expected)
        model.tables.pop(path, None)
    else:
        drop_namespace(path, change[2], namespace, model)


def drop_namespace(path: Path_, purge: bool, namespace: DirectoryNamespace, model: Model) -> None:
    inside = [other for other in [*model.tables, *model.namespaces] if len(other) > len(path) and starts(other, path)]
    if path not in model.namespaces:
        attempt(lambda: namespace.drop_namespace(path), NotFoundError)
        return
    if inside:
        attempt(lambda: namespace.drop_namespace(path), NotEmptyError)
    namespace.drop_namespace(path, cascade=True, purge=purge)
    model.namespaces -= {path, *inside}
    for other in inside:
        model.tables.pop(other, None)


def starts(path: Path_, prefix: Path_) -> bool:
    return path[: len(prefix)] == prefix


def children(paths: Any, parent: Path_) -> list[str]:
    return sorted(path[-1] for path in paths if path[:-1] == parent)


@settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(st.lists(CHANGES, min_size=4, max_size=14))
def test_random_changes(changes: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        namespace, model = DirectoryNamespace(root), Model()
        for change in changes:
            apply(change, namespace, model)
            for parent in [(), *model.namespaces]:
                assert namespace.list_namespaces(parent) == children(model.namespaces, parent)
                assert namespace.list_tables(parent) == children(model.tables, parent)
        for path, row in model.tables.items():
            uri = namespace.table_location(path).uri
            assert lance_spark.open(uri).to_table()["row"].to_pylist() == [row]
        namespace.register_listed_tables()
        reference = ReferenceNamespace(root=root, dir_listing_enabled="false")
        for parent in [(), *model.namespaces]:
            ask = {"id": list(parent)}
            assert sorted(reference.list_namespaces(spec.ListNamespacesRequest(**ask)).namespaces) == children(
                model.namespaces, parent
            )
            assert sorted(reference.list_tables(spec.ListTablesRequest(**ask)).tables) == children(model.tables, parent)
        for path in model.tables:
            found = reference.describe_table(spec.DescribeTableRequest(id=list(path), check_declared=True))
            assert found.is_only_declared is False
