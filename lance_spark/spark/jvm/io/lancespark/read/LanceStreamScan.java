package io.lancespark.read;

import com.fasterxml.jackson.databind.node.NullNode;
import io.lancespark.python.LanceMetrics;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * A scan that Spark may read as a stream. Spark builds the same scan for both, and shows it in the plans of a stream:
 * once it is a stream, it is never planned as a batch.
 */
public abstract class LanceStreamScan implements SupportsReportStatistics {
  /** Rows that came with a plan, and in how many batches they came. */
  public record Rows(List<InternalRow> rows, long batches) {}

  /** Makes the stream of a table. */
  public interface Streams {
    MicroBatchStream open(StructType columns, String checkpointLocation);
  }

  private final Streams streams;
  private volatile MicroBatchStream stream;

  /**
   * @param streams null if the scan cannot be read as a stream
   */
  LanceStreamScan(Streams streams) {
    this.streams = streams;
  }

  final Streams streams() {
    return streams;
  }

  final boolean isStream() {
    return stream != null;
  }

  /** The description of the batch. */
  abstract String planDescription();

  /** The metrics of the batch. */
  abstract CustomMetric[] planMetrics();

  /** Metrics of planning the batch. */
  abstract CustomTaskMetric[] driverMetrics();

  /** Statistics of the batch. */
  abstract Statistics planStatistics();

  /** Whether the rows came with the plan of the batch, read by the planner process. */
  abstract boolean isPlannedInline();

  /** The results of {@code change} for the rows that came with the plan. */
  public abstract Rows rows(UnaryOperator<InternalRow> change);

  @Override
  public final MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    if (streams == null) {
      throw new UnsupportedOperationException(description() + " cannot be read as a stream");
    }
    MicroBatchStream opened = streams.open(readSchema(), checkpointLocation);
    stream = opened;
    return opened;
  }

  /** Whether the rows came with the plan. */
  public final boolean isInline() {
    return stream == null && isPlannedInline();
  }

  @Override
  public final String description() {
    return stream != null ? stream.toString() : planDescription();
  }

  @Override
  public final ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public final CustomMetric[] supportedCustomMetrics() {
    return stream != null ? LanceMetrics.ofScans(NullNode.instance, true) : planMetrics();
  }

  @Override
  public final CustomTaskMetric[] reportDriverMetrics() {
    return stream != null ? new CustomTaskMetric[0] : driverMetrics();
  }

  @Override
  public final Statistics estimateStatistics() {
    return stream != null ? new Unknown() : planStatistics();
  }

  private record Unknown() implements Statistics {
    @Override
    public OptionalLong numRows() {
      return OptionalLong.empty();
    }

    @Override
    public OptionalLong sizeInBytes() {
      return OptionalLong.empty();
    }
  }
}
