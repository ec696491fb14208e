package io.lancespark.python;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.functions.LanceBlobUri;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import net.razorvine.pickle.Pickler;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkException;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.execution.python.PythonPlannerRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The request channel from the driver to Python: one JSON request with binary attachments, one reply of the same form.
 *
 * <p>A warm planner worker (module {@code pyspark_lance.planner}) answers. This is one of the few classes that use
 * Spark classes outside of its public connector interface; a test lists them.
 */
public final class PythonChannel {
  /** Both ends refuse any other protocol number. */
  static final int PROTOCOL = 2;

  /** What a worker says when it has a whole request, before it does anything for it. */
  private static final int BEGUN = 1;

  /** Settings of the session; Python refuses names with this prefix that it does not know. */
  private static final String PREFIX = "spark.sql.lance.";

  /** Maximum size of a local scan. */
  private static final String INLINE_BYTES = "spark.sql.lance.inlineBytes";
  private static final String TXN_APP_ID = "spark.sql.lance.txnAppId";
  private static final String TXN_VERSION = "spark.sql.lance.txnVersion";
  private static final String TOP_N = "spark.sql.lance.topN.enabled";
  private static final String AGGREGATES = "spark.sql.lance.aggregates.enabled";
  private static final String SELECTIVITY = "spark.sql.lance.selectivity.enabled";
  private static final String USE_SCALAR_INDEX = "spark.sql.lance.useScalarIndex";
  private static final String APPROXIMATE = "spark.sql.lance.vectorSearch.approximate";
  private static final String COMPARED_INLINE = "spark.sql.lance.vectorSearch.inlineBytes";
  private static final String ANALYZED_INLINE = "spark.sql.lance.textSearch.inlineBytes";

  private static final int PYTHON_EXCEPTION = -2;

  /** Operations that only read or plan, and those of this kind: a request can be sent again whatever became of it. */
  private static final Set<String> READS =
      Set.of("table.load", "table.exists", "table.newest", "table.evolve", "catalog.list_namespaces",
          "catalog.list_tables", "catalog.namespace", "partitions.list", "procedure.describe", "row_level.begin",
          "row_level.plan", "row_level.can_delete", "row_level.can_evolve", "write.plan", "write.can_overwrite",
          "write.search", "write.metrics");
  private static final Set<String> KINDS_THAT_READ = Set.of("scan", "search", "changelog", "metadata", "text", "planner");

  /** Of streams, only the commit of an epoch writes. */
  private static final String STREAM_COMMIT = "stream.commit";

  private static final String STREAM = "stream";

  private static final LongAdder WRITES = new LongAdder();

  private static final Logger LOG = LoggerFactory.getLogger(PythonChannel.class);

  /** Replies by query and request; dropped with the query. */
  private static final Map<QueryPlanningTracker, Map<String, Reply>> ANSWERS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private static final Map<String, LongAdder> REQUESTS = new ConcurrentHashMap<>();

  private PythonChannel() {}

  /** How many requests of each operation this JVM has sent. */
  public static Map<String, Long> requests() {
    Map<String, Long> counts = new HashMap<>();
    REQUESTS.forEach((op, count) -> counts.put(op, count.sum()));
    return counts;
  }

  /** How many requests of this JVM have ended that may have written. */
  public static long writes() {
    return WRITES.sum();
  }

  /** A pickled function for tasks, in Spark's form. */
  public static SimplePythonFunction function(byte[] command) {
    return LancePython.inTasks(command);
  }

  /** A reply from Python. */
  public record Reply(JsonNode body, List<byte[]> attachments) {}

  /** Sends a request for operation {@code op} with the arguments in {@code body}. */
  public static Reply call(String op, ObjectNode body) {
    return call(op, body, List.of());
  }

  /**
   * Like {@link #call(String, ObjectNode)}, but equal requests of one query share one reply. Otherwise a table that a
   * query names several times would be planned, and a small one read, each time. Only for read-only requests about a
   * fixed version of a table.
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
   * Sends a request with attachments. If the worker ends before it begins with the request, or before it replies to one
   * that only reads, the request is sent to another one.
   *
   * @throws LanceException (unchecked) if the reply is a {@code LanceError}, if Python cannot be used, or if a request
   *     that may write has begun and got no reply
   */
  public static Reply call(String op, ObjectNode body, List<byte[]> attachments) {
    REQUESTS.computeIfAbsent(op, name -> new LongAdder()).increment();
    Reply reply;
    try (LancePlanner.Use use = LancePlanner.use()) {
      reply = sendUntilRead(op, body, attachments);
    } finally {
      if (mayWrite(op) && (op.equals(STREAM_COMMIT) || !kind(op).equals(STREAM))) {
        WRITES.increment();
      }
    }
    JsonNode error = reply.body().get("error");
    if (error != null) {
      LanceStoreFailures.storeFailed(error.get("condition").asText());
      throw LanceException.sneaky(LanceException.of(error));
    }
    return reply;
  }

