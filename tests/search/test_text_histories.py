"""Random histories of tables with a text index: whatever both libraries did, searches find the present texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.index.text.queries import MatchQuery, PhraseQuery, TextQuery
from tests.search.comparisons import TEXT, WORDS, Queries, scores, texts
from tests.support.history_seeds import seeds

STEPS = ("append", "delete", "update", "other_column", "merge", "restore", "compact", "optimize", "rebuild")


class History:
    """A table that two libraries change by turns, and the texts that its rows must have."""

    def __init__(self, uri: str, seed: int, *, stable: bool) -> None:
        self.uri, self.seed, self.stable = uri, seed, stable
        self.random = np.random.default_rng(seed)
        self.rows: dict[int, str | None] = {}
        self.next_id = 0
        self.steps: list[str] = []
        self._known: dict[int, dict[int, str | None]] = {}
        lance.write_dataset(self._new(300), uri, max_rows_per_file=100, enable_stable_row_ids=stable)
        self.rebuild(self._theirs)
        self._remember()

    @property
    def _ours(self) -> Any:
        return lance_spark.open(self.uri)

    @property
    def _theirs(self) -> Any:
        return lance.dataset(self.uri)

    def _remember(self) -> None:
        self._known[self._ours.version] = dict(self.rows)

    def _new(self, count: int, ids: list[int] | None = None) -> pa.Table:
        """Rows that count as rows of the table from now on."""
        if ids is None:
            ids = list(range(self.next_id, self.next_id + count))
            self.next_id += count
        new = texts(count, int(self.random.integers(1 << 30)))
        self.rows.update(zip(ids, new, strict=True))
        columns = {"id": pa.array(ids, pa.int64()), TEXT: pa.array(new, pa.string()), "n": pa.array([0] * count)}
        return pa.table(columns)

    def step(self, name: str) -> None:
        """Makes one change, by a library that is chosen at random."""
        table = self._ours if self.random.random() < 0.5 else self._theirs
        self.steps.append(f"{name} by {type(table).__name__}")
        getattr(self, name)(table)
        self._remember()

    def append(self, table: Any) -> None:
        if isinstance(table, lance.LanceDataset):
            lance.write_dataset(self._new(60), self.uri, mode="append")
        else:
            lance_spark.write(self._new(60), self.uri, mode="append")

    def delete(self, table: Any) -> None:
        rest = int(self.random.integers(11))
        table.delete(f"id % 11 = {rest}")
        self.rows = {id_: text for id_, text in self.rows.items() if id_ % 11 != rest}

    def update(self, table: Any) -> None:
        rest, text = int(self.random.integers(13)), " ".join(self.random.choice(WORDS, 4))
        table.update({TEXT: f"'{text}'"}, f"id % 13 = {rest}")
        self.rows.update((id_, text) for id_ in self.rows if id_ % 13 == rest)

    def other_column(self, table: Any) -> None:
        table.update({"n": "n + 1"}, f"id % 7 = {self.random.integers(7)}")

    def merge(self, table: Any) -> None:
        known = self.random.choice(list(self.rows), 30, replace=False).tolist()
        new = self._new(30, known)
        if isinstance(table, lance.LanceDataset):
            table.merge_insert("id").when_matched_update_all().execute(new)
        else:
            table.merge(new, "id")

    def restore(self, table: Any) -> None:
        version = int(self.random.choice(list(self._known)[-3:]))
        if isinstance(table, lance.LanceDataset):
            lance.dataset(self.uri, version=version).restore()  # type: ignore[no-untyped-call]
        else:
            table.restore(version)
        self.rows = dict(self._known[version])

    def compact(self, table: Any) -> None:
        defer = not self.stable and bool(self.random.random() < 0.5)
        self.steps[-1] += ", deferred" if defer else ""
        if isinstance(table, lance.LanceDataset):
            table.optimize.compact_files(target_rows_per_fragment=200, defer_index_remap=defer)
        else:
            table.compact(target_rows_per_fragment=200, defer_index_remap=defer)

    def optimize(self, table: Any) -> None:
        count = int(self.random.choice([0, 1, 9]))
        if isinstance(table, lance.LanceDataset):
            table.optimize.optimize_indices(num_indices_to_merge=count)
        else:
            table.optimize_indices(num_indices_to_merge=count)

    def rebuild(self, table: Any) -> None:
        options = {"with_position": True, "replace": True, "stem": False, "remove_stop_words": False}
        table.create_scalar_index(TEXT, "INVERTED", name="words", **options)

    def check(self) -> None:
        """Passes if searches and filters find the rows that have the words, and score them as a scan does."""
        dataset = self._ours
        assert dict(zip(*dataset.to_table(["id", TEXT]).to_pydict().values(), strict=True)) == self.rows
        queries = Queries(self.seed + len(self.steps))
        for number in range(6):
            words = queries.words(1 + number % 3)
            for operator, rows in (("OR", self._with_any(words)), ("AND", self._with_all(words))):
                query = MatchQuery(words, TEXT, operator=operator)
                assert set(scores(dataset.search(query, columns=["id"]))) == rows, query
            found = dataset.to_table(["id"], f"lance_match({TEXT}, '{words}') and id % 2 = 0")["id"].to_pylist()
            assert sorted(found) == sorted(id_ for id_ in self._with_any(words) if id_ % 2 == 0), words
            phrase = PhraseQuery(" ".join(words.split()[:2]), TEXT)
            assert set(scores(dataset.search(phrase, columns=["id"]))) == self._with_phrase(phrase.query), phrase
        # At most `max_expansions` terms count, and an index still has those of deleted rows: enough to leave none out.
        fuzzy = MatchQuery(queries.words(2), TEXT, operator="AND", fuzziness=1, max_expansions=1000)
        others: list[TextQuery] = [query for _, query in queries.all(1, fuzzy=False)]
        for other in [fuzzy, *others]:
            by_index = set(scores(dataset.search(other, columns=["id"])))
            assert by_index == set(scores(dataset.search(other, columns=["id"], use_index=False))), other

    def _with_any(self, words: str) -> set[int]:
        wanted = set(words.split())
        return {id_ for id_, text in self.rows.items() if text and wanted & set(text.split())}

    def _with_all(self, words: str) -> set[int]:
        wanted = set(words.split())
        return {id_ for id_, text in self.rows.items() if text and wanted <= set(text.split())}

    def _with_phrase(self, words: str) -> set[int]:
        return {id_ for id_, text in self.rows.items() if text and f" {words} " in f" {text} "}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("seed", seeds(2))
def test_random_history_finds_the_present_texts(
    tmp_path: Path, seed: int, stable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(str(tmp_path / "t"), 2 * seed + stable, stable=stable)
    for step in history.random.choice(STEPS, 7):
        history.step(str(step))
        try:
            history.check()
        except AssertionError as error:
            raise AssertionError(f"after {history.steps}") from error
    unused = [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()]
    # With stable row ids the reference library merges the old texts of updated rows into its segments too.
    assert not [text for text in unused if not (stable and "a row has several documents" in text)]
