package io.lancespark;

import io.lancespark.compat.Catalyst;
import io.lancespark.compat.analysis.LanceRefusal;
import io.lancespark.python.LanceSpark;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Refuses the statements of a session with a Lance catalog if this jar is for a newer Spark. The check of the catalog
 * itself would be too late: its class implements interfaces that an older Spark does not have. Spark finds this class as
 * a service of the jar when a session starts.
 */
public final class LanceVersionCheck extends AbstractFunction1<SparkSessionExtensions, BoxedUnit>
    implements SparkSessionExtensionsProvider {
  private static final String CATALOGS = "spark.sql.catalog.";
  private static final List<String> CLASSES =
      List.of("io.lancespark.LanceCatalog", "io.lancespark.LanceSessionCatalog");

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    if (LanceSpark.isForNewer() && hasCatalog()) {
      // Spark only logs what a service throws. These rules run before one that loads a catalog.
      extensions.injectHintResolutionRule(Catalyst.rule(() -> new LanceRefusal(LanceSpark::check)));
    }
    return BoxedUnit.UNIT;
  }

  private static boolean hasCatalog() {
    return Arrays.stream(SparkContext.getOrCreate().getConf().getAllWithPrefix(CATALOGS))
        .anyMatch(setting -> CLASSES.contains(setting._2()));
  }
}
