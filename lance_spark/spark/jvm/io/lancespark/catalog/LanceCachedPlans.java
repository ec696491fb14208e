package io.lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.optimizer.Cases;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.IndexedSeq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Plans that the user has cached. Spark refreshes those in which a changed table has the name that the statement gives
 * it; this class refreshes those in which a table has the same place, whatever its name.
 *
 * <p>It is called after commits, so it never fails: what cannot be compared is refreshed.
 */
public final class LanceCachedPlans {
  private static final Set<String> PINS = Set.of("version", "tag", "timestamp", "versionasof", "timestampasof");
  private static final Logger LOG = LoggerFactory.getLogger(LanceCachedPlans.class);

  private LanceCachedPlans() {}

  /** Whether nothing is cached, so that nothing needs to be known of a table that has changed. */
  static boolean isEmpty() {
    return manager().isEmpty();
  }

  /** Refreshes the plans that read the newest version of the branch of the table that {@code handle} is of. */
  public static void refresh(JsonNode handle) {
    JsonNode place = handle.path("place");
    JsonNode branch = handle.path("branch");
    refresh(
        table ->
            place.equals(placeOf(table))
                && !(table instanceof LanceTable of && !branch.equals(of.handle().path("branch"))));
  }

  /** Refreshes the plans that read the newest version of any branch of the table at {@code place}. */
  public static void refreshPlace(JsonNode place) {
    refresh(table -> place.equals(placeOf(table)));
  }

  /** Refreshes the plans that read the newest version of any table. */
  public static void refreshAll() {
    refresh(table -> placeOf(table) != null);
  }

  private static void refresh(Predicate<Table> isChanged) {
    CacheManager manager = manager();
    if (manager.isEmpty()) {
      return;
    }
    Cases<Boolean> changed = new Cases<>() {
      @Override
      protected Boolean of(LogicalPlan node) {
        boolean reads = node instanceof DataSourceV2Relation relation
            && !isPinned(relation)
            && isChanged.test(relation.table());
        return reads ? true : null;
      }
    };
    for (LogicalPlan plan : plans(manager)) {
      if (!plan.collectWithSubqueries(changed).isEmpty()) {
        recache(manager, plan);
      }
    }
  }

  private static void recache(CacheManager manager, LogicalPlan plan) {
    try {
      manager.recacheByPlan(session(), plan);
    } catch (Exception error) {
      // Spark drops the rows first, so they are read again when they are needed.
      LOG.warn("a cached plan is not cached again", error);
    }
  }

  /** The place of a table of which a plan may read a newer version; null of all others. */
  private static JsonNode placeOf(Table table) {
    if (table instanceof LanceTable found) {
      return found.handle().path("place");
    }
    return table instanceof LanceMetadataTable found ? found.handle().path("place") : null;
  }

  /** Whether a relation has chosen the version that it reads. */
  public static boolean isPinned(DataSourceV2Relation relation) {
    boolean byPath = relation.identifier().isDefined() && relation.identifier().get() instanceof LanceIdentifier path
        && pins(path.options().keySet());
    return relation.timeTravelSpec().isDefined() || byPath || pins(relation.options().keySet());
  }

  private static boolean pins(Set<String> options) {
    return options.stream().anyMatch(name -> PINS.contains(name.toLowerCase(Locale.ROOT)));
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
    return session().sharedState().cacheManager();
  }

  private static SparkSession session() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }
}
