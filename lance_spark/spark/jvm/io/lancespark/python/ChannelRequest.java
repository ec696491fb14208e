package io.lancespark.python;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.lancespark.compat.PlannerWorker;
import io.lancespark.compat.SessionConf;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.SparkContext;

/** One request to the planner worker, with the settings of the session that it is sent for. */
final class ChannelRequest {
  static final String MODULE = "pyspark_lance.planner";

  /** Both ends refuse any other protocol number. */
  private static final int PROTOCOL = 2;

  /** Settings of the session; Python refuses names with this prefix that it does not know. */
  private static final String PREFIX = "spark.sql.lance.";

  /** Maximum size of a local scan. */
  private static final String INLINE_BYTES = "spark.sql.lance.inlineBytes";
  private static final String TXN_APP_ID = "spark.sql.lance.txnAppId";
  private static final String TXN_VERSION = "spark.sql.lance.txnVersion";
  private static final String WAP_BRANCH = "spark.wap.branch";
  private static final String WAP_ID = "spark.wap.id";
  private static final String TOP_N = "spark.sql.lance.topN.enabled";
  private static final String AGGREGATES = "spark.sql.lance.aggregates.enabled";
  private static final String SELECTIVITY = "spark.sql.lance.selectivity.enabled";
  private static final String USE_SCALAR_INDEX = "spark.sql.lance.useScalarIndex";
  private static final String APPROXIMATE = "spark.sql.lance.vectorSearch.approximate";
  private static final String COMPARED_INLINE = "spark.sql.lance.vectorSearch.inlineBytes";
  private static final String ANALYZED_INLINE = "spark.sql.lance.textSearch.inlineBytes";

  private final PlannerWorker worker;

  ChannelRequest(String op, ObjectNode body, List<byte[]> attachments) {
    ObjectNode request = Json.object();
    request.put("protocol", PROTOCOL);
    request.put("op", op);
    ObjectNode session = session();
    LanceBatchWrites.name(session, op, body);
    request.set("session", session);
    request.set("args", body);
    byte[] text = request.toString().getBytes(StandardCharsets.UTF_8);
    this.worker = new PlannerWorker(LancePython.inPlanner(new byte[0]), MODULE, text, attachments);
  }

  /** The reply, whether or not it is an error. */
  PlannerWorker.Reply send() {
    return worker.send();
  }

  /** Whether the worker has begun with the request. */
  boolean hasBegun() {
    return worker.hasBegun();
  }

  /** The settings of the session of this thread. */
  static ObjectNode session() {
    ObjectNode session = Json.object();
    session.put("time_zone", SessionConf.timeZone());
    session.put("case_sensitive", SessionConf.isCaseSensitive());
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
    put(session, "wap_branch", WAP_BRANCH);
    put(session, "wap_id", WAP_ID);
    ArrayNode names = session.putArray("setting_names");
    SessionConf.names(PREFIX).forEach(name -> names.add(name.substring(PREFIX.length())));
    session.put("blob_mark", BlobMark.text());
    session.put("blob_key", BlobMark.key());
    session.put("store_failed", LanceStoreFailures.hasStoreFailed());
    return session;
  }

  /** Adds a setting of the user, if it is set. */
  private static void put(ObjectNode session, String name, String setting) {
    String value = SessionConf.get(setting, null);
    if (value != null) {
      session.put(name, value);
    }
  }
}
