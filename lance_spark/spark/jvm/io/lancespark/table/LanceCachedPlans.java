package io.lancespark.table;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.compat.CachedPlans;
import java.util.function.Predicate;

/**
 * Plans that the user has cached. Spark refreshes those in which a changed table has the name that the statement gives
 * it; this class refreshes those in which a table has the same place, whatever its name.
 *
 * <p>It is called after commits, so it never fails: what cannot be compared is refreshed.
 */
public final class LanceCachedPlans {
  private LanceCachedPlans() {}

  /** Whether nothing is cached, so that nothing needs to be known of a table that has changed. */
  public static boolean isEmpty() {
    return CachedPlans.isEmpty();
  }

  /** Refreshes the plans that read the newest version of the branch of the table that {@code handle} is of. */
  public static void refresh(JsonNode handle) {
    JsonNode branch = handle.path("branch");
    refresh(
        version ->
            handle.path("place").equals(version.handle().path("place"))
                && (!(version instanceof WritableVersion) || branch.equals(version.handle().path("branch"))));
  }

  /** Refreshes the plans that read the newest version of any branch of the table at {@code place}. */
  public static void refreshPlace(JsonNode place) {
    refresh(version -> place.equals(version.handle().path("place")));
  }

  /** Refreshes the plans that read the newest version of any table. */
  public static void refreshAll() {
    refresh(version -> true);
  }

  private static void refresh(Predicate<TableVersion> isChanged) {
    CachedPlans.refresh(
        table -> table instanceof TableVersion version && !version.isPinned() && isChanged.test(version));
  }
}
