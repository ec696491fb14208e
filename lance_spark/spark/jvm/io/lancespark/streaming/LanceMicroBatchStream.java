package io.lancespark.streaming;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.python.Json;
import io.lancespark.python.PythonChannel;
import io.lancespark.read.LanceReaderFactory;
import io.lancespark.read.LanceTask;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of a table as a stream. Python decides what a batch holds; offsets are its texts.
 *
 * <p>Spark asks for the latest offset many times a second while nothing happens. Python is asked only when its last
 * answer is older than the option {@code pollInterval}, or than a write of this application: {@code processAllAvailable}
 * promises the rows that were written before.
 */
public final class LanceMicroBatchStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final String QUERY_ID = "sql.streaming.queryId";

  private final JsonNode state;
  private final String description;
  private final long pollMillis;
  private final byte[] function;
  private final StructType columns;

  private String initial;
  private String ending;
  private String latest;
  private String idleAt;
  private long idleSince;
  private long writesSeen;
  private long lastBatch = System.currentTimeMillis();
  private String plannedFor;
  private List<byte[]> planned;
  private JsonNode counts = Json.object();
  private final String source;
  private String heldFrom;

  /**
   * @param handle the version that the DataFrame was made of
   * @param columns those of the stream
   * @param options of the reader
   * @param range of the versions whose changes are read; null for a stream of rows
   * @param checkpoint the folder of this source in the checkpoint of the query; its name is that of the source
   */
  public LanceMicroBatchStream(
      JsonNode handle, StructType columns, JsonNode options, JsonNode range, String checkpoint) {
    this.source = checkpoint.substring(checkpoint.lastIndexOf('/') + 1);
    ObjectNode request = Json.object();
    request.set("changes", range);
    request.set("handle", handle);
    request.set("columns", Json.type(columns));
    request.set("options", options);
    PythonChannel.Reply opened = PythonChannel.call("stream.open", request);
    this.columns = columns;
    this.state = opened.body().get("state");
    this.description = opened.body().get("description").asText();
    this.pollMillis = opened.body().get("poll_millis").asLong();
    this.function = opened.attachments().get(0);
  }

  private ObjectNode request() {
    ObjectNode request = Json.object();
    request.set("state", state);
    return request;
  }

  /** Spark asks at each trigger until there is a batch; versions committed meanwhile must not be skipped. */
  @Override
  public Offset initialOffset() {
    if (initial == null) {
      initial = PythonChannel.call("stream.initial", request()).body().get("offset").asText();
    }
    return new LanceOffset(initial);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ending = PythonChannel.call("stream.newest", request()).body().get("offset").asText();
  }

  /** The limits are options, which Python knows: this one says that they apply. */
  @Override
  public ReadLimit getDefaultReadLimit() {
    return AsConfigured.LIMIT;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a start and a limit");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    String from = start.json();
    boolean isFresh =
        from.equals(idleAt)
            && System.currentTimeMillis() - idleSince < pollMillis
            && writesSeen == PythonChannel.writes();
    String end = isFresh ? from : askLatest(from, limit);
    if (end.equals(from) && writesSeen != PythonChannel.writes()) {
      // Something was written while Python looked.
      end = askLatest(from, limit);
    }
    // A query that has read nothing yet would run a batch without rows.
    return end.equals(from) && from.equals(initial) ? null : new LanceOffset(end);
  }

  private String askLatest(String from, ReadLimit limit) {
    writesSeen = PythonChannel.writes();
    ObjectNode request = request();
    request.put("start", from);
    request.put("is_limited", limit == AsConfigured.LIMIT);
    request.put("waited_millis", System.currentTimeMillis() - lastBatch);
    if (ending != null) {
      request.put("ending", ending);
    }
    String query = SparkContext.getOrCreate().getLocalProperty(QUERY_ID);
    if (query != null && !from.equals(heldFrom)) {
      request.put("query", query);
      request.put("source", source);
    }
    JsonNode reply = PythonChannel.call("stream.latest", request).body();
    // A new query begins with a newer snapshot each time it is asked, until one is logged.
    heldFrom = from.equals(initial) ? null : from;
    String end = reply.get("end").asText();
    latest = reply.get("latest").asText();
    if (end.equals(from)) {
      idleAt = from;
      idleSince = System.currentTimeMillis();
    } else {
      lastBatch = System.currentTimeMillis();
    }
    return end;
  }

  @Override
  public Offset reportLatestOffset() {
    return latest == null ? null : new LanceOffset(latest);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new LanceOffset(json);
  }

  /** Spark plans each batch twice. */
  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    String range = start.json() + end.json();
    if (!range.equals(plannedFor)) {
      ObjectNode request = request();
      request.put("start", start.json());
      request.put("end", end.json());
      PythonChannel.Reply plan = PythonChannel.call("stream.plan", request);
      planned = plan.attachments();
      counts = plan.body().get("counts");
      plannedFor = range;
    }
    return planned.stream()
        .map(work -> new LanceTask.Plain(List.of(work), false))
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LanceReaderFactory(function, columns, false, description);
  }

  @Override
  public void commit(Offset end) {
    // The checkpoint has all that is needed.
  }

  @Override
  public void stop() {
    planned = null;
    plannedFor = null;
  }

  /** Must not throw: the sink has committed when Spark asks. */
  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    Map<String, String> numbers = new TreeMap<>();
    for (Map.Entry<String, JsonNode> count : counts.properties()) {
      numbers.put(count.getKey(), count.getValue().asText());
    }
    long newest = version(latest);
    long read = consumed.isPresent() ? version(consumed.get().json()) : -1;
    if (newest >= 0 && read >= 0) {
      numbers.put("versionsBehind", Long.toString(Math.max(0, newest - read)));
    }
    return numbers;
  }

  private static long version(String offset) {
    if (offset == null) {
      return -1;
    }
    try {
      return Json.parse(offset.getBytes(StandardCharsets.UTF_8)).path("version").asLong(-1);
    } catch (IOException notJson) {
      return -1;
    }
  }

  @Override
  public String toString() {
    return description;
  }

  /** An offset as Python wrote it; offsets are equal if their texts are. */
  private static final class LanceOffset extends Offset {
    private final String json;

    LanceOffset(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }

  private enum AsConfigured implements ReadLimit {
    LIMIT;

    @Override
    public String toString() {
      return "as the options say";
    }
  }
}
