package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Query;
import io.lancespark.compat.Sessions;
import io.lancespark.python.Json;
import io.lancespark.python.LanceJob;
import io.lancespark.python.PythonChannel;
import io.lancespark.read.LanceColumnStatistics;
import io.lancespark.read.LanceLocalRows;
import io.lancespark.table.WritableVersion;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A procedure of the catalog's namespace {@code system}, implemented in Python. */
public final class LanceProcedure implements UnboundProcedure, BoundProcedure {
  /** The namespace of all procedures. */
  public static final String NAMESPACE = "system";

  private static List<String> names;

  private final TableRequests tables;
  private final String name;
  private final String description;
  private final ProcedureParameter[] parameters;

  private LanceProcedure(TableRequests tables, String name, JsonNode described) {
    this.tables = tables;
    this.name = name;
    this.description = described.get("description").asText();
    JsonNode list = described.get("parameters");
    this.parameters = new ProcedureParameter[list.size()];
    for (int index = 0; index < parameters.length; index++) {
      parameters[index] = parameter(list.get(index));
    }
  }

  /** The procedure with this name, or null. */
  public static LanceProcedure find(TableRequests tables, String name) {
    JsonNode described = describe(name);
    return described.get("found").asBoolean() ? new LanceProcedure(tables, name, described) : null;
  }

  /** The names of all procedures, which are asked for once. */
  public static synchronized List<String> names() {
    if (names == null) {
      List<String> described = new ArrayList<>();
      describe("").get("names").forEach(name -> described.add(name.asText()));
      names = List.copyOf(described);
    }
    return names;
  }

  private static JsonNode describe(String name) {
    ObjectNode request = Json.object();
    request.put("name", name);
    return PythonChannel.call("procedure.describe", request).body();
  }

  private static ProcedureParameter parameter(JsonNode described) {
    ProcedureParameter.Builder builder =
        ProcedureParameter.in(described.get("name").asText(), Json.type(described.get("type")));
    builder.comment(described.get("comment").asText());
    if (!described.get("required").asBoolean()) {
      builder.defaultValue("NULL");
    }
    return builder.build();
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public BoundProcedure bind(StructType types) {
    return this;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return parameters;
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public Iterator<Scan> call(InternalRow arguments) {
    ObjectNode request = tables.request();
    request.put("name", name);
    request.set("namespace", Json.strings(Sessions.sessionNamespace(tables.catalog())));
    ObjectNode values = request.putObject("arguments");
    for (int index = 0; index < parameters.length; index++) {
      values.set(parameters[index].name(), argument(arguments, index, parameters[index].dataType()));
    }
    PythonChannel.Reply reply = PythonChannel.call("procedure.call", request);
    JsonNode changed = reply.body().get("changed");
    while (!reply.body().get("step").asText().equals("done")) {
      reply = next(request, reply);
    }
    refresh(changed);
    return List.<Scan>of(new LanceLocalRows(name, reply.body().get("result"))).iterator();
  }

  /** The reply after the job that {@code reply} asks for. */
  private PythonChannel.Reply next(ObjectNode request, PythonChannel.Reply reply) {
    return switch (reply.body().get("step").asText()) {
      case "tasks" -> afterTasks(request, reply.attachments());
      case "query" -> afterQuery(request, reply.body().get("query").asText());
      case "statistics" -> afterStatistics(request, reply);
      case "statements" -> afterStatements(request, reply);
      default -> throw new IllegalStateException("unknown step " + reply.body().get("step"));
    };
  }

  private void refresh(JsonNode changed) {
    if (!changed.isNull()) {
      List<String> parts = new ArrayList<>();
      changed.forEach(part -> parts.add(part.asText()));
      String[] namespace = parts.subList(0, parts.size() - 1).toArray(new String[0]);
      tables.refresh(Identifier.of(namespace, parts.get(parts.size() - 1)));
    }
  }

  private static JsonNode argument(InternalRow arguments, int index, DataType type) {
    if (arguments.isNullAt(index)) {
      return null;
    }
    ArrayNode texts = Json.array();
    if (type instanceof ArrayType array) {
      ArrayData items = arguments.getArray(index);
      for (int place = 0; place < items.numElements(); place++) {
        texts.add(items.isNullAt(place) ? null : items.get(place, array.elementType()).toString());
      }
    } else {
      texts.add(arguments.get(index, type).toString());
    }
    return texts;
  }

  /** The call as a statement, for Spark's log and UI. */
  private String statement(ObjectNode request) {
    List<String> arguments = new ArrayList<>();
    request
        .get("arguments")
        .properties()
        .forEach(
            entry -> {
              if (!entry.getValue().isNull()) {
                List<String> texts = new ArrayList<>();
                entry.getValue().forEach(text -> texts.add("'" + text.asText() + "'"));
                arguments.add(entry.getKey() + " => " + String.join(", ", texts));
              }
            });
    return "CALL " + tables.catalog() + "." + NAMESPACE + "." + name + "(" + String.join(", ", arguments) + ")";
  }

  private PythonChannel.Reply afterTasks(ObjectNode request, List<byte[]> job) {
    byte[] state = job.get(1);
    return finish(request, state, () -> LanceJob.run(statement(request), job.get(0), job.subList(2, job.size())));
  }

  private PythonChannel.Reply afterQuery(ObjectNode request, String text) {
    Query query = new Query(text);
    request.set("columns", Json.type(query.schema()));
    ArrayNode handles = request.putArray("tables");
    query.tables().forEach(table -> {
      if (table instanceof WritableVersion version) {
        handles.add(version.handle());
      }
    });
    List<byte[]> planned = PythonChannel.call("procedure.plan", request).attachments();
    return finish(request, planned.get(1), () -> LanceJob.overRows(statement(request), planned.get(0), query.schema(), query.rdd()));
  }

  private PythonChannel.Reply afterStatistics(ObjectNode request, PythonChannel.Reply reply) {
    Query query = new Query(reply.body().get("query").asText());
    byte[] state = reply.attachments().get(0);
    return finish(request, state, () -> List.of(LanceColumnStatistics.described(LanceJob.named(statement(request), query::columnStats))));
  }

  private PythonChannel.Reply afterStatements(ObjectNode request, PythonChannel.Reply reply) {
    JsonNode source = reply.body().get("source");
    byte[] state = reply.attachments().get(0);
    return finish(request, state, () -> {
      byte[] rows = LanceJob.named(statement(request), () -> ImportSteps.rowsOfLast(reply.body().get("statements")));
      return source.isNull() ? List.of(rows) : List.of(rows, ImportSteps.described(source));
    });
  }

  private interface Job {
    List<byte[]> run();
  }

  private PythonChannel.Reply finish(ObjectNode request, byte[] state, Job job) {
    List<byte[]> attachments = new ArrayList<>();
    attachments.add(state);
    // A flag instead of catch: Scala throws checked exceptions without declaring them.
    boolean hasRun = false;
    try {
      attachments.addAll(job.run());
      hasRun = true;
    } finally {
      if (!hasRun) {
        PythonChannel.call("procedure.abort", request, attachments);
      }
    }
    return PythonChannel.call("procedure.finish", request, attachments);
  }
}
