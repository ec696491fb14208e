"""Random statements and queries over nested columns, beside the same rows in Parquet files."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.support.connector.nested_tables import Leaf, NestedTable, random_rows
from tests.support.history_seeds import seeds

STEPS = 4
KINDS = ["rows", "everything", "unnested", "groups", "joins", "ordered", "subqueries"]
PARTITIONINGS = ["", "", "PARTITIONED BY (k)", "PARTITIONED BY (bucket(3, id))"]
SETTINGS = {
    "spark.sql.lance.inlineBytes": ("0", "1048576"),
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.autoBroadcastJoinThreshold": ("10485760", "-1"),
    "spark.sql.ansi.enabled": ("true", "true", "false"),
    "spark.sql.parquet.filterPushdown": ("false",),
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, whose settings are afterwards as they were."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def as_text(value: object) -> str:
    """A value as text; pairs of maps are in the order of their keys, as Python keeps no other one for Spark."""
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{as_text(key)}: {as_text(item)}' for key, item in value.items()))}}}"
    if isinstance(value, Row):
        names = getattr(value, "__fields__", range(len(value)))
        return f"({', '.join(f'{name}={as_text(item)}' for name, item in zip(names, value, strict=True))})"
    return f"[{', '.join(map(as_text, value))}]" if isinstance(value, list) else repr(value)


class Beside:
    """A table, and its rows as they should be, in Parquet files."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, draw: random.Random) -> None:
        self.spark, self.name, self._folder, self._draw = spark, name, folder, draw
        self.model = NestedTable(draw)
        self._version = 0
        self.done: list[str] = []
        columns = ", ".join(f"{name} {of.sql}" for name, of in self.model.columns.members)
        stable = draw.choice(["true", "false"])
        self._run(
            f"CREATE TABLE {{table}} ({columns}) {draw.choice(PARTITIONINGS)} "
            f"TBLPROPERTIES ('enable_stable_row_ids' = '{stable}')"
        )
        self.source()
        self._keep(random_rows(draw, self.model.columns, range(150)))
        for part in range(3):
            self._run(f"INSERT INTO {{table}} SELECT * FROM expected WHERE id % 3 = {part}")

    def _run(self, text: str) -> None:
        self.done.append(text)
        self.spark.sql(text.format(table=self.name, rows=self.name)).collect()

    def _keep(self, rows: list[dict[str, object]], view: str = "expected") -> None:
        """Makes the view of these rows."""
        schema = ", ".join(f"{name} {of.sql}" for name, of in self.model.columns.members)
        self._write(view, self.spark.createDataFrame([tuple(row.values()) for row in rows], schema))

    def _write(self, view: str, frame: object) -> None:
        self._version += 1
        path = str(self._folder / f"{view}{self._version}")
        frame.coalesce(1).write.parquet(path)  # type: ignore[attr-defined]
        self.spark.read.parquet(path).createOrReplaceTempView(view)

    def source(self) -> None:
        """Other rows for the view `source`, some with the ids of the table."""
        self._keep(random_rows(self._draw, self.model.columns, range(120, 180)), "source")

    def change(self) -> None:
        """Runs a random statement in the table, and makes the rows that it should leave."""
        draw, model = self._draw, self.model
        if (choice := draw.random()) < 0.2:
            text, of_row = model.alter()
            self._run(text)
            rows = [of_row(row) for row in self.spark.table("expected").collect()]
            self._keep(rows)  # type: ignore[arg-type]
            self.source()
        elif choice < 0.4:
            self._maintain()
        else:
            kind = draw.choice(["delete", "update", "update", "merge", "merge", "insert"])
            text, after = getattr(model, kind)()
            self.spark.table("expected").createOrReplaceTempView("before")
            frame = self.spark.sql(after.format(rows="before"))
            self._run(text)
            self._write("expected", frame)

    def _maintain(self) -> None:
        leaves = [text[2:] for text, of in self.model.paths("t.") if isinstance(of, Leaf) and of.sql != "BOOLEAN"]
        kind = self._draw.choice(["btree", "bitmap", "zonemap"])
        number = self._draw.randrange(10**6)
        text = self._draw.choice(
            [
                "OPTIMIZE {table} WITH (target_rows_per_fragment = 100)",
                f"ALTER TABLE {{table}} CREATE INDEX i{number} USING {kind} ({self._draw.choice(leaves)})",
                f"ALTER TABLE {{table}} CREATE INDEX i{number} USING {kind} ({self._draw.choice(leaves)})",
            ]
        )
        self._run(text)

    def check(self, kind: str) -> None:
        """Compares the rows of a random query."""
        settings = {name: self._draw.choice(values) for name, values in SETTINGS.items()}
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        self._compare(getattr(self.model, kind)())

    def all_rows(self) -> None:
        """Compares all rows."""
        self._compare("SELECT * FROM {rows}")

    def _compare(self, query: str) -> None:
        self.done.append(query)
        found, expected = self._answer(query, self.name), self._answer(query, "expected")
        assert found == expected, f"only here {found - expected}\nmissing {expected - found}"

    def _answer(self, query: str, rows: str) -> Counter[str]:
        return Counter(as_text(row) for row in self.spark.sql(query.format(rows=rows)).collect())


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, one_of=20))
def test_rows_are_those_of_parquet(session: SparkSession, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    beside = Beside(session, tmp_path, f"lance.nested_{seed}", draw)
    try:
        for _ in range(STEPS):
            beside.change()
            beside.all_rows()
            for kind in draw.sample(KINDS, 4):
                beside.check(kind)
    except Exception as error:
        raise AssertionError("\n".join(beside.done)) from error
