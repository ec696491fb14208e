package io.lancespark.compat;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.IndexedSeq;
import scala.jdk.javaapi.CollectionConverters;

/** The plans that users have cached in this application. */
public final class CachedPlans {
  private static final Logger LOG = LoggerFactory.getLogger(CachedPlans.class);

  private CachedPlans() {}

  public static boolean isEmpty() {
    return manager().isEmpty();
  }

  /** Caches the plans again that read a table for which {@code isChanged} is true. Never fails. */
  public static void refresh(Predicate<Table> isChanged) {
    CacheManager manager = manager();
    if (manager.isEmpty()) {
      return;
    }
    for (LogicalPlan plan : plans(manager)) {
      if (Relations.tables(plan).stream().anyMatch(isChanged)) {
        refresh(manager, plan);
      }
    }
  }

  private static void refresh(CacheManager manager, LogicalPlan plan) {
    try {
      manager.recacheByPlan(Sessions.active(), plan);
    } catch (Exception error) {
      // Spark drops the rows first, so they are read again when they are needed.
      LOG.warn("a cached plan is not cached again", error);
    }
  }

  /** The cached plans, which Spark has no public list of. */
  private static List<LogicalPlan> plans(CacheManager manager) {
    List<LogicalPlan> plans = new ArrayList<>();
    try {
      Method cached = CacheManager.class.getDeclaredMethod("cachedData");
      cached.setAccessible(true);
      CollectionConverters.asJava((IndexedSeq<?>) cached.invoke(manager))
          .forEach(each -> plans.add(((CachedData) each).plan()));
    } catch (ReflectiveOperationException error) {
      LOG.warn("cached plans are not refreshed: run REFRESH TABLE after writes under another name", error);
    }
    return plans;
  }

  private static CacheManager manager() {
    return Sessions.active().sharedState().cacheManager();
  }
}
