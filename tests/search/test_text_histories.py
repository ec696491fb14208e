"""Random histories of tables with a text index: whatever both libraries did, searches find the present texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_spark.index.text.queries import MatchQuery, PhraseQuery, TextQuery
from tests.search.comparisons import TEXT, WORDS, Queries, scores, texts
from tests.support.history_seeds import seeds
from tests.support.two_library_history import TwoLibraryHistory

STEPS = ("append", "delete", "update", "other_column", "merge", "restore", "compact", "optimize", "rebuild")


class History(TwoLibraryHistory[str | None]):
    """A table with a text index, and the texts that its rows must have."""

    appended, merged, target_rows, indices_to_merge = 60, 30, 200, (0, 1, 9)

    def values(self, count: int) -> tuple[list[str | None], pa.Array, str]:
        new = texts(count, int(self.random.integers(1 << 30)))
        return new, pa.array(new, pa.string()), TEXT

    def update(self, table: Any) -> None:
        rest, text = int(self.random.integers(13)), " ".join(self.random.choice(WORDS, 4))
        table.update({TEXT: f"'{text}'"}, f"id % 13 = {rest}")
        self.rows.update((id_, text) for id_ in self.rows if id_ % 13 == rest)

    def rebuild(self, table: Any) -> None:
        options = {"with_position": True, "replace": True, "stem": False, "remove_stop_words": False}
        table.create_scalar_index(TEXT, "INVERTED", name="words", **options)

    def check(self) -> None:
        """Passes if searches and filters find the rows that have the words, and score them as a scan does."""
        dataset = self.ours
        assert dict(zip(*dataset.to_table(["id", TEXT]).to_pydict().values(), strict=True)) == self.rows
        queries = Queries(int(self.random.integers(1 << 30)))
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


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("seed", seeds(2))
def test_random_history_finds_the_present_texts(
    tmp_path: Path, seed: int, stable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(str(tmp_path / "t"), 2 * seed + stable, stable=stable)
    history.begin(300, 100)
    for step in history.random.choice(STEPS, 7):
        history.step(str(step))
        try:
            history.check()
        except AssertionError as error:
            raise AssertionError(f"after {history.steps}") from error
    unused = [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()]
    # With stable row ids the reference library merges the old texts of updated rows into its segments too.
    assert not [text for text in unused if not (stable and "a row has several documents" in text)]
