package io.lancespark.compat;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import net.razorvine.pickle.Pickler;
import org.apache.spark.SparkException;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.execution.python.PythonPlannerRunner;

/** One request to a Python worker that plans: bytes with attachments, and a reply of the same form. */
public final class PlannerWorker extends PythonPlannerRunner<PlannerWorker.Reply> {
  /** The answer of a worker that has the complete request, before it does anything for it. */
  private static final int BEGUN = 1;

  private static final int PYTHON_EXCEPTION = -2;

  private final String module;
  private final byte[] request;
  private final List<byte[]> attachments;
  private boolean begun;

  /** A reply, whether or not it is an error. */
  public record Reply(byte[] body, List<byte[]> attachments) {}

  /**
   * @param module of the worker; Spark's daemon imports it only if its name starts with "pyspark"
   */
  public PlannerWorker(SimplePythonFunction function, String module, byte[] request, List<byte[]> attachments) {
    super(function);
    this.module = module;
    this.request = request;
    this.attachments = attachments;
  }

  public Reply send() {
    try {
      return runInPython(runInPython$default$1());
    } catch (Throwable error) {
      throw SparkError.sneaky(error);
    }
  }

  /** Whether the worker has the complete request. */
  public boolean hasBegun() {
    return begun;
  }

  @Override
  public String workerModule() {
    return module;
  }

  @Override
  public void writeToPython(DataOutputStream out, Pickler pickler) {
    try {
      writeBytes(out, request);
      out.writeInt(attachments.size());
      for (byte[] attachment : attachments) {
        writeBytes(out, attachment);
      }
    } catch (IOException error) {
      throw SparkError.sneaky(error);
    }
  }

  @Override
  public Reply receiveFromPython(DataInputStream in) {
    try {
      int length = in.readInt();
      if (length == BEGUN) {
        begun = true;
        length = in.readInt();
      }
      if (length == PYTHON_EXCEPTION) {
        throw SparkError.sneaky(new SparkException(new String(readBytes(in, in.readInt()), StandardCharsets.UTF_8)));
      }
      byte[] body = readBytes(in, length);
      List<byte[]> received = new ArrayList<>();
      for (int left = in.readInt(); left > 0; left--) {
        received.add(readBytes(in, in.readInt()));
      }
      return new Reply(body, received);
    } catch (IOException error) {
      throw SparkError.sneaky(error);
    }
  }

  private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  private static byte[] readBytes(DataInputStream in, int length) throws IOException {
    byte[] bytes = new byte[length];
    in.readFully(bytes);
    return bytes;
  }
}
