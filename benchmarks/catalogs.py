"""Names in a directory catalog beside the reference's: listings, looking up a name, and new names by several writers.

    python -m benchmarks.catalogs [--tables 10000] [--rounds 5]

Both sides work on catalogs of the same names, in turns; medians of all rounds. New names: writers are processes of
their own that declare tables in one namespace at the same time, so that they conflict. Run it with nothing else
running.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from lance_spark.namespace.directory.catalog_rows import CatalogEntry
from lance_spark.namespace.directory.namespace import DirectoryNamespace

WRITERS, NAMES_EACH = 4, 10


def made(root: Path, tables: int) -> None:
    """A catalog with so many names, and no tables."""
    names = DirectoryNamespace(root)
    names.create_namespace(("db",))
    entries = [CatalogEntry(f"db$t{number}", "table", f"{number:08x}_db$t{number}") for number in range(tables)]
    names._require_catalog().change(lambda rows: rows.added(entries))


class Reference:
    """The reference library's directory namespace."""

    def __init__(self, root: str) -> None:
        from lance.namespace import DirectoryNamespace as Theirs

        self._names = Theirs(root=root)

    def list_tables(self) -> int:
        from lance_namespace_urllib3_client.models import ListTablesRequest

        return len(self._names.list_tables(ListTablesRequest(id=["db"])).tables)

    def look_up(self, name: str) -> None:
        from lance_namespace_urllib3_client.models import DescribeTableRequest

        self._names.describe_table(DescribeTableRequest(id=["db", name]))

    def declare(self, name: str) -> None:
        from lance_namespace_urllib3_client.models import DeclareTableRequest

        self._names.declare_table(DeclareTableRequest(id=["db", name]))


class Ours:
    """Our directory namespace."""

    def __init__(self, root: str) -> None:
        self._names = DirectoryNamespace(root)

    def list_tables(self) -> int:
        return len(self._names.list_tables(("db",)))

    def look_up(self, name: str) -> None:
        self._names.table_location(("db", name))

    def declare(self, name: str) -> None:
        self._names.declare_table(("db", name))


SIDES: dict[str, type[Ours] | type[Reference]] = {"ours": Ours, "reference": Reference}


def declares(side: str, root: str, writer: int, begin: float) -> int:
    """One writer's part; returns how many names it made."""
    names, done = SIDES[side](root), 0
    names.look_up("t0")
    time.sleep(max(0.0, begin - time.time()))
    for number in range(NAMES_EACH):
        try:
            names.declare(f"n{begin}_{writer}_{number}")
            done += 1
        except Exception as error:  # noqa: BLE001 - the reference gives up after some conflicts, with a bare error.
            print(f"{side}: {str(error)[:120]}", file=sys.stderr)
    return done


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(WRITERS, get_context("spawn")) as pool:
        for side in SIDES:
            made(Path(folder) / side, given.tables)
        for number in range(given.rounds):
            for side, kind in SIDES.items():
                root = str(Path(folder) / side)
                names = kind(root)
                found.setdefault((side, "list, s"), []).append(seconds(names.list_tables))
                found.setdefault((side, "look up, s"), []).append(
                    seconds(lambda names=names, number=number: names.look_up(f"t{number}"))
                )
                begin = time.time() + 3.0
                parts = [pool.submit(declares, side, root, writer, begin) for writer in range(WRITERS)]
                done = sum(part.result() for part in parts)
                found.setdefault((side, "new names a second"), []).append(done / (time.time() - begin))
                found.setdefault((side, f"of {WRITERS * NAMES_EACH} names, made"), []).append(done)
    for (side, step), values in sorted(found.items(), key=lambda item: item[0][1]):
        print(f"{step:28} {side:10} {statistics.median(values):.4g}")


if __name__ == "__main__":
    main()
