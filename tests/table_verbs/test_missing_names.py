"""Errors for what does not exist: of the classes that the reference library raises for the same call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import pytest

import lance_spark
from lance_spark.errors import LanceError, NotFoundError
from tests.table_verbs.kinds import ROWS, Kind, table_of

Call = Callable[[Any], Any]

EITHER: dict[str, tuple[Call, type[Exception]]] = {
    "columns of a read": (lambda table: table.to_table(columns=["nope"]), ValueError),
    "field of a column that is no struct": (lambda table: table.to_table(columns=["id.nope"]), ValueError),
    "expression of a read": (lambda table: table.to_table(columns={"x": "nope + 1"}), ValueError),
    "filter": (lambda table: table.to_table(filter="nope = 1"), ValueError),
    "order": (lambda table: table.to_table(order_by=["nope"]), ValueError),
    "scanner": (lambda table: table.scanner(columns=["nope"]).to_table(), ValueError),
    "batches": (lambda table: list(table.to_batches(columns=["nope"])), ValueError),
    "head": (lambda table: table.head(1, columns=["nope"]), ValueError),
    "vector search": (lambda table: table.to_table(nearest={"column": "nope", "q": [1.0], "k": 1}), ValueError),
    "text search": (lambda table: table.to_table(full_text_query={"columns": ["nope"], "query": "x"}), ValueError),
    "updated column": (lambda table: table.update({"nope": "1"}), ValueError),
    "value of an update": (lambda table: table.update({"v": "nope"}), ValueError),
    "filter of an update": (lambda table: table.update({"v": "1"}, where="nope = 1"), ValueError),
    "key of a merge": (
        lambda table: table.merge_insert("nope").when_not_matched_insert_all().execute(table_of()),
        ValueError,
    ),
    "dropped column": (lambda table: table.drop_columns(["nope"]), ValueError),
    "column of an index": (lambda table: table.create_scalar_index("nope", "BTREE"), KeyError),
    "column of a vector index": (lambda table: table.create_index("nope", "IVF_FLAT", num_partitions=1), KeyError),
    "index": (lambda table: table.index_statistics("nope"), KeyError),
    "deleted tag": (lambda table: table.tags.delete("nope"), ValueError),
    "changed tag": (lambda table: table.tags.update("nope", 1), ValueError),
    "version of a tag": (lambda table: table.tags.create("new", 99), ValueError),
    "tag of a version": (lambda table: table.tags.get_version("nope"), ValueError),
}
"""Calls on a table of either library, and what the reference raises."""

OURS: dict[str, Call] = {
    # The reference raises OSError or RuntimeError here, or has no such call.
    "version": lambda table: table.checkout_version(99),
    "tag": lambda table: table.checkout_version("nope"),
    "restored version": lambda table: table.restore(99),
    "counted rows": lambda table: table.count_rows("nope = 1"),
    "deleted rows": lambda table: table.delete("nope = 1"),
    "taken column": lambda table: table.take([0], columns=["nope"]),
    "sampled column": lambda table: table.sample(1, columns=["nope"]),
    "changed column": lambda table: table.alter_columns({"path": "nope", "name": "new"}),
    "added column": lambda table: table.add_columns({"new": "nope + 1"}),
    "dropped index": lambda table: table.drop_index("nope"),
    "optimized index": lambda table: table.optimize_indices("nope"),
    "blobs": lambda table: table.take_blobs("nope", indices=[0]),
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lance.write_dataset(table_of(*ROWS), tmp_path_factory.mktemp("missing") / "t")


@pytest.mark.parametrize("name", EITHER)
def test_error_of_either_library(reference: Any, dataset: Any, name: str) -> None:
    call, expected = EITHER[name]
    with pytest.raises(expected):
        call(reference)
    with pytest.raises(expected, match=r"nope|99") as raised:
        call(dataset)
    assert isinstance(raised.value, LanceError)
    assert str(raised.value)[:1] not in "'\""


@pytest.mark.parametrize("name", OURS)
def test_error_is_not_found(dataset: Any, name: str) -> None:
    with pytest.raises(NotFoundError, match=r"nope|99"):
        OURS[name](dataset)


@pytest.mark.parametrize("verb", ["restore", "create_tag", "create_branch", "shallow_clone"])
def test_name_of_a_tag_is_no_number_of_a_version(tmp_path: Path, verb: str) -> None:
    table = lance_spark.write(table_of(*ROWS), tmp_path / "t")
    arguments = {"restore": ("nope",), "shallow_clone": (tmp_path / "clone", "nope")}.get(verb, ("new", "nope"))
    with pytest.raises(lance_spark.InvalidInputError, match="'nope' is not a version; versions are counted from 1"):
        getattr(table, verb)(*arguments)


@pytest.mark.parametrize(
    "named", [{}, {"version": 99}, {"version": "nope"}, {"asof": datetime(2000, 1, 1)}], ids=["table", *"vta"]
)
def test_opened_table(tmp_path: Path, kind: Kind, named: dict[str, Any]) -> None:
    lance.write_dataset(table_of(*ROWS), tmp_path / "t")
    ours = kind.create(*ROWS).uri
    with pytest.raises(ValueError, match=r"not found|not exist|earlier than"):
        lance.dataset(tmp_path / ("t" if named else "none"), **named)
    with pytest.raises(ValueError, match="no ") as raised:
        lance_spark.open(ours if named else f"{ours}-none", **named)
    assert isinstance(raised.value, NotFoundError)


def test_relative_path_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match=rf"no table at data/t \({tmp_path}/data/t\)"):
        lance_spark.open("data/t")
    table = lance_spark.write(table_of(*ROWS), "data/t")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(NotFoundError, match=rf"data/t \({tmp_path}/data/t\) has no version 9"):
        table.checkout_version(9)
