package io.lancespark.python;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import net.razorvine.pickle.Pickler;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkException;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.execution.python.PythonPlannerRunner;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/**
 * The request channel from the driver to Python: one JSON request with binary attachments, one reply of the same form.
 *
 * <p>Requests run in a warm worker of the module {@code pyspark_lance.planner}. This class and {@link LanceRunner} are
 * the only ones that use classes of Spark which are not part of its public connector interface.
 */
public final class LancePy {
  /** Both ends refuse another number. */
  static final int PROTOCOL = 1;

  /** How small a read is that the planner does by itself. */
  private static final String INLINE_BYTES = "spark.sql.lance.inlineBytes";

  private static final int PYTHON_EXCEPTION = -2;

  /** Answers by the query that is planned and the request; they are dropped with the query. */
  private static final Map<QueryPlanningTracker, Map<String, Reply>> ANSWERS =
      Collections.synchronizedMap(new WeakHashMap<>());

  /** How Spark starts Python. It never changes while a JVM runs, and Spark starts a Python only to find it out. */
  private static volatile SimplePythonFunction python;

  private LancePy() {}

  /** A pickled function as Spark runs it. */
  static SimplePythonFunction function(byte[] command) {
    if (python == null) {
      python = PythonUtils$.MODULE$.createPythonFunction(new byte[0]);
    }
    return new SimplePythonFunction(
        command,
        new HashMap<>(python.envVars()),
        python.pythonIncludes(),
        python.pythonExec(),
        python.pythonVer(),
        python.broadcastVars(),
        python.accumulator());
  }

  /** What Python answers. */
  public record Reply(JsonNode body, List<byte[]> attachments) {}

  /** A request of the operation {@code op}; {@code body} holds its arguments. */
  public static Reply call(String op, ObjectNode body) {
    return call(op, body, List.of());
  }

  /**
   * As {@link #call(String, ObjectNode)}, but once for each query: scans of one query that ask the same share the answer. A
   * table that a query names several times is otherwise planned, and if it is small read, as many times. Only for requests
   * that name a version of a table and change nothing.
   */
  public static Reply callOncePerQuery(String op, ObjectNode body) {
    Option<QueryPlanningTracker> query = QueryPlanningTracker.get();
    if (query.isEmpty()) {
      return call(op, body);
    }
    Map<String, Reply> known = ANSWERS.computeIfAbsent(query.get(), tracker -> new ConcurrentHashMap<>());
    String request = op + session() + body;
    Reply reply = known.get(request);
    if (reply == null) {
      reply = call(op, body);
      known.put(request, reply);
    }
    return reply;
  }

  /**
   * A request with attachments.
   *
   * @throws LanceException (unchecked) if Python answers with one of its own errors
   */
  public static Reply call(String op, ObjectNode body, List<byte[]> attachments) {
    ObjectNode request = Json.object();
    request.put("protocol", PROTOCOL);
    request.put("op", op);
    request.set("session", session());
    request.set("args", body);
    Reply reply;
    try {
      Runner runner = new Runner(request.toString().getBytes(StandardCharsets.UTF_8), attachments);
      reply = runner.runInPython(runner.runInPython$default$1());
    } catch (Throwable error) {
      throw LanceException.sneaky(error);
    }
    JsonNode error = reply.body().get("error");
    if (error != null) {
      LanceStoreFailures.storeFailed(error.get("condition").asText());
      throw LanceException.sneaky(LanceException.of(error));
    }
    return reply;
  }

  private static ObjectNode session() {
    SQLConf conf = SQLConf.get();
    ObjectNode session = Json.object();
    session.put("time_zone", conf.sessionLocalTimeZone());
    session.put("case_sensitive", conf.caseSensitiveAnalysis());
    session.put("parallelism", SparkContext.getOrCreate().defaultParallelism());
    String inline = conf.getConfString(INLINE_BYTES, null);
    if (inline != null) {
      session.put("inline_bytes", inline);
    }
    session.put("store_failed", LanceStoreFailures.hasStoreFailed());
    return session;
  }

  private static final class Runner extends PythonPlannerRunner<Reply> {
    private final byte[] request;
    private final List<byte[]> attachments;

    Runner(byte[] request, List<byte[]> attachments) {
      super(function(new byte[0]));
      this.request = request;
      this.attachments = attachments;
    }

    @Override
    public String workerModule() {
      // Spark's daemon imports the module only if its name starts with "pyspark".
      return "pyspark_lance.planner";
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
        throw LanceException.sneaky(error);
      }
    }

    @Override
    public Reply receiveFromPython(DataInputStream in) {
      try {
        int length = in.readInt();
        if (length == PYTHON_EXCEPTION) {
          throw LanceException.sneaky(
              new SparkException(new String(readBytes(in, in.readInt()), StandardCharsets.UTF_8)));
        }
        JsonNode body = Json.parse(readBytes(in, length));
        List<byte[]> received = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
          received.add(readBytes(in, in.readInt()));
        }
        return new Reply(body, received);
      } catch (JsonProcessingException error) {
        throw new IllegalStateException("the reply of pyspark_lance.planner is not JSON", error);
      } catch (IOException error) {
        throw LanceException.sneaky(error);
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
}
