package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.LanceJob;
import io.lancespark.python.LanceMetrics;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportOrdering;
import org.apache.spark.sql.types.StructType;

/** A scan to which only columns are pushed, such as one of changes or of a search; Python plans its tasks. */
public final class LancePlannedScan extends LanceStreamScan implements Batch, SupportsReportOrdering {
  private final String operation;
  private final ObjectNode request;
  private final StructType columns;
  private PythonChannel.Reply plan;

  private LancePlannedScan(String operation, ObjectNode request, StructType columns, Streams streams) {
    super(streams);
    this.operation = operation;
    this.request = request;
    this.columns = columns;
    request.set("columns", Json.type(columns));
  }

  /** The tasks, the rows, or the job that finds the rows: a function and the work of its tasks. */
  private synchronized PythonChannel.Reply plan() {
    if (plan == null) {
      plan = PythonChannel.call(operation, request);
    }
    return plan;
  }

  /** The tasks or the rows, after the job. Plans that are only shown run no job. */
  private synchronized PythonChannel.Reply work() {
    String job = plan().body().path("job").asText(null);
    if (job != null) {
      List<byte[]> messages =
          LanceJob.run(job, plan.attachments().get(0), plan.attachments().subList(1, plan.attachments().size()));
      plan = PythonChannel.call("search.finish", request, messages);
    }
    return plan;
  }

  @Override
  boolean isPlannedInline() {
    return plan().body().path("is_inline").asBoolean();
  }

  @Override
  public Rows rows(UnaryOperator<InternalRow> change) {
    List<byte[]> attachments = plan().attachments();
    return LanceInlineReader.rows(attachments.subList(1, attachments.size()), columns, change);
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  String planDescription() {
    return plan().body().get("description").asText();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<byte[]> attachments = work().attachments();
    boolean inline = work().body().path("is_inline").asBoolean();
    return attachments.subList(1, attachments.size()).stream()
        .map(work -> new LanceTask.Plain(List.of(work), inline))
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LanceReaderFactory(work().attachments().get(0), readSchema(), false, description());
  }

  @Override
  CustomMetric[] planMetrics() {
    // The rows of a search are found before its tasks.
    JsonNode body = plan().body();
    boolean isSearched = body.has("job") || body.path("is_inline").asBoolean();
    return LanceMetrics.ofScans(body.path("metrics"), !isSearched);
  }

  @Override
  CustomTaskMetric[] driverMetrics() {
    return LanceMetrics.values(work().body().path("metrics"));
  }

  /** Ascending; a scan that can be a stream has none. */
  @Override
  public SortOrder[] outputOrdering() {
    List<SortOrder> order = new ArrayList<>();
    if (streams() == null) {
      plan().body().path("ordering").forEach(name -> order.add(ascending(name.asText())));
    }
    return order.toArray(SortOrder[]::new);
  }

  private static SortOrder ascending(String column) {
    return Expressions.sort(Json.column(column), SortDirection.ASCENDING, NullOrdering.NULLS_FIRST);
  }

  @Override
  Statistics planStatistics() {
    JsonNode rows = plan().body().get("num_rows");
    JsonNode bytes = plan().body().get("size_bytes");
    return new Statistics() {
      @Override
      public OptionalLong numRows() {
        return rows.isNull() ? OptionalLong.empty() : OptionalLong.of(rows.asLong());
      }

      @Override
      public OptionalLong sizeInBytes() {
        return bytes.isNull() ? OptionalLong.empty() : OptionalLong.of(bytes.asLong());
      }
    };
  }

  /** Takes the columns that the query needs. */
  public static final class Builder implements SupportsPushDownRequiredColumns {
    private final String operation;
    private final ObjectNode request;
    private final LanceStreamScan.Streams streams;
    private StructType columns;

    /** A scan that cannot be read as a stream; arguments as below. */
    public Builder(String operation, ObjectNode request, StructType columns) {
      this(operation, request, columns, null);
    }

    /**
     * @param operation the request that plans the scan
     * @param request its arguments, but for the columns
     * @param columns all columns
     * @param streams makes the stream of the columns that the query needs
     */
    public Builder(
        String operation,
        ObjectNode request,
        StructType columns,
        LanceStreamScan.Streams streams) {
      this.operation = operation;
      this.request = request;
      this.columns = columns;
      this.streams = streams;
    }

    @Override
    public void pruneColumns(StructType required) {
      // Top-level columns only: nested fields are not pruned.
      StructType pruned = new StructType();
      for (String name : required.fieldNames()) {
        pruned = pruned.add(columns.apply(name));
      }
      columns = pruned;
    }

    @Override
    public Scan build() {
      return new LancePlannedScan(operation, request, columns, streams);
    }
  }
}
