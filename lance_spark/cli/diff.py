"""`diff`: what differs between two versions of a table, from manifests alone."""

from __future__ import annotations

from typing import Any

from lance_spark.cli.inspect import describe_field
from lance_spark.cli.opening import CommandTarget
from lance_spark.cli.output import TreeNode
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.dataset import Dataset


def describe_diff(a: CommandTarget, b: CommandTarget) -> dict[str, Any]:
    """Differences between versions a and b in schema, fragments, row counts; keys as in docs/reference/command-line.md.

    Raises:
        UnsupportedFeatureError: the table is partitioned.
    """
    if a.partitioned is not None or b.partitioned is not None:
        raise UnsupportedFeatureError("diff does not compare partitioned tables; compare a partition's own table")
    return {
        "uri": a.uri,
        "from": a.version,
        "to": b.version,
        "schema": _schema_changes(a.dataset, b.dataset),
        "fragments": _fragment_changes(a.dataset, b.dataset),
        "rows": {"from": _rows(a.dataset), "to": _rows(b.dataset)},
    }


def _schema_changes(a: Dataset, b: Dataset) -> dict[str, Any]:
    before = {field.id: describe_field(field) for field in a.lance_schema.walk()}
    after = {field.id: describe_field(field) for field in b.lance_schema.walk()}
    common = [key for key in before if key in after and before[key] != after[key]]
    return {
        "added": [after[key] for key in after if key not in before],
        "removed": [before[key] for key in before if key not in after],
        "changed": [{"from": before[key], "to": after[key]} for key in common],
    }


def _fragment_changes(a: Dataset, b: Dataset) -> dict[str, Any]:
    before = {message.id: message for message in a.fragments.messages}
    after = {message.id: message for message in b.fragments.messages}
    return {
        "added": [key for key in after if key not in before],
        "removed": [key for key in before if key not in after],
        "changed": [key for key in before if key in after and before[key] != after[key]],
    }


def _rows(dataset: Dataset) -> int | None:
    counts = dataset.fragments.row_counts()
    recorded = [count for count in counts if count is not None]
    return sum(recorded) if len(recorded) == len(counts) else None


def diff_tree(document: dict[str, Any]) -> TreeNode:
    """The tree that is printed."""
    root = TreeNode(f"{document['uri']}: version {document['from']} to {document['to']}")
    rows = document["rows"]
    root.add(f"rows: {_shown(rows['from'])} to {_shown(rows['to'])}")
    schema = root.add("schema")
    for change in ("added", "removed"):
        for field in document["schema"][change]:
            schema.add(f"{change}: {field['name']}: {field['type']} (id {field['id']})")
    for pair in document["schema"]["changed"]:
        old, new = pair["from"], pair["to"]
        differing = ", ".join(f"{key} {old[key]} to {new[key]}" for key in old if old[key] != new[key])
        schema.add(f"changed: {new['name']} (id {new['id']}): {differing}")
    if not schema.children:
        schema.label = "schema: unchanged"
    fragments = root.add("fragments")
    for change, ids in document["fragments"].items():
        more = f" and {len(ids) - 20} more" if len(ids) > 20 else ""
        fragments.add(f"{change}: {len(ids)}" + (f" ({', '.join(map(str, ids[:20]))}{more})" if ids else ""))
    return root


def _shown(count: int | None) -> str:
    return "not recorded" if count is None else str(count)
