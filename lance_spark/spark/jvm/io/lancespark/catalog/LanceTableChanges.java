package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Constraints;
import io.lancespark.python.Json;
import io.lancespark.table.Identifiers;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Spark's table changes as JSON for requests. */
public final class LanceTableChanges {
  private static final String CLUSTERING = "lance.clustering.columns";

  private LanceTableChanges() {}

  public static ArrayNode describe(TableChange[] changes) {
    ArrayNode described = Json.array();
    for (TableChange change : changes) {
      described.add(describe(change));
    }
    return described;
  }

  private static ObjectNode describe(TableChange change) {
    ObjectNode node = Json.object();
    Constraints.Change constraint = Constraints.change(change);
    if (change instanceof TableChange.SetProperty set) {
      node.put("kind", "set_property").put("name", set.property()).put("value", set.value());
    } else if (change instanceof TableChange.RemoveProperty remove) {
      node.put("kind", "remove_property").put("name", remove.property());
    } else if (constraint != null && constraint.added() != null) {
      node.put("kind", "add_constraint");
      node.set("constraint", LanceConstraints.describe(constraint.added()));
    } else if (constraint != null) {
      node.put("kind", "drop_constraint").put("name", constraint.dropped()).put("if_exists", constraint.ifExists());
    } else if (change instanceof TableChange.ClusterBy cluster) {
      String columns = String.join(
          ", ", Stream.of(cluster.clusteringColumns()).map(item -> Identifiers.path(List.of(item.fieldNames()))).toList());
      node.put("kind", columns.isEmpty() ? "remove_property" : "set_property").put("name", CLUSTERING);
      node.put("value", columns.isEmpty() ? null : columns);
    } else if (change instanceof TableChange.ColumnChange column) {
      node.set("path", Json.strings(column.fieldNames()));
      describeColumn(node, column);
    } else {
      node.put("kind", "other").put("name", change.getClass().getSimpleName());
    }
    return node;
  }

  /** A type as that of a column: by itself it would be written without its collations. */
  private static JsonNode column(DataType type) {
    return Json.type(new StructType().add("column", type));
  }

  private static void describeColumn(ObjectNode node, TableChange.ColumnChange change) {
    if (change instanceof TableChange.AddColumn add) {
      node.put("kind", "add").put("nullable", add.isNullable()).put("comment", add.comment());
      if (add.defaultValue() != null) {
        node.put("value", add.defaultValue().getSql());
        node.set("existing_rows", Json.expression(add.defaultValue().getValue()));
      }
      node.set("column", column(add.dataType()));
      position(node, add.position());
    } else if (change instanceof TableChange.DeleteColumn delete) {
      node.put("kind", "drop").put("if_exists", delete.ifExists());
    } else if (change instanceof TableChange.RenameColumn rename) {
      node.put("kind", "rename").put("name", rename.newName());
    } else if (change instanceof TableChange.UpdateColumnType type) {
      node.put("kind", "type");
      node.set("column", column(type.newDataType()));
    } else if (change instanceof TableChange.UpdateColumnNullability nullability) {
      node.put("kind", "nullable").put("nullable", nullability.nullable());
    } else if (change instanceof TableChange.UpdateColumnComment comment) {
      node.put("kind", "comment").put("comment", comment.newComment());
    } else if (change instanceof TableChange.UpdateColumnDefaultValue update) {
      node.put("kind", "default").put("value", update.newDefaultValue());
    } else if (change instanceof TableChange.UpdateColumnPosition position) {
      node.put("kind", "position");
      position(node, position.position());
    } else {
      node.put("kind", "other").put("name", change.getClass().getSimpleName());
    }
  }

  private static void position(ObjectNode node, TableChange.ColumnPosition position) {
    if (position != null) {
      ObjectNode described = node.putObject("position");
      described.put("after", position instanceof TableChange.After after ? after.column() : null);
    }
  }
}
