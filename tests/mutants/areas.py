"""Areas of the package whose faults lose, double or invent rows, with the tests that belong to each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Area:
    """Modules that get faults, and the tests that must find them.

    `modules` are globs below `lance_spark`; `tests` are globs of test files below `tests`, cheap ones first;
    `faults` is how many faults a run makes.
    """

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    faults: int = 12

    def module_files(self, tree: Path) -> list[Path]:
        """Return the files of the modules in `tree`. A glob without a file ends the run: the area would shrink."""
        return _files(tree / "lance_spark", self.modules)

    def test_files(self, tree: Path) -> list[Path]:
        """Return the files of the tests in `tree`, in the order of `tests`."""
        return _files(tree / "tests", self.tests)


def _files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    files: list[Path] = []
    for pattern in patterns:
        matches = sorted(path for path in folder.glob(pattern) if path.name != "__init__.py" and path not in files)
        if not matches:
            raise SystemExit(f"no file below {folder} matches {pattern}")
        files += matches
    return files


AREAS = (
    Area(
        "commits",
        ("table/commits/*.py",),
        ("table/commits/test_*.py", "table/test_two_libraries.py", "table/refs/test_*.py"),
    ),
    Area(
        "row changes",
        ("table/row_level/*.py",),
        ("table/row_level/test_*.py", "table_verbs/test_*.py", "table/test_mixed_histories.py"),
        14,
    ),
    Area(
        "rows of fragments",
        ("table/rows/*.py",),
        (
            "table/rows/test_*.py",
            "table/row_level/test_row_changes.py",
            "table/reading/test_scan.py",
            "table/test_histories.py",
        ),
    ),
    Area(
        "index answers",
        (
            "index/answers.py",
            "index/planner.py",
            "index/row_set.py",
            "index/bounds.py",
            "index/spans.py",
            "index/btree*.py",
            "index/bitmap.py",
            "index/zone*.py",
            "index/label_list.py",
            "index/bloom_filter.py",
            "index/ngram.py",
            "index/json_index.py",
        ),
        (
            "index/test_answers.py",
            "index/test_row_set.py",
            "index/test_bounds.py",
            "index/test_spans.py",
            "index/test_exact_indexes.py",
            "index/test_superset_indexes.py",
            "index/test_label_list.py",
            "index/test_json_indexes.py",
            "index/test_index_histories.py",
        ),
        14,
    ),
    Area(
        "index remaps",
        (
            "index/fragment_reuse.py",
            "table/indexes/remap.py",
            "table/indexes/deferred_remap.py",
            "table/indexes/coverage.py",
            "table/indexes/commit.py",
        ),
        (
            "index/test_fragment_reuse.py",
            "index/test_deferred_compaction.py",
            "index/test_coverage_after_operations.py",
            "index/test_index_lifecycle.py",
            "index/test_build_conflicts.py",
        ),
    ),
    Area(
        "filter evaluation",
        (
            "expr/evaluate.py",
            "expr/comparison.py",
            "expr/membership.py",
            "expr/casts.py",
            "expr/arithmetic.py",
            "expr/decimal_expr.py",
            "expr/temporal.py",
            "expr/functions/*.py",
        ),
        ("expr/test_*.py",),
        14,
    ),
    Area(
        "pruning",
        ("expr/prune.py",),
        ("expr/test_prune.py", "table/reading/test_scan.py"),
        10,
    ),
    Area("partition values", ("partitioned/values/*.py",), ("partitioned/test_*.py",), 14),
    Area(
        "push-down",
        ("spark/connector/scan/*.py",),
        (
            "**/test_one_planner.py",
            "connector/**/test_filters.py",
            "connector/**/test_random_queries.py",
            "connector/**/test_aggregates.py",
            "connector/**/test_top_n.py",
            "connector/**/test_inline_rows.py",
            "connector/**/test_spj.py",
            "connector/**/test_join_filters.py",
            "connector/**/test_changes.py",
        ),
        14,
    ),
    Area(
        "connector's writes",
        ("spark/connector/write/*.py",),
        (
            "connector/**/test_delete.py",
            "connector/**/test_update.py",
            "connector/**/test_merge.py",
            "connector/**/test_merge_keys.py",
            "connector/**/test_writes.py",
            "connector/**/test_replace_where.py",
            "connector/**/test_overwrite_mode.py",
            "connector/**/test_column_updates.py",
            "connector/**/test_random_statements.py",
        ),
    ),
    Area(
        "streams",
        ("spark/streaming/*.py", "spark/connector/streaming/*.py"),
        (
            "table/commits/test_epoch_marks.py",
            "connector/**/test_sink_identity.py",
            "connector/**/test_streaming_sink.py",
            "connector/**/test_streaming_source.py",
            "connector/**/test_streaming_statements.py",
            "connector/**/test_streaming_upserts.py",
            "connector/**/test_streaming_later_columns.py",
            "connector/**/test_streaming_changed_columns.py",
        ),
        14,
    ),
)
