package io.lancespark.python;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.LongFunction;
import java.util.stream.LongStream;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** Metrics of scans and writes in Spark's UI. One class per metric, because the UI instantiates them by name. */
public final class LanceMetrics {
  private LanceMetrics() {}

  private static final List<CustomMetric> OF_ROWS = List.of(new RowsRead(), new BatchesRead());

  private static final List<CustomMetric> OF_TASKS =
      List.of(new Requests(), new BytesRead(), new FetchTime(), new DecodeTime());

  private static final List<CustomMetric> OF_PLANS =
      List.of(
          new PartitionsRead(),
          new PartitionsPruned(),
          new FragmentsRead(),
          new FragmentsPruned(),
          new FilesRead(),
          new BytesPlanned(),
          new IndexSegmentsSearched(),
          new IndexPartitionsProbed(),
          new IndexRowsCompared(),
          new RowsCompared());

  /**
   * The metrics of a scan: those of every scan, and what its plan counts.
   *
   * @param planned the numbers of the plan by the name of the metric, 0 for what tasks count
   * @param inTasks whether tasks, or the planner in their place, read the table
   */
  public static CustomMetric[] ofScans(JsonNode planned, boolean inTasks) {
    List<CustomMetric> metrics = new ArrayList<>();
    OF_PLANS.stream().filter(metric -> planned.has(metric.name())).forEach(metrics::add);
    metrics.addAll(OF_ROWS);
    if (inTasks) {
      metrics.addAll(OF_TASKS);
    }
    return metrics.toArray(CustomMetric[]::new);
  }

  public static CustomMetric[] ofWrites() {
    return new CustomMetric[] {new RowsWritten(), new FilesWritten(), new BytesWritten(), new CommitsOfOthers()};
  }

  /** Metric values that Python returned on the driver, by metric name. */
  public static CustomTaskMetric[] values(JsonNode told) {
    List<CustomTaskMetric> values = new ArrayList<>();
    for (Map.Entry<String, JsonNode> entry : told.properties()) {
      values.add(new Value(entry.getKey(), entry.getValue().asLong()));
    }
    return values.toArray(new CustomTaskMetric[0]);
  }

  /** The value of a metric, from a task or the driver. */
  public record Value(String name, long value) implements CustomTaskMetric {}

  private abstract static class Sum extends CustomSumMetric {
    private final String name;
    private final String description;

    Sum(String name, String description) {
      this.name = name;
      this.description = description;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String description() {
      return description;
    }
  }

  /** A sum in milliseconds. */
  private abstract static class Time extends Sum {
    Time(String name, String description) {
      super(name, description);
    }

    @Override
    public String aggregateTaskMetrics(long[] values) {
      return distribution(values, LanceMetrics::duration);
    }
  }

  /** A number of bytes that only the driver reports. */
  private abstract static class Size extends Sum {
    Size(String name, String description) {
      super(name, description);
    }

    @Override
    public String aggregateTaskMetrics(long[] values) {
      return size(LongStream.of(values).sum());
    }
  }

  /** A number of bytes that each task reports. */
  private abstract static class TaskSize extends Sum {
    TaskSize(String name, String description) {
      super(name, description);
    }

    @Override
    public String aggregateTaskMetrics(long[] values) {
      return distribution(values, LanceMetrics::size);
    }
  }

  /** Total, minimum, median and maximum over tasks, formatted like Spark's own metrics. */
  private static String distribution(long[] values, LongFunction<String> text) {
    String total = text.apply(LongStream.of(values).sum());
    if (values.length <= 1) {
      return total;
    }
    long[] sorted = values.clone();
    Arrays.sort(sorted);
    String least = text.apply(sorted[0]);
    String middle = text.apply(sorted[sorted.length / 2]);
    String greatest = text.apply(sorted[sorted.length - 1]);
    return "total (min, med, max)\n" + total + " (" + least + ", " + middle + ", " + greatest + ")";
  }

  private static String size(long bytes) {
    String[] units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double number = bytes;
    int unit = 0;
    while (number >= 1024 && unit < units.length - 1) {
      number /= 1024;
      unit++;
    }
    return String.format(Locale.ROOT, unit == 0 ? "%.0f %s" : "%.1f %s", number, units[unit]);
  }

