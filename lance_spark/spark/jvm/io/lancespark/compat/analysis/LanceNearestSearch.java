package io.lancespark.compat.analysis;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.Catalyst;
import io.lancespark.python.Json;
import io.lancespark.python.LancePython;
import io.lancespark.python.PythonChannel;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Inline;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * A Python function that finds, for each vector, the nearest rows of a table as an array of structs; it remembers what
 * it was planned for.
 */
public final class LanceNearestSearch extends SimplePythonFunction {
  private static final long serialVersionUID = 1L;

  /** pyspark.util.PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF. */
  private static final int SCALAR_ARROW_ITER = 251;

  private final String request;

  private LanceNearestSearch(SimplePythonFunction function, String request) {
    super(
        function.command(),
        function.envVars(),
        function.pythonIncludes(),
        function.pythonExec(),
        function.pythonVer(),
        function.broadcastVars(),
        function.accumulator());
    this.request = request;
  }

  /**
   * The rows of {@code queries}, each with the rows that are nearest to its vector; null if Python does not take the search.
   *
   * @param request of {@code search.join}, without columns
   * @param columns of the found rows, by their names in the table
   * @param attributes what these columns are called in the result
   * @param outer whether rows of {@code queries} without a nearest row stay
   */
  static Generate of(
      ObjectNode request,
      StructType columns,
      List<Attribute> attributes,
      Expression vector,
      LogicalPlan queries,
      boolean outer) {
    request.set("columns", Json.type(columns));
    PythonChannel.Reply reply = PythonChannel.call("search.join", request);
    JsonNode description = reply.body().get("description");
    if (description.isNull()) {
      return null;
    }
    LanceNearestSearch function =
        new LanceNearestSearch(LancePython.inTasks(reply.attachments().get(0)), request.toString());
    PythonUDF search =
        new PythonUDF(
            description.asText(),
            function,
            new ArrayType(columns, false),
            Catalyst.seq(List.of(vector)),
            SCALAR_ARROW_ITER,
            true,
            NamedExpression.newExprId());
    return new Generate(
        new Inline(search),
        Catalyst.seq(List.<Object>of()),
        outer,
        Option.empty(),
        Catalyst.seq(attributes),
        queries);
  }

  /** The search that a plan node does; null if it does none. */
  static PythonUDF in(LogicalPlan node) {
    return node instanceof Generate generate
            && generate.generator() instanceof Inline rows
            && rows.child() instanceof PythonUDF search
            && search.func() instanceof LanceNearestSearch
        ? search
        : null;
  }

  /** The same search, which returns only the columns at these places, ascending. */
  static Generate narrowed(Generate node, List<Integer> places) {
    PythonUDF search = in(node);
    StructField[] all = ((StructType) ((ArrayType) search.dataType()).elementType()).fields();
    List<Attribute> attributes = Catalyst.list(node.generatorOutput());
    StructType columns = new StructType(places.stream().map(place -> all[place]).toArray(StructField[]::new));
    return of(
        ((LanceNearestSearch) search.func()).request(),
        columns,
        places.stream().map(attributes::get).toList(),
        search.children().head(),
        node.child(),
        node.outer());
  }

  private ObjectNode request() {
    try {
      return (ObjectNode) Json.parse(request.getBytes(StandardCharsets.UTF_8));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
