package io.lancespark.table;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.compat.CachedPlans;
import io.lancespark.compat.Relations.Reading;
import java.util.Locale;
import java.util.Set;
import java.util.function.Predicate;

/**
 * Plans that the user has cached. Spark refreshes those in which a changed table has the name that the statement gives
 * it; this class refreshes those in which a table has the same place, whatever its name.
 *
 * <p>It is called after commits, so it never fails: what cannot be compared is refreshed.
 */
public final class LanceCachedPlans {
  private static final Set<String> PINS = Set.of("version", "tag", "timestamp", "versionasof", "timestampasof");

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
        reading -> reading.table() instanceof TableVersion version && !isPinned(reading) && isChanged.test(version));
  }

  /** Whether a relation has chosen the version that it reads. */
  public static boolean isPinned(Reading reading) {
    boolean byPath = reading.identifier() instanceof LanceIdentifier path && pins(path.options().keySet());
    return reading.hasTimeTravel() || byPath || pins(reading.options());
  }

  private static boolean pins(Set<String> options) {
    return options.stream().anyMatch(name -> PINS.contains(name.toLowerCase(Locale.ROOT)));
  }
}
