package io.lancespark.compat;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.python.ArrowPythonRunner$;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.CollectionAccumulator;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's runner of a Python function over Arrow batches, with the settings of the session.
 *
 * <p>Created on the driver, where the session's settings are available, and sent to the tasks.
 */
public final class ArrowRunner implements Serializable {
  private static final long serialVersionUID = 1L;

  /** pyspark.util.PythonEvalType.SQL_MAP_ARROW_ITER_UDF. */
  private static final int MAP_ARROW_ITER = 207;

  /** Offsets of Arrow's string and binary columns have 31 bits; this is far below. */
  private static final long MAX_BYTES = 256L << 20;

  private final SimplePythonFunction function;
  private final StructType input;
  private final String timeZone;
  private final boolean largeTypes;
  private final Map<String, String> conf;
  private final String artifacts;
  private final int maxRows;
  private final long maxBytes;

  /**
   * @param input the type of the function's input, a struct
   */
  public ArrowRunner(SimplePythonFunction function, DataType input) {
    this.function = function;
    this.input = new StructType().add("struct", input);
    SQLConf sql = SQLConf.get();
    this.timeZone = sql.sessionLocalTimeZone();
    this.maxRows = sql.arrowMaxRecordsPerBatch() > 0 ? sql.arrowMaxRecordsPerBatch() : Integer.MAX_VALUE;
    this.maxBytes = Math.min(sql.arrowMaxBytesPerBatch() > 0 ? sql.arrowMaxBytesPerBatch() : MAX_BYTES, MAX_BYTES);
    this.largeTypes = sql.arrowUseLargeVarTypes();
    // A Java map, because Scala's maps do not support Java serialization.
    this.conf = new HashMap<>(CollectionConverters.asJava(ArrowPythonRunner$.MODULE$.getPythonRunnerConfMap(sql)));
    Option<JobArtifactState> state = JobArtifactSet$.MODULE$.getCurrentJobArtifactState();
    this.artifacts = state.isDefined() ? state.get().uuid() : null;
  }

  /** The command of the Python that runs the function. */
  public String python() {
    return function.pythonExec();
  }

  /**
   * The output of the function for {@code rows}, batches of one struct column.
   *
   * @param updates receives what the worker reports when it ends
   */
  public Iterator<ColumnarBatch> run(Iterator<InternalRow> rows, CollectionAccumulator<byte[]> updates) {
    SimplePythonFunction reporting =
        new SimplePythonFunction(
            function.command(),
            function.envVars(),
            function.pythonIncludes(),
            function.pythonExec(),
            function.pythonVer(),
            function.broadcastVars(),
            updates);
    TaskContext task = TaskContext.get();
    ChainedPythonFunctions chain = new ChainedPythonFunctions(PythonUtils.toSeq(List.of(reporting)));
    ArrowPythonRunner runner =
        ArrowRunners.of(
            PythonUtils.toSeq(List.of(new Tuple2<>(chain, (Object) 0L))),
            MAP_ARROW_ITER,
            input,
            timeZone,
            largeTypes,
            PythonUtils.toScalaMap(conf),
            artifacts);
    Iterator<scala.collection.Iterator<InternalRow>> groups = new Groups(rows, maxRows, maxBytes);
    return CollectionConverters.asJava(
        runner.compute(CollectionConverters.asScala(groups), task.partitionId(), task));
  }

  /**
   * A task result in one of Spark's own classes: the driver thread that deserializes it does not see jars that a
   * session has added.
   */
  public static WriterCommitMessage message(byte[] message) {
    return new PythonWriterCommitMessage(message);
  }

  public static byte[] message(WriterCommitMessage message) {
    return ((PythonWriterCommitMessage) message).pickledMessage();
  }

  /** Groups rows into Arrow batches, each row wrapped in a struct: the function takes one struct column. */
  private static final class Groups implements Iterator<scala.collection.Iterator<InternalRow>> {
    private final Iterator<InternalRow> rows;
    private final int maxRows;
    private final long maxBytes;

    Groups(Iterator<InternalRow> rows, int maxRows, long maxBytes) {
      this.rows = rows;
      this.maxRows = maxRows;
      this.maxBytes = maxBytes;
    }

    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public scala.collection.Iterator<InternalRow> next() {
      return CollectionConverters.asScala(new Group());
    }

    private final class Group implements Iterator<InternalRow> {
      private int count;
      private long bytes;

      @Override
      public boolean hasNext() {
        return count < maxRows && bytes < maxBytes && rows.hasNext();
      }

      @Override
      public InternalRow next() {
        InternalRow row = rows.next();
        count++;
        bytes += Rows.sizeInBytes(row);
        return Rows.of(row);
      }
    }
  }
}
