package io.lancespark.python;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.PlannerWorker;
import io.lancespark.compat.Sessions;
import java.io.IOException;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.SparkException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The request channel from the driver to Python: one JSON request with binary attachments, one reply of the same form.
 *
 * <p>A warm planner worker ({@link ChannelRequest#MODULE}) answers.
 */
public final class PythonChannel {
  /** Operations that only read or plan, and those of this kind: a request can be sent again whatever became of it. */
  private static final Set<String> READS =
      Set.of("table.load", "table.exists", "table.newest", "table.evolve", "catalog.list_namespaces",
          "catalog.list_tables", "catalog.list_relations", "catalog.list_views", "catalog.namespace", "catalog.view",
          "catalog.view_exists", "partitions.list", "procedure.describe", "row_level.begin",
          "row_level.plan", "row_level.can_delete", "row_level.can_evolve", "write.plan", "write.can_overwrite",
          "write.search", "write.metrics");
  private static final Set<String> KINDS_THAT_READ = Set.of("scan", "search", "changelog", "metadata", "text", "planner");

  /** Of streams, only the commit of an epoch writes. */
  private static final String STREAM_COMMIT = "stream.commit";

  private static final String STREAM = "stream";

  private static final LongAdder WRITES = new LongAdder();

  private static final Logger LOG = LoggerFactory.getLogger(PythonChannel.class);

  /** Replies by query and request; dropped with the query. */
  private static final Map<Object, Map<String, Reply>> ANSWERS =
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
    Object query = Sessions.planned();
    if (query == null) {
      return call(op, body);
    }
    Map<String, Reply> answers = ANSWERS.computeIfAbsent(query, planned -> new ConcurrentHashMap<>());
    String request = op + ChannelRequest.session() + body;
    Reply reply = answers.get(request);
    if (reply == null) {
      reply = call(op, body);
      answers.put(request, reply);
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
    ChannelRequest first = new ChannelRequest(op, body, attachments);
    try {
      return reply(first.send());
    } catch (Throwable error) {
      if (!isLostWorker(error) && !hasNoDaemon(error)) {
        throw LanceException.sneaky(error);
      }
      if (first.hasBegun() && mayWrite(op)) {
        throw LanceException.unknown(op, error);
      }
      RuntimeException unusable = first.hasBegun() ? null : LancePython.unusable(op, error);
      if (unusable != null) {
        throw unusable;
      }
      LOG.warn("the planner worker ended during {}, which is sent again", op);
    }
    ChannelRequest second = new ChannelRequest(op, body, attachments);
    try {
      return reply(second.send());
    } catch (Throwable error) {
      if (isLostWorker(error) && second.hasBegun() && mayWrite(op)) {
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

  /** Whether no worker could be started: before 4.2 Spark's daemon imports the planner, and ends if that fails. */
  private static boolean hasNoDaemon(Throwable error) {
    return error instanceof SparkException && String.valueOf(error.getMessage()).contains("Error from python worker");
  }

  private static Reply reply(PlannerWorker.Reply reply) {
    try {
      return new Reply(Json.parse(reply.body()), reply.attachments());
    } catch (IOException error) {
      throw new IllegalStateException("the reply of " + ChannelRequest.MODULE + " is not JSON", error);
    }
  }
}
