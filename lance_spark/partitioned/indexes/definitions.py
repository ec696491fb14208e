"""Index definitions of a partitioned table, in the metadata of `__manifest`.

They outlive the partitions that have the indexes: partitions created after the last of these was removed get them too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from lance_spark.errors import LanceError
from lance_spark.index.builders.kinds import builder_named
from lance_spark.index.members import is_member
from lance_spark.partitioned.names import INDEX_PREFIX
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.indexes.definition import IndexDefinition, KnownIndex, field_path
from lance_spark.table.indexes.optimize import definition_over

_log = logging.getLogger(__name__)


def index_key(name: str) -> str:
    """The key of the definition of an index."""
    return INDEX_PREFIX + name


def known_definitions(definitions: Iterable[IndexDefinition]) -> list[KnownIndex]:
    """Indexes with these definitions, for the choice of a name for another one."""
    return [KnownIndex(item.name, item.type_url, (item.field.id,)) for item in definitions]


def properties_of(definitions: Iterable[IndexDefinition]) -> dict[str, str | None]:
    """The metadata with these definitions. Those whose parameters cannot be written, such as arrays, are not kept."""
    return {index_key(definition.name): _encoded(definition) for definition in definitions}


def recorded_definitions(table: PartitionedTable) -> dict[str, IndexDefinition]:
    """The definitions that a table has, by the name of the index, of columns that it still has."""
    found = {}
    for key, text in table.properties.items():
        if key.startswith(INDEX_PREFIX):
            definition = _decoded(table, key[len(INDEX_PREFIX) :], text)
            if definition is not None:
                found[definition.name] = definition
    return found


def _encoded(definition: IndexDefinition) -> str | None:
    builder = definition.builder.untrained()
    content = {
        "field": definition.field.id,
        "kind": builder.index_type.type_name,
        "parameters": dict(builder.parameters),
    }
    try:
        return json.dumps(content)
    except TypeError:
        return None


def _decoded(table: PartitionedTable, name: str, text: str) -> IndexDefinition | None:
    try:
        content = json.loads(text)
        field_id, kind, parameters = content["field"], content["kind"], content["parameters"]
        builder_type = builder_named(str(kind))
        checked = builder_type.checked(parameters)
    except (ValueError, LookupError, TypeError, AttributeError, LanceError) as error:
        _log.warning("the definition of index %s of %s cannot be read: %s", name, table.root, error)
        return None
    path = field_path(table.lance_schema, field_id)
    if not path or not is_member(path, in_lists=builder_type.reaches_into_lists):
        return None
    return definition_over(name, path, builder_type, checked)
