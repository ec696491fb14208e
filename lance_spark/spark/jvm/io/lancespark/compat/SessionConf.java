package io.lancespark.compat;

import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/** Settings of the session of the current thread. */
public final class SessionConf {
  /** Spark 4.0 to 4.2 have the second name. */
  private static final String[] SOME_KEYS = {
    "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled"
  };

  private SessionConf() {}

  /** The value of a setting, or {@code otherwise} if it is not set. */
  public static String get(String name, String otherwise) {
    return SQLConf.get().getConfString(name, otherwise);
  }

  /** The names, in ascending order, of the settings that are set and begin with {@code prefix}. */
  public static List<String> names(String prefix) {
    return CollectionConverters.asJava(SQLConf.get().getAllConfs()).keySet().stream()
        .filter(name -> name.startsWith(prefix))
        .sorted()
        .toList();
  }

  /** Sets a setting that is not set. */
  public static void setDefault(String name, String value) {
    if (!SQLConf.get().contains(name)) {
      SQLConf.get().setConfString(name, value);
    }
  }

  public static boolean isCaseSensitive() {
    return SQLConf.get().caseSensitiveAnalysis();
  }

  /** Whether two names are of one column. */
  public static boolean isSameName(String one, String other) {
    return (Boolean) SQLConf.get().resolver().apply(one, other);
  }

  public static String timeZone() {
    return SQLConf.get().sessionLocalTimeZone();
  }

  /** Returns {@code static} or {@code dynamic}, for overwrites without an option of their own. */
  public static String overwriteMode() {
    return SQLConf.get().partitionOverwriteMode().toString().toLowerCase(Locale.ROOT);
  }

  public static String defaultSource() {
    return SQLConf.get().defaultDataSourceName();
  }

  /** Whether joins and aggregations without a shuffle use the keys of partitions. */
  public static boolean usesPartitionKeys() {
    return SQLConf.get().v2BucketingEnabled();
  }

  /** Whether they may also use some of the keys only. */
  public static boolean usesSomePartitionKeys() {
    for (String name : SOME_KEYS) {
      if (Boolean.parseBoolean(get(name, "false"))) {
        return true;
      }
    }
    return false;
  }

  /** Whether the optimizer compares costs. */
  public static boolean comparesCosts() {
    return SQLConf.get().cboEnabled();
  }

  /** The greatest size in bytes of a side of a join that is broadcast. */
  public static long broadcastBytes() {
    return SQLConf.get().autoBroadcastJoinThreshold();
  }
}
