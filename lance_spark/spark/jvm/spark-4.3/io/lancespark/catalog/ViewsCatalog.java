package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.SparkCatalog;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.catalyst.analysis.ViewAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.View;

/** A catalog of tables and views. Spark asks for a name once; tables are looked up first. */
public interface ViewsCatalog extends SparkCatalog, RelationCatalog {
  /** Builds and sends the requests of the catalog. */
  TableRequests requests();

  /** The newest state of a table; null if there is none. */
  Table find(Identifier identifier, State state, Map<String, String> options);

  /** The error for a name that is neither a table nor a view. */
  NoSuchTableException missing(Identifier identifier, State state, Map<String, String> options);

  @Override
  default Relation loadRelation(Identifier identifier) throws NoSuchTableException {
    Table table = find(identifier, State.NEWEST, Map.of());
    if (table != null) {
      return table;
    }
    View view = LanceViews.load(requests(), identifier);
    if (view == null) {
      throw missing(identifier, State.NEWEST, Map.of());
    }
    return view;
  }

  @Override
  default View loadView(Identifier identifier) throws NoSuchViewException {
    View view = LanceViews.load(requests(), identifier);
    if (view == null) {
      throw new NoSuchViewException(identifier);
    }
    return view;
  }

  @Override
  default boolean viewExists(Identifier identifier) {
    return PythonChannel.call("catalog.view_exists", requests().request(identifier)).body().get("done").asBoolean();
  }

  @Override
  default Identifier[] listViews(String[] namespace) throws NoSuchNamespaceException {
    JsonNode reply = LanceViews.ofNamespace(requests(), "catalog.list_views", namespace);
    return LanceViews.identifiers(reply.get("names"), namespace);
  }

  /** The tables and their type. Spark's default would load each of them. */
  @Override
  default TableSummary[] listTableSummaries(String[] namespace) throws NoSuchNamespaceException, NoSuchTableException {
    List<TableSummary> summaries = new ArrayList<>();
    for (Identifier each : listTables(namespace)) {
      summaries.add(TableSummary.of(each, TableSummary.MANAGED_TABLE_TYPE));
    }
    return summaries.toArray(TableSummary[]::new);
  }

  @Override
  default TableSummary[] listRelationSummaries(String[] namespace) throws NoSuchNamespaceException {
    JsonNode reply = LanceViews.ofNamespace(requests(), "catalog.list_relations", namespace);
    List<TableSummary> summaries = new ArrayList<>();
    for (Identifier each : LanceViews.identifiers(reply.get("tables"), namespace)) {
      summaries.add(TableSummary.of(each, TableSummary.MANAGED_TABLE_TYPE));
    }
    for (Identifier each : LanceViews.identifiers(reply.get("views"), namespace)) {
      summaries.add(TableSummary.of(each, TableSummary.VIEW_TABLE_TYPE));
    }
    return summaries.toArray(TableSummary[]::new);
  }

  @Override
  default View createView(Identifier identifier, View view)
      throws ViewAlreadyExistsException, NoSuchNamespaceException {
    switch (LanceViews.define(requests(), "catalog.create_view", identifier, view)) {
      case "exists" -> throw new ViewAlreadyExistsException(identifier);
      case "no_namespace" -> throw new NoSuchNamespaceException(identifier.namespace());
      default -> {
        return view;
      }
    }
  }

  @Override
  default View replaceView(Identifier identifier, View view) throws NoSuchViewException {
    if (LanceViews.define(requests(), "catalog.replace_view", identifier, view).equals("no_view")) {
      throw new NoSuchViewException(identifier);
    }
    return view;
  }

  @Override
  default boolean dropView(Identifier identifier) {
    return PythonChannel.call("catalog.drop_view", requests().request(identifier)).body().get("done").asBoolean();
  }

  @Override
  default void renameView(Identifier from, Identifier to) throws NoSuchViewException, ViewAlreadyExistsException {
    ObjectNode request = requests().request(from);
    request.set("new_namespace", Json.strings(to.namespace()));
    request.put("new_name", to.name());
    switch (PythonChannel.call("catalog.rename_view", request).body().get("outcome").asText()) {
      case "no_view" -> throw new NoSuchViewException(from);
      case "exists" -> throw new ViewAlreadyExistsException(to);
      default -> {}
    }
  }
}
