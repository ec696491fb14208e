"""Statements of several threads and sessions on one table: each version is the effect of one of them on the one before.

So the outcome is that of the statements that succeeded, one after the other in the order of their versions. Nothing is
said about which of them succeed. Other orders: LANCE_SEED, more of them: LANCE_HISTORIES.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import lance
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.table import is_partitioned_table, open_partitioned
from tests.support.history_seeds import seeds
from tests.support.threads import all_at_once

Row = tuple[int, int, str]
Rows = dict[int, Row]
"""k, v and w by id; the k of a row with an id below `KEYS` is id % 3."""

KEYS = 20
REPLACED = 3
"""The k of rows that only INSERT and INSERT OVERWRITE change: those do not look at what others have changed."""

FIRST: Rows = {key: (key % 3, 0, "first") for key in range(KEYS)}
"""The rows that are there first."""

THREADS = 3
STATEMENTS = 4


@dataclass(frozen=True)
class Statement:
    """A statement, and the rows after it.

    Attributes:
        text: of SQL, with {} for the table, and {version} for the version that all begin with.
        effect: of the rows of the version before, and of those of the version that the statement has read.
    """

    text: str
    effect: Callable[[Rows, Rows], Rows]


def values(rows: Rows) -> str:
    return ", ".join(f"({key}L, {k}, {v}L, '{w}')" for key, (k, v, w) in rows.items())


def insert(draw: random.Random, number: int, partitioned: bool) -> Statement:
    new: Rows = {1000 + number * 10 + n: (draw.randrange(REPLACED + 1), 0, f"i{number}") for n in range(3)}
    return Statement(f"INSERT INTO {{}} VALUES {values(new)}", lambda before, _: before | new)


def update(draw: random.Random, number: int, partitioned: bool) -> Statement:
    rest = draw.randrange(3)
    return Statement(
        f"UPDATE {{}} SET v = v + 1, w = 'u{number}' WHERE k < {REPLACED} AND id % 3 = {rest}",
        lambda before, _: {
            key: (k, v + 1, f"u{number}") if k < REPLACED and key % 3 == rest else (k, v, w)
            for key, (k, v, w) in before.items()
        },
    )


def delete(draw: random.Random, number: int, partitioned: bool) -> Statement:
    """Of the row with the greatest id: that depends on all others."""

    def effect(before: Rows, _: Rows) -> Rows:
        greatest = max((key for key, (k, _, _) in before.items() if k < REPLACED), default=None)
        return {key: row for key, row in before.items() if key != greatest}

    return Statement(f"DELETE FROM {{0}} WHERE id = (SELECT max(id) FROM {{0}} WHERE k < {REPLACED})", effect)


def merge(draw: random.Random, number: int, partitioned: bool) -> Statement:
    """Of keys that others merge too: no key may be there twice, no addition be lost."""
    first = draw.randrange(KEYS)
    source: Rows = {key: (key % 3, 1, f"m{number}") for key in range(first, first + 6)}

    def effect(before: Rows, _: Rows) -> Rows:
        matched = {key: (k, before[key][1] + v, w) for key, (k, v, w) in source.items() if key in before}
        return before | source | matched

    return Statement(
        f"MERGE INTO {{}} t USING (SELECT * FROM VALUES {values(source)} AS s(id, k, v, w)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = t.v + s.v, w = s.w WHEN NOT MATCHED THEN INSERT *",
        effect,
    )


def overwrite(draw: random.Random, number: int, partitioned: bool) -> Statement:
    """Removes the rows that are there when it reads; those that are added meanwhile may stay, as if added later."""
    new: Rows = {1000 + number * 10: (REPLACED, 0, f"o{number}")}

    def effect(before: Rows, read: Rows) -> Rows:
        replaced = {key for key, (k, _, _) in read.items() if k == REPLACED}
        return {key: row for key, row in before.items() if key not in replaced} | new

    if partitioned:
        rows = f"VALUES ({1000 + number * 10}L, 0L, 'o{number}')"
        return Statement(f"INSERT OVERWRITE {{}} PARTITION (k = {REPLACED}) {rows}", effect)
    return Statement(f"INSERT INTO {{}} REPLACE WHERE k = {REPLACED} VALUES {values(new)}", effect)


def overwrite_all(draw: random.Random, number: int, partitioned: bool) -> Statement:
    new: Rows = {key: (key % 3, 0, f"a{number}") for key in range(KEYS - 5)}
    return Statement(f"INSERT OVERWRITE {{}} VALUES {values(new)}", lambda before, _: new)


def restore(draw: random.Random, number: int, partitioned: bool) -> Statement:
    """To the version that all threads begin with."""
    return Statement("RESTORE {} TO VERSION {version}", lambda before, _: dict(FIRST))


def optimize(draw: random.Random, number: int, partitioned: bool) -> Statement:
    return Statement("OPTIMIZE {}", lambda before, _: before)


def index(draw: random.Random, number: int, partitioned: bool) -> Statement:
    over = draw.choice(["btree (id)", "bitmap (k)", "zonemap (v)"])
    return Statement(f"ALTER TABLE {{}} CREATE INDEX by_{number} USING {over}", lambda before, _: before)


KINDS = (insert, update, delete, merge, merge, overwrite, overwrite_all, restore, optimize, index)


def states(uri: str, first: int) -> list[Rows]:
    """The rows of all versions from `first` on; no id is there twice."""
    found = []
    partitioned = is_partitioned_table(uri)
    newest = (open_partitioned(uri) if partitioned else lance_spark.open(uri)).version
    for version in range(first, newest + 1):
        table = open_partitioned(uri, version=version) if partitioned else lance_spark.open(uri, version=version)
        listed = table.to_table(["id", "k", "v", "w"]).to_pylist()
        rows = {row["id"]: (row["k"], row["v"], row["w"]) for row in listed}
        assert len(rows) == len(listed), f"version {version} has an id twice"
        found.append(rows)
    return found


def check_order(seen: Sequence[Rows], succeeded: Sequence[Statement]) -> None:
    """Each version is the effect of another statement on the version before, and no other statement has an effect."""
    left = list(succeeded)
    for number in range(1, len(seen)):
        before, now = seen[number - 1], seen[number]
        if before != now:
            makes_it = [s for s in left if any(s.effect(before, read) == now for read in seen[:number])]
            assert makes_it, f"no statement makes {now} of {before}"
            left.remove(makes_it[0])
    for statement in left:
        assert any(statement.effect(rows, rows) == rows for rows in seen), f"{statement.text} has changed nothing"


@pytest.mark.parametrize("partitions", ["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("seed", seeds(1, one_of=10))
def test_versions_are_those_of_a_serial_order(spark: SparkSession, root: str, partitions: str, seed: int) -> None:
    draw, name = random.Random(seed), f"serial_{seed}{'_parts' if partitions else ''}"
    stable_row_ids = draw.choice(["true", "false"])
    spark.sql(
        f"CREATE TABLE lance.{name} (id BIGINT, k INT, v BIGINT, w STRING) {partitions} "
        f"TBLPROPERTIES ('enable_stable_row_ids' = '{stable_row_ids}')"
    )
    spark.sql(f"INSERT INTO lance.{name} SELECT id, CAST(id % 3 AS INT), 0L, 'first' FROM range(0, {KEYS}, 1, 1)")
    uri = DirectoryNamespace(root).table_location((name,)).uri
    first = (open_partitioned(uri) if partitions else lance_spark.open(uri)).version
    sessions = [spark, spark.newSession(), spark.newSession()]
    planned = [draw.choice(KINDS)(draw, number, bool(partitions)) for number in range(THREADS * STATEMENTS)]

    def run(thread: int) -> list[Statement]:
        succeeded = []
        for statement in planned[thread::THREADS]:
            try:
                sessions[thread].sql(statement.text.format(f"lance.{name}", version=first)).collect()
                succeeded.append(statement)
            except PySparkException as error:
                # Others were always first.
                if error.getCondition() != "LANCE_COMMIT_CONFLICT":
                    raise
        return succeeded

    succeeded = [statement for some in all_at_once(run, THREADS) for statement in some]
    seen = states(uri, first)
    check_order(seen, succeeded)
    rows = sorted((key, *row) for key, row in seen[-1].items())
    assert sorted(map(tuple, spark.table(f"lance.{name}").collect())) == rows
    if not partitions:
        found = lance.dataset(uri).to_table().to_pylist()
        assert sorted((row["id"], row["k"], row["v"], row["w"]) for row in found) == rows
    # By the indexes that were created meanwhile.
    keys = {*seen[0], 1000}
    looked_up = spark.sql(f"SELECT id FROM lance.{name} WHERE id IN ({', '.join(map(str, keys))})")
    assert sorted(row.id for row in looked_up.collect()) == [key for key, *_ in rows if key in keys]
    spark.sql(f"DROP TABLE lance.{name} PURGE")
