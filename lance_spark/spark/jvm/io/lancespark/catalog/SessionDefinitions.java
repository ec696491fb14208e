package io.lancespark.catalog;

import io.lancespark.compat.BaseCatalog.Definition;
import io.lancespark.compat.SessionConf;
import io.lancespark.python.LanceException;
import io.lancespark.table.LanceIdentifier;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** What the session catalog takes: as its session, as a Lance table below its root, and as an entry of Spark's own. */
public final class SessionDefinitions {
  private static final String SOURCE_CLASS = "io.lancespark.lancesource";
  private static final String PATH = TableCatalog.OPTION_PREFIX + "path";

  private static final String EXTENSIONS = "spark.sql.extensions";

  private SessionDefinitions() {}

  /** Refuses to extend another catalog than Spark's own. */
  public static void checkName(String catalog) {
    if (!catalog.equals("spark_catalog")) {
      throw LanceException.invalid(
          "LanceSessionCatalog cannot be catalog " + catalog + ", it extends Spark's own; set spark.sql.catalog."
              + catalog + " to io.lancespark.LanceCatalog");
    }
  }

  /** Refuses a session without the rules of an extension. */
  public static void checkExtension(String extension) {
    // Not the session's settings, of which Spark has only some while it resolves a view.
    if (!SparkContext.getOrCreate().getConf().get(EXTENSIONS, "").contains(extension)) {
      throw LanceException.invalid(
          "the session catalog takes Lance tables only in a session with " + EXTENSIONS + " = " + extension
              + ", which keeps Spark's tables from their names; set it before the session starts, as"
              + " lance_spark.configure does");
    }
  }

  /**
   * Whether a statement makes a Lance table below the root. One with a LOCATION is an entry of Spark's own catalog.
   *
   * @param like the table whose definition it is; null if a statement declares it
   */
  public static boolean isLance(Definition definition, Table like) {
    Map<String, String> properties = definition.properties();
    if (properties.containsKey(TableCatalog.PROP_LOCATION) || properties.containsKey(PATH)) {
      return false;
    }
    String provider = properties.get(TableCatalog.PROP_PROVIDER);
    if (provider == null && like != null) {
      return like instanceof LanceTable;
    }
    String named = (provider == null ? SessionConf.defaultSource() : provider).toLowerCase(Locale.ROOT);
    return named.equals(LanceIdentifier.SOURCE) || named.equals(SOURCE_CLASS);
  }

  /** Refuses what Spark's own catalog would leave out of a definition. */
  public static void checkEntry(String name, Definition definition) {
    if (definition.hasComputedColumns() || !definition.constraints().isEmpty()) {
      throw LanceException.invalid(
          name + " cannot have generated columns, identity columns or constraints, because Spark's catalog keeps none;"
              + " they are for tables USING lance without a LOCATION");
    }
  }

  /** The error of a REPLACE of a table or view of the other side. */
  public static RuntimeException notReplaced(String name, boolean isOfSpark) {
    String kind =
        isOfSpark
            ? " is a table or view of Spark's catalog, which no Lance table replaces"
            : " is a Lance table below the catalog's root, which no other table replaces";
    return LanceException.invalid(name + kind + "; DROP it first");
  }
}