  private static Reply sendUntilRead(String op, ObjectNode body, List<byte[]> attachments) {
    Runner first = runner(op, body, attachments);
    try {
      return first.send();
    } catch (Throwable error) {
      if (!isLostWorker(error)) {
        throw LanceException.sneaky(error);
      }
      if (first.begun && mayWrite(op)) {
        throw LanceException.unknown(op, error);
      }
      RuntimeException unusable = first.begun ? null : LancePython.unusable(op, error);
      if (unusable != null) {
        throw unusable;
      }
      LOG.warn("the planner worker ended during {}, which is sent again", op);
    }
    Runner second = runner(op, body, attachments);
    try {
      return second.send();
    } catch (Throwable error) {
      if (isLostWorker(error) && second.begun && mayWrite(op)) {
        throw LanceException.unknown(op, error);
      }
      throw LanceException.sneaky(error);
    }
  }

  private static boolean mayWrite(String op) {
    return !READS.contains(op) && !KINDS_THAT_READ.contains(kind(op));
  }

  private static String kind(String op) {
    return op.substring(0, op.indexOf('.'));
  }

  /** Whether the worker was killed; Spark then finds the end of its stream. An interrupted thread closes it itself. */
  private static boolean isLostWorker(Throwable error) {
    return error instanceof SparkException
        && error.getCause() instanceof IOException
        && !Thread.currentThread().isInterrupted();
  }

  /** The reply to a request, whether or not it is an error. */
  static Reply send(String op, ObjectNode body, List<byte[]> attachments) {
    return runner(op, body, attachments).send();
  }

  private static Runner runner(String op, ObjectNode body, List<byte[]> attachments) {
    ObjectNode request = Json.object();
    request.put("protocol", PROTOCOL);
    request.put("op", op);
    ObjectNode session = session();
    LanceBatchWrites.name(session, op, body);
    request.set("session", session);
    request.set("args", body);
    return new Runner(request.toString().getBytes(StandardCharsets.UTF_8), attachments);
  }

  private static ObjectNode session() {
    SQLConf conf = SQLConf.get();
    ObjectNode session = Json.object();
    session.put("time_zone", conf.sessionLocalTimeZone());
    session.put("case_sensitive", conf.caseSensitiveAnalysis());
    session.put("parallelism", SparkContext.getOrCreate().defaultParallelism());
    put(session, "inline_bytes", INLINE_BYTES);
    put(session, "top_n", TOP_N);
    put(session, "aggregates", AGGREGATES);
    put(session, "selectivity", SELECTIVITY);
    put(session, "use_scalar_index", USE_SCALAR_INDEX);
    put(session, "vector_search_approximate", APPROXIMATE);
    put(session, "vector_search_inline_bytes", COMPARED_INLINE);
    put(session, "text_search_inline_bytes", ANALYZED_INLINE);
    put(session, "txn_app_id", TXN_APP_ID);
    put(session, "txn_version", TXN_VERSION);
    ArrayNode names = session.putArray("setting_names");
    CollectionConverters.asJava(conf.getAllConfs()).keySet().stream()
        .filter(name -> name.startsWith(PREFIX))
        .sorted()
        .forEach(name -> names.add(name.substring(PREFIX.length())));
    session.put("blob_mark", LanceBlobUri.mark());
    session.put("blob_key", LanceBlobUri.key());
    session.put("store_failed", LanceStoreFailures.hasStoreFailed());
    return session;
  }

  /** Adds a setting of the user, if it is set. */
  private static void put(ObjectNode session, String name, String setting) {
    String value = SQLConf.get().getConfString(setting, null);
    if (value != null) {
      session.put(name, value);
    }
  }

  private static final class Runner extends PythonPlannerRunner<Reply> {
    private final byte[] request;
    private final List<byte[]> attachments;
    private boolean begun;

    Runner(byte[] request, List<byte[]> attachments) {
      super(LancePython.inPlanner(new byte[0]));
      this.request = request;
      this.attachments = attachments;
    }

    Reply send() {
      try {
        return runInPython(runInPython$default$1());
      } catch (Throwable error) {
        throw LanceException.sneaky(error);
      }
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
        if (length == BEGUN) {
          begun = true;
          length = in.readInt();
        }
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
