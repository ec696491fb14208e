package io.lancespark.read;

import io.lancespark.compat.Rows;
import io.lancespark.python.LanceJob;
import io.lancespark.python.LanceMetrics;
import io.lancespark.python.LanceRunner;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the work of a task in Python, or rows that came with the plan; columnar batches out.
 *
 * <p>Spark takes the factory of a scan without the filters that come while a query runs, and the tasks of the scan with
 * them: either plan may have its rows already.
 */
public final class LanceReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;
  private final LanceRunner runner;
  private final StructType columns;
  private final boolean isLimited;
  private final String description;

  /**
   * @param function of the tasks
   * @param columns those of the rows
   * @param isLimited whether tasks stop by themselves after a number of rows
   * @param description of the scan
   */
  public LanceReaderFactory(byte[] function, StructType columns, boolean isLimited, String description) {
    this.runner = new LanceRunner(function, LanceJob.WORK, columns);
    this.columns = columns;
    this.isLimited = isLimited;
    this.description = description;
  }

  @Override
  public String toString() {
    return description;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("batches only");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    LanceTask task = (LanceTask) partition;
    if (task.isInline()) {
      return new LanceInlineReader(task.work(), columns);
    }
    Map<String, Long> told = new HashMap<>();
    Reader reader = new Reader(runner.run(Rows.ofEach(task.work()).iterator(), told), told);
    if (isLimited) {
      // Listeners run last-registered first, so this drains the worker before the runner's listener would kill it.
      TaskContext.get().addTaskCompletionListener(reader::readToEnd);
    }
    return reader;
  }

  private static final class Reader implements PartitionReader<ColumnarBatch> {
    private final Iterator<ColumnarBatch> batches;
    private final Map<String, Long> told;
    private boolean hasEnded;
    private ColumnarBatch current;
    private long rowsRead;
    private long batchesRead;

    Reader(Iterator<ColumnarBatch> batches, Map<String, Long> told) {
      this.batches = batches;
      this.told = told;
    }

    @Override
    public boolean next() {
      if (!batches.hasNext()) {
        hasEnded = true;
        return false;
      }
      current = batches.next();
      rowsRead += current.numRows();
      batchesRead++;
      return true;
    }

    @Override
    public ColumnarBatch get() {
      return current;
    }

    /** Keeps the worker for the next task, which would wait a second for a new one; after a limit little is left. */
    private void readToEnd(TaskContext task) {
      while (!hasEnded && !task.isFailed() && !task.isInterrupted() && next()) {}
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      List<CustomTaskMetric> values = new ArrayList<>();
      values.add(new LanceMetrics.Value("rows_read", rowsRead));
      values.add(new LanceMetrics.Value("batches_read", batchesRead));
      told.forEach((name, value) -> values.add(new LanceMetrics.Value(name, value)));
      return values.toArray(new CustomTaskMetric[0]);
    }

    @Override
    public void close() {
      // The runner ends with its task.
    }
  }
}
