package io.lancespark.table;

import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Names of tables in the session catalog, whose namespaces have one level. */
public final class Identifiers {
  private Identifiers() {}

  /** The table that a longer name begins with, such as that of a branch. */
  public static Identifier parent(Identifier identifier) {
    String[] namespace = identifier.namespace();
    int last = namespace.length - 1;
    return Identifier.of(Arrays.copyOf(namespace, last), namespace[last]);
  }

  /** The new name in RENAME, which Spark passes as it was written: with the catalog, with a namespace, or alone. */
  public static Identifier target(String catalog, Identifier from, Identifier to) {
    String[] written = to.namespace();
    boolean namesCatalog = written.length == 2 && written[0].equalsIgnoreCase(catalog);
    String[] namespace = namesCatalog ? new String[] {written[1]} : written;
    return Identifier.of(namespace.length == 0 ? from.namespace() : namespace, to.name());
  }
}
