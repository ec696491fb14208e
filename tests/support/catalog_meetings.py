"""Tables of every kind of catalog between us, pylance and the field's own classes for catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lance
import lance.namespace
import lance_namespace as spec
from lance_namespace_impls.glue import GlueNamespace

from lance_spark.storage.paths import parse_root
from tests.support.catalog_operations import NONE
from tests.support.server_catalogs import Theirs
from tests.support.tried_catalogs import CLASS, ROWS, Tried


@dataclass(frozen=True)
class Field:
    """The field's own class for a kind of catalog, with identifiers as ours."""

    name: str
    names: Any

    def ask(self, operation: str, *path: str, **fields: Any) -> Any:
        if isinstance(self.names, Theirs):
            return self.names.ask(operation, *path, **fields)
        request = getattr(spec, f"{''.join(word.title() for word in operation.split('_'))}Request")
        return getattr(self.names, operation)(request(id=list(path), **fields))


def field_of(tried: Tried) -> Field | None:
    """The field's class; None for Hive, whose class needs a release of Thrift that others exclude."""
    settings = tried.place.settings
    if tried.kind in ("dir", CLASS):
        root = tried.place.root or settings["root"]
        return Field("`lance.namespace.DirectoryNamespace`", lance.namespace.DirectoryNamespace(root=root))
    if tried.kind == "rest":
        return Field("`lance.namespace.RestNamespace`", lance.namespace.RestNamespace(uri=settings["uri"]))
    if tried.kind == "glue":
        given = {name: value for name, value in settings.items() if name != "root"}
        return Field("`lance_namespace_impls.GlueNamespace`", GlueNamespace(**given))
    if tried.kind.startswith("hive"):
        return None
    theirs = Theirs(tried.kind, settings["endpoint"], settings["root"])
    return Field(f"`lance_namespace_impls.{tried.kind.title()}Namespace`", theirs)


def meetings(tried: Tried) -> dict[str, str]:
    """Reads and writes of one table by another library and by ours; raises if rows differ."""
    place = {"location": str(tried.folder / "lake")} if tried.kind == "glue" else {}
    name, other = tried.database(**place), field_of(tried)
    uri = tried.written(name)
    assert lance.dataset(uri).to_table() == ROWS
    lance.write_dataset(ROWS, uri, mode="append")
    assert tried.catalog.open_table((name, "t")).count_rows() == 6
    cells = {"our table, read and appended to by pylance at its location, read by us": "yes"}
    if other is None:
        return {**cells, "the other client": NONE, "our table, found by it": NONE, "its table, found by us": NONE}
    described = other.ask("describe_table", name, "t").location
    assert parse_root(described.rstrip("/")).location == parse_root(uri.rstrip("/")).location
    where = other.ask("declare_table", name, "theirs").location
    lance.write_dataset(ROWS, where)
    assert tried.catalog.open_table((name, "theirs")).to_table() == ROWS
    return {**cells, "the other client": other.name, "our table, found by it": "yes", "its table, found by us": "yes"}
