"""Several writers of one catalog: one wins a name, and nobody's rows are lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import lance_namespace as spec
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    LanceError,
    NotEmptyError,
    NotFoundError,
)
from lance_spark.namespace.directory.catalog_rows import NAMESPACE, CatalogEntry, CatalogRows
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.storage import open_store
from lance_spark.table.commits.commit import RetryPolicy


def run(*works: Callable[[], None]) -> list[Exception]:
    """Runs all at once; what they raised."""
    raised: list[Exception] = []
    start = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except Exception as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def rival_first(rival: Callable[[], None], entry: CatalogEntry) -> Callable[[CatalogRows], CatalogRows]:
    """An edit that adds `entry`; between its first call and the commit the rival commits."""
    calls = []

    def edit(rows: CatalogRows) -> CatalogRows:
        calls.append(len(rows.table))
        if len(calls) == 1:
            rival()
        if rows.find(entry.object_id) is not None:
            raise AlreadyExistsError(entry.object_id)
        return rows.added([entry])

    return edit


@pytest.mark.parametrize("first", [True, False], ids=["no catalog yet", "a catalog"])
def test_the_loser_of_a_name_learns_of_it(root: str, first: bool) -> None:
    namespace = DirectoryNamespace(root)
    if not first:
        namespace.create_namespace(("before",))
    edit = rival_first(lambda: namespace.create_namespace(("n",), {"by": "rival"}), CatalogEntry("n", NAMESPACE))
    with pytest.raises(AlreadyExistsError):
        CatalogTable(root).change(edit)
    assert namespace.namespace_properties(("n",)) == {"by": "rival"}


@pytest.mark.parametrize("first", [True, False], ids=["no catalog yet", "a catalog"])
def test_a_row_for_another_name_is_added_after_the_rivals(root: str, first: bool) -> None:
    namespace = DirectoryNamespace(root)
    if not first:
        namespace.create_namespace(("before",))
    CatalogTable(root).change(rival_first(lambda: namespace.create_namespace(("m",)), CatalogEntry("n", NAMESPACE)))
    assert namespace.list_namespaces() == sorted({"m", "n", *([] if first else ["before"])})
    left = list(open_store(f"{root}/__manifest").list("data"))
    assert len(left) == lance_spark.open(f"{root}/__manifest").version


def test_a_rival_that_only_changes_properties_counts_too(root: str) -> None:
    namespace = DirectoryNamespace(root)
    namespace.create_namespace(("before",))
    rival = rival_first(lambda: namespace.set_namespace_properties((), {"k": "v"}), CatalogEntry("n", NAMESPACE))
    CatalogTable(root).change(rival)
    assert namespace.namespace_properties(()) == {"k": "v"}
    assert namespace.list_namespaces() == ["before", "n"]


def test_writers_give_up_in_the_end(root: str) -> None:
    namespace = DirectoryNamespace(root)
    names = iter("abcdefgh")

    def edit(rows: CatalogRows) -> CatalogRows:
        namespace.create_namespace((next(names),))
        return rows.added([CatalogEntry("mine", NAMESPACE)])

    with pytest.raises(CommitConflictError):
        CatalogTable(root, policy=RetryPolicy(max_attempts=3, sleep=lambda _: None)).change(edit)
    assert namespace.list_namespaces() == ["a", "b", "c"]
    assert len(list(open_store(f"{root}/__manifest").list("data"))) == 3


def test_one_of_many_makes_a_table(root: str) -> None:
    made: list[str] = []

    def declare() -> None:
        made.append(DirectoryNamespace(root).declare_table(("t",)).uri)

    raised = run(*[declare] * 6)
    assert len(made) == 1
    assert [type(error) for error in raised] == [AlreadyExistsError] * 5
    namespace = DirectoryNamespace(root)
    assert namespace.list_tables() == ["t"]
    assert namespace.table_location(("t",)).uri == made[0]
    assert lance_spark.open(f"{root}/__manifest").count_rows() == 1


def test_one_of_many_makes_a_nested_table_and_the_others_leave_nothing(root: str) -> None:
    DirectoryNamespace(root).create_namespace(("n",))
    made: list[str] = []

    def declare() -> None:
        made.append(DirectoryNamespace(root).declare_table(("n", "t")).uri)

    raised = run(*[declare] * 5)
    assert [type(error) for error in raised] == [AlreadyExistsError] * 4
    files = {entry.path for entry in open_store(root).list("", recursive=True)}
    directories = {path.partition("/")[0] for path in files}
    assert directories == {"__manifest", made[0].rpartition("/")[2]}


@pytest.mark.slow
def test_many_make_tables_of_many_names(root: str) -> None:
    DirectoryNamespace(root).create_namespace(("n",))

    def worker(number: int) -> Callable[[], None]:
        def work() -> None:
            for turn in range(3):
                DirectoryNamespace(root).declare_table(("n", f"{number}-{turn}"))

        return work

    assert run(*[worker(number) for number in range(4)]) == []
    expected = sorted(f"{number}-{turn}" for number in range(4) for turn in range(3))
    assert DirectoryNamespace(root).list_tables(("n",)) == expected


def test_a_table_is_dropped_or_renamed_once(root: str) -> None:
    namespace = DirectoryNamespace(root)
    for turn in range(3):
        namespace.declare_table((f"t{turn}",))
        raised = run(
            lambda turn=turn: DirectoryNamespace(root).drop_table((f"t{turn}",), purge=False),  # type: ignore[misc]
            lambda turn=turn: DirectoryNamespace(root).rename_table((f"t{turn}",), (f"u{turn}",)),  # type: ignore[misc]
        )
        assert [type(error) for error in raised] == [NotFoundError]
        assert namespace.list_tables() in ([], [f"u{turn}"])
        for name in namespace.list_tables():
            namespace.drop_table((name,), purge=True)


def test_no_table_outlives_its_namespace(root: str) -> None:
    namespace = DirectoryNamespace(root)
    for _ in range(4):
        namespace.create_namespace(("n",))
        raised = run(
            lambda: DirectoryNamespace(root).drop_namespace(("n",)),
            lambda: DirectoryNamespace(root).declare_table(("n", "t")),  # type: ignore[arg-type, return-value]
        )
        assert [type(error) for error in raised] in ([NotFoundError], [NotEmptyError])
        if namespace.namespace_exists(("n",)):
            assert namespace.list_tables(("n",)) == ["t"]
            namespace.drop_namespace(("n",), cascade=True, purge=True)
        assert lance_spark.open(f"{root}/__manifest").count_rows() == 0


def test_pylance_as_the_other_writer(tmp_path: Path) -> None:
    root = str(tmp_path)
    # The reference library makes a catalog that it has not seen by an overwrite, which empties one made meanwhile.
    DirectoryNamespace(root).create_namespace(("first",))
    winners: list[str] = []

    def ours(number: int) -> Callable[[], None]:
        def work() -> None:
            namespace = DirectoryNamespace(root)
            for turn in range(3):
                namespace.create_namespace((f"ours-{number}-{turn}",))
            try:
                namespace.create_namespace(("one",))
                winners.append("ours")
            except AlreadyExistsError:
                return

        return work

    def theirs(number: int) -> Callable[[], None]:
        def work() -> None:
            namespace = ReferenceNamespace(root=root)
            for turn in range(3):
                namespace.create_namespace(spec.CreateNamespaceRequest(id=[f"theirs-{number}-{turn}"]))
            try:
                namespace.create_namespace(spec.CreateNamespaceRequest(id=["one"]))
                winners.append("theirs")
            except (spec.errors.NamespaceAlreadyExistsError, spec.errors.ConcurrentModificationError):
                return

        return work

    assert run(*[make(number) for number in range(2) for make in (ours, theirs)]) == []
    names = [f"{whose}-{number}-{turn}" for whose in ("ours", "theirs") for number in range(2) for turn in range(3)]
    assert DirectoryNamespace(root).list_namespaces() == sorted(["first", "one", *names])
    assert lance_spark.open(f"{root}/__manifest").count_rows() == len(names) + 2
    assert len(winners) == 1


def test_errors_are_lance_errors() -> None:
    assert issubclass(AlreadyExistsError, LanceError)