  private static String duration(long milliseconds) {
    if (milliseconds < 1000) {
      return milliseconds + " ms";
    }
    double seconds = milliseconds / 1000.0;
    if (seconds < 60) {
      return String.format(Locale.ROOT, "%.1f s", seconds);
    }
    double minutes = seconds / 60;
    return minutes < 60
        ? String.format(Locale.ROOT, "%.1f m", minutes)
        : String.format(Locale.ROOT, "%.2f h", minutes / 60);
  }

  /** Partitions of a partitioned table that tasks read. */
  public static final class PartitionsRead extends Sum {
    public PartitionsRead() {
      super("partitions_read", "partitions read");
    }
  }

  /** Partitions of a partitioned table that the plan skipped. */
  public static final class PartitionsPruned extends Sum {
    public PartitionsPruned() {
      super("partitions_pruned", "partitions pruned");
    }
  }

  /** Fragments that tasks read. */
  public static final class FragmentsRead extends Sum {
    public FragmentsRead() {
      super("fragments_read", "fragments read");
    }
  }

  /** Fragments that the plan skipped. */
  public static final class FragmentsPruned extends Sum {
    public FragmentsPruned() {
      super("fragments_pruned", "fragments pruned");
    }
  }

  /** Data files of the fragments that tasks read. */
  public static final class FilesRead extends Sum {
    public FilesRead() {
      super("files_read", "data files read");
    }
  }

  /** Estimated bytes of the columns that tasks read, from the file sizes. */
  public static final class BytesPlanned extends Size {
    public BytesPlanned() {
      super("bytes_planned", "bytes to read");
    }
  }

  /** Rows that Python returned, after deletions, filters and limits. */
  public static final class RowsRead extends Sum {
    public RowsRead() {
      super("rows_read", "rows read");
    }
  }

  /** Batches that Python returned. */
  public static final class BatchesRead extends Sum {
    public BatchesRead() {
      super("batches_read", "batches read");
    }
  }

  /** Read requests to object stores, after coalescing of near ranges. */
  public static final class Requests extends Sum {
    public Requests() {
      super("requests", "requests to the store");
    }
  }

  /** Bytes requested from object stores. */
  public static final class BytesRead extends TaskSize {
    public BytesRead() {
      super("bytes_read", "bytes read");
    }
  }

  /** Time that tasks waited for object stores. */
  public static final class FetchTime extends Time {
    public FetchTime() {
      super("fetch_time", "time waiting for the store");
    }
  }

  /** Time that tasks spent on decoding, filtering and type conversion. */
  public static final class DecodeTime extends Time {
    public DecodeTime() {
      super("decode_time", "time decoding and filtering");
    }
  }

  /** Segments of vector indexes in which a search looked for rows. */
  public static final class IndexSegmentsSearched extends Sum {
    public IndexSegmentsSearched() {
      super("index_segments_searched", "segments of vector indexes searched");
    }
  }

  /** Partitions of vector indexes that a search read. */
  public static final class IndexPartitionsProbed extends Sum {
    public IndexPartitionsProbed() {
      super("index_partitions_probed", "partitions of vector indexes probed");
    }
  }

  /** Rows of vector indexes that were compared with a query. */
  public static final class IndexRowsCompared extends Sum {
    public IndexRowsCompared() {
      super("index_rows_compared", "rows of vector indexes compared");
    }
  }

  /** Rows of the table whose vectors were compared with queries; once, however many queries there were. */
  public static final class RowsCompared extends Sum {
    public RowsCompared() {
      super("rows_compared", "rows of the table compared");
    }
  }

  /** Versions of other writers that a commit was rebased on. */
  public static final class CommitsOfOthers extends Sum {
    public CommitsOfOthers() {
      super("commits_of_others", "commits of others meanwhile");
    }
  }

  /** Rows in new fragments. */
  public static final class RowsWritten extends Sum {
    public RowsWritten() {
      super("rows_written", "rows written");
    }
  }

  /** New data files. */
  public static final class FilesWritten extends Sum {
    public FilesWritten() {
      super("files_written", "data files written");
    }
  }

  /** Bytes of new data files. */
  public static final class BytesWritten extends Size {
    public BytesWritten() {
      super("bytes_written", "bytes written");
    }
  }
}
