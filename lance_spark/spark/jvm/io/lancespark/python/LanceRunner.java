package io.lancespark.python;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.compat.ArrowRunner;
import io.lancespark.compat.LanceColumn;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Unpickler;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.CollectionAccumulator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs a Python function over Arrow batches in a task: rows in, columnar batches out.
 *
 * <p>Created on the driver, where the session's settings are available, and sent to the tasks.
 */
public final class LanceRunner implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final StructType MESSAGES = new StructType().add("message", DataTypes.BinaryType);

  /** A {@code LanceError} as a Python worker reports it: the last line of a traceback. */
  private static final Pattern TASK_ERROR =
      Pattern.compile("^lance_spark\\.spark\\.connector\\.channel\\.conditions\\.TaskError: (\\{.*\\})$", Pattern.MULTILINE);

  /** A package that the Python of a task has not. */
  private static final Pattern MISSING =
      Pattern.compile("^ModuleNotFoundError: No module named '((?:lance_spark|pyarrow|numpy|google)[^']*)'$", Pattern.MULTILINE);

  /** A library that the loader finds no address space for, while our modules are imported. */
  private static final Pattern UNLOADED =
      Pattern.compile("lance_spark/.*?([^\\s:]+): failed to map segment from shared object", Pattern.DOTALL);

  private static final Logger LOG = LoggerFactory.getLogger(LanceRunner.class);

  private final ArrowRunner runner;
  private final StructType output;

  /** A runner of a function that returns messages to the driver. */
  public LanceRunner(byte[] command, StructType input) {
    this(command, input, MESSAGES);
  }

  /**
   * A runner of a pickled {@code (function, return type)}.
   *
   * @param input the schema of the function's input rows
   * @param output the schema of its output batches
   */
  public LanceRunner(byte[] command, StructType input, StructType output) {
    this.runner = new ArrowRunner(LancePython.inTasks(command), exchanged(input));
    this.output = output;
  }

  /** The output batches of the function for {@code rows}; each is valid until the next one is requested. */
  public Iterator<ColumnarBatch> run(Iterator<InternalRow> rows) {
    return run(rows, new HashMap<>());
  }

  /** The same; {@code metrics} receives the metrics that the function reports when it ends. */
  public Iterator<ColumnarBatch> run(Iterator<InternalRow> rows, Map<String, Long> metrics) {
    return new Unwrapped(runner.run(rows, new MetricsCollector(metrics)), output, runner.python());
  }

  /** The messages of a function that returns them to the driver. */
  public List<byte[]> messages(Iterator<InternalRow> rows) {
    List<byte[]> messages = new ArrayList<>();
    for (Iterator<ColumnarBatch> batches = run(rows); batches.hasNext(); ) {
      ColumnarBatch batch = batches.next();
      for (int row = 0; row < batch.numRows(); row++) {
        messages.add(batch.column(0).getBinary(row));
      }
    }
    return messages;
  }

  /** The type with INT for intervals of years and months, which Python has no Arrow arrays of; Spark keeps them as INT. */
  private static DataType exchanged(DataType type) {
    if (type instanceof YearMonthIntervalType) {
      return DataTypes.IntegerType;
    }
    if (type instanceof StructType struct) {
      StructType fields = new StructType();
      for (StructField field : struct.fields()) {
        fields = fields.add(new StructField(field.name(), exchanged(field.dataType()), field.nullable(), field.metadata()));
      }
      return fields;
    }
    if (type instanceof ArrayType array) {
      return new ArrayType(exchanged(array.elementType()), array.containsNull());
    }
    if (type instanceof MapType map) {
      return new MapType(exchanged(map.keyType()), exchanged(map.valueType()), map.valueContainsNull());
    }
    return type;
  }

  /**
   * Converts a reported {@code LanceError}, and the error of a Python without memory or packages, to an exception with
   * its condition; returns any other error unchanged.
   */
  private static RuntimeException explained(RuntimeException error, String python) {
    if (error instanceof PythonException && error.getMessage() != null) {
      Matcher fields = TASK_ERROR.matcher(error.getMessage());
      if (fields.find()) {
        LOG.debug("a Python worker failed", error);
        throw LanceException.sneaky(LanceException.inTask(parsed(fields.group(1))));
      }
      Matcher unloaded = UNLOADED.matcher(error.getMessage());
      if (unloaded.find()) {
        LOG.debug("a Python worker cannot load its libraries", error);
        throw LanceException.tooLittleMemoryFor(unloaded.group(1));
      }
      Matcher missing = MISSING.matcher(error.getMessage());
      if (missing.find()) {
        LOG.debug("a Python worker lacks a package", error);
        throw LanceException.unusablePythonInTask(
            "the Python of the tasks, " + python + " on " + SparkEnv.get().blockManager().blockManagerId().host()
                + ", has no package " + missing.group(1) + ". Install lance-spark there, or set spark.pyspark.python or "
                + "PYSPARK_PYTHON to a Python of the executors that has it, before Spark starts");
      }
    }
    return error;
  }

  private static JsonNode parsed(String json) {
    try {
      return Json.parse(json.getBytes(StandardCharsets.UTF_8));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Runs {@code work} in a new thread of the current task; the caller must wait for its end. */
  public static Thread inTask(String name, Runnable work) {
    TaskContext task = TaskContext.get();
    Thread thread =
        new Thread(
            () -> {
              TaskContext$.MODULE$.setTaskContext(task);
              work.run();
            },
            name + " of task " + task.taskAttemptId());
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  /** Collects the metrics that a Python worker reports as pickled (id, JSON object of numbers) pairs; task-local. */
  private static final class MetricsCollector extends CollectionAccumulator<byte[]> {
    private static final long serialVersionUID = 1L;
    private static final long TOLD_ID = -1;
    private final transient Map<String, Long> numbers;

    MetricsCollector(Map<String, Long> numbers) {
      this.numbers = numbers;
    }

    @Override
    public void add(byte[] update) {
      try {
        Object[] pair = (Object[]) new Unpickler().loads(update);
        if (pair[0] instanceof Number id && id.longValue() == TOLD_ID) {
          Json.parse(((String) pair[1]).getBytes(StandardCharsets.UTF_8))
              .properties()
              .forEach(entry -> numbers.put(entry.getKey(), entry.getValue().asLong()));
        }
      } catch (PickleException notOurs) {
        // An update from a profiler, which only Python can read.
      } catch (IOException error) {
        throw LanceException.sneaky(error);
      }
    }
  }

  /** Unwraps batches of one struct column into batches of its fields. */
  private static final class Unwrapped implements Iterator<ColumnarBatch> {
    private final Iterator<ColumnarBatch> batches;
    private final StructType types;
    private final String python;

    Unwrapped(Iterator<ColumnarBatch> batches, StructType types, String python) {
      this.batches = batches;
      this.types = types;
      this.python = python;
    }

    @Override
    public boolean hasNext() {
      try {
        return batches.hasNext();
      } catch (RuntimeException error) {
        throw explained(error, python);
      }
    }

    @Override
    public ColumnarBatch next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      ColumnarBatch batch = batches.next();
      StructVector struct = (StructVector) ((ArrowColumnVector) batch.column(0)).getValueVector();
      // Rows without columns carry a dummy column, which is skipped here.
      ColumnVector[] columns = new ColumnVector[types.length()];
      for (int index = 0; index < columns.length; index++) {
        columns[index] = new LanceColumn(struct.getVectorById(index), types.apply(index).dataType());
      }
      return new ColumnarBatch(columns, batch.numRows());
    }
  }
}
