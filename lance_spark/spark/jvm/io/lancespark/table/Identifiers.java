package io.lancespark.table;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Names of tables in the session catalog, whose namespaces have one level, and paths of columns. */
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

  /** A path into structs as text; backticks only where they are needed. */
  public static String path(List<String> parts) {
    return String.join(
        ".", parts.stream().map(part -> part.matches("\\w+") ? part : "`" + part.replace("`", "``") + "`").toList());
  }
}
