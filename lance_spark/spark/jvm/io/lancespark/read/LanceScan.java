package io.lancespark.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.SessionConf;
import io.lancespark.python.Json;
import io.lancespark.python.LanceMetrics;
import io.lancespark.python.PythonChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.types.StructType;

/** One scan of one query: the rows to read, planned by Python when Spark first asks. */
public final class LanceScan extends LanceStreamScan
    implements SupportsReportPartitioning, SupportsRuntimeV2Filtering {
  /** Parts of binary values: an offset and a length. */
  public static final String BINARY_RANGES = "binary_ranges";

  /** Parts of variants: the steps of each path. */
  public static final String VARIANT_PATHS = "variant_paths";

  private final ObjectNode request;
  private final JsonNode identity;
  private final StructType columns;
  private final boolean coalesced;
  private final boolean takesRuntimeFilters;
  private final RuntimeFilters filters = new RuntimeFilters();
  private PythonChannel.Reply plan;
  private Double selectivity;
  private volatile PythonChannel.Reply newest;
  private final AtomicBoolean newToJoins = new AtomicBoolean(true);

  /** A scan that Python plans when its plan is first wanted. */
  LanceScan(ObjectNode request, StructType columns, Streams streams) {
    super(streams);
    this.request = request;
    this.identity = request;
    this.columns = columns;
    this.coalesced = false;
    this.takesRuntimeFilters = !isForChanges();
    request.set("columns", Json.type(columns));
  }

  /** A scan that returns aggregates, {@code changed} of Python, which has planned it with its reply. */
  LanceScan(ObjectNode request, StructType columns, JsonNode changed, PythonChannel.Reply plan) {
    super(null);
    this.request = request;
    this.identity = changed;
    this.columns = columns;
    this.coalesced = false;
    this.takesRuntimeFilters = true;
    this.plan = plan;
    this.newest = plan;
  }

  private LanceScan(LanceScan other, boolean coalesced, boolean takesRuntimeFilters) {
    super(other.streams());
    this.request = other.request;
    this.identity = other.identity;
    this.columns = other.columns;
    this.coalesced = coalesced;
    this.takesRuntimeFilters = takesRuntimeFilters;
    this.plan = other.plan();
    this.newest = plan;
    this.selectivity = other.selectivity;
    this.newToJoins.set(other.newToJoins.get());
  }

  /** The same rows in fewer tasks, if there are: for plans that make no use of the keys of partitions. */
  public LanceScan coalesced() {
    return coalesced || plan().body().path("coalesced_tasks").isEmpty()
        ? this
        : new LanceScan(this, true, takesRuntimeFilters);
  }

  /** Whether the rows are read to be changed. */
  public boolean isForChanges() {
    return request.path("for_changes").asBoolean();
  }

  /**
   * The same scan, which takes filters while a query runs. Scans for changes take none until then: Spark would give them
   * the values of all matching rows as an IN, which never matches null, after searching these rows once more.
   */
  public LanceScan withRuntimeFilters() {
    return takesRuntimeFilters ? this : new LanceScan(this, coalesced, true);
  }

  /** Whether {@link #with} can still be called for parts of this kind. */
  public boolean takes(String parts) {
    return identity == request && !coalesced && !isStream() && !request.has(parts);
  }

  /** The same rows, with parts of some values only, by the name of the column. */
  public LanceScan with(String parts, ObjectNode byColumn) {
    ObjectNode changed = request.deepCopy();
    changed.set(parts, byColumn);
    return new LanceScan(changed, columns, streams());
  }

  /** The function of the tasks, then a description of the work of each task, or the rows themselves. */
  private synchronized PythonChannel.Reply plan() {
    if (plan == null) {
      plan = PythonChannel.callOncePerQuery("scan.plan", request);
      newest = plan;
    }
    return plan;
  }

  /** False for scans whose rows are changed: Spark looks for those in plans by their nodes. */
  @Override
  boolean isPlannedInline() {
    return !isForChanges() && plan().body().path("is_inline").asBoolean();
  }

  @Override
  public Rows rows(UnaryOperator<InternalRow> change) {
    List<byte[]> attachments = plan().attachments();
    return LanceInlineReader.rows(attachments.subList(1, attachments.size()), columns, change);
  }

  /** Whether a filter that Spark does not see removes enough rows for the keys of the others to prune a join. */
  public boolean isSelective() {
    if (request.path("filter").isTextual() && plan().body().path("filters_values").asBoolean()) {
      JsonNode body = plan().body();
      double rows = body.get("num_rows").asDouble();
      long most = body.get("max_runtime_values").asLong();
      return rows <= most || rows * selectivity() <= most;
    }
    return false;
  }

  /** True once: joins of a scan are looked at one time. */
  public boolean markSeen() {
    return newToJoins.getAndSet(false);
  }

  /**
   * The share of the rows that the filter keeps. Python estimates it from a sample, once, where it decides whether Spark can
   * broadcast the rows, or take keys from them.
   */
  private synchronized double selectivity() {
    if (selectivity == null) {
      JsonNode planned = plan().body().path("selectivity");
      boolean asks = !planned.isNumber() && plan().body().path("needs_selectivity").asBoolean();
      selectivity =
          asks
              ? PythonChannel.callOncePerQuery("scan.selectivity", request).body().get("selectivity").asDouble()
              : planned.asDouble(1.0);
    }
    return selectivity;
  }

  /** What Python was asked for; not for changing. */
  public ObjectNode request() {
    return request;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  String planDescription() {
    return plan().body().get("description").asText();
  }

  /** For logs, without a request to Python: of a scan that is not planned yet, only the table is known. */
  @Override
  public String toString() {
    PythonChannel.Reply planned = newest;
    return planned == null
        ? "lance scan of " + request.path("handle").path("uri").asText()
        : planned.body().get("description").asText();
  }

  @Override
  public Batch toBatch() {
    PythonChannel.Reply filtered = filters.take();
    return new LanceBatch(filtered == null ? plan() : filtered, identity, columns, request.has("limit"), coalesced);
  }

  @Override
  public NamedReference[] filterAttributes() {
    List<NamedReference> references = new ArrayList<>();
    if (!takesRuntimeFilters) {
      return new NamedReference[0];
    }
    plan().body().path("runtime_columns").forEach(name -> references.add(Json.column(name.asText())));
    return references.toArray(NamedReference[]::new);
  }

  @Override
  public void filter(Predicate[] predicates) {
    PythonChannel.Reply filtered =
        filters.plan(request, predicates, plan().body().get("max_runtime_values").asInt());
    if (filtered != null) {
      newest = filtered;
    }
  }

  /** By which keys the tasks' rows are apart, for joins and aggregations without a shuffle. */
  @Override
  public Partitioning outputPartitioning() {
    JsonNode keys = plan().body().path("keys");
    int tasks = plan().attachments().size() - 1;
    if (keys.isEmpty() || coalesced) {
      return new UnknownPartitioning(coalesced ? plan().body().path("coalesced_tasks").size() : tasks);
    }
    Transform[] transforms = new Transform[keys.size()];
    for (int index = 0; index < transforms.length; index++) {
      transforms[index] = Json.transform(keys.get(index).get("transform"));
    }
    return new KeyGroupedPartitioning(transforms, tasks);
  }

  @Override
  CustomMetric[] planMetrics() {
    return LanceMetrics.ofScans(plan().body().path("metrics"), true);
  }

  @Override
  CustomTaskMetric[] driverMetrics() {
    plan();
    return LanceMetrics.values(newest.body().path("metrics"));
  }

  @Override
  Statistics planStatistics() {
    JsonNode body = plan().body();
    boolean decides =
        SessionConf.comparesCosts() || body.path("size_bytes").asLong() > SessionConf.broadcastBytes();
    double share = decides || selectivity != null ? selectivity() : 1.0;
    return new Estimate(body.get("num_rows"), body.get("size_bytes"), share, columns, body.path("column_statistics"));
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LanceScan that && coalesced == that.coalesced && identity.equals(that.identity);
  }

  @Override
  public int hashCode() {
    return identity.hashCode();
  }

  private record Estimate(JsonNode rows, JsonNode bytes, double selectivity, StructType columns, JsonNode statistics)
      implements Statistics {
    @Override
    public OptionalLong numRows() {
      return kept(rows);
    }

    @Override
    public OptionalLong sizeInBytes() {
      return kept(bytes);
    }

    @Override
    public Map<NamedReference, ColumnStatistics> columnStats() {
      return LanceColumnStatistics.of(statistics, columns, numRows());
    }

    private OptionalLong kept(JsonNode number) {
      return number.isNull() ? OptionalLong.empty() : OptionalLong.of((long) Math.ceil(number.asLong() * selectivity));
    }
  }
}
