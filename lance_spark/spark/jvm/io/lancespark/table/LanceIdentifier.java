package io.lancespark.table;

import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The identifier of a table by path, from {@code load(path)} or {@code save(path)}, with their options.
 *
 * <p>The identifier carries the options because Spark does not pass them to the catalog in every call.
 */
public final class LanceIdentifier implements Identifier {
  /** The name of the data source. */
  public static final String SOURCE = "lance";

  /** The catalog of paths; not for names. */
  public static final String CATALOG = "lance_path";

  private static final ThreadLocal<LanceIdentifier> LATEST = new ThreadLocal<>();

  private final String path;
  private final Map<String, String> options;

  private LanceIdentifier(String path, CaseInsensitiveStringMap options) {
    this.path = path;
    this.options = Map.copyOf(options.asCaseSensitiveMap());
  }

  /**
   * The table that {@code load} or {@code save} names with {@code options}.
   *
   * <p>A {@code save} that makes the table turns the identifier into plain text before it calls the catalog. It does so in
   * this thread, so {@link #resolve} finds the identifier again.
   */
  public static LanceIdentifier of(CaseInsensitiveStringMap options) {
    String path = options.get("path");
    LanceIdentifier identifier = new LanceIdentifier(path == null ? "" : path, options);
    LATEST.set(identifier);
    return identifier;
  }

  /** The identifier that the text of a name in the catalog of paths came from; others stay as they are. */
  public static Identifier resolve(Identifier identifier) {
    if (identifier instanceof LanceIdentifier) {
      return identifier; // The latest one may be of another branch or version of the same path.
    }
    LanceIdentifier latest = LATEST.get();
    boolean isPath = identifier.namespace().length == 0 && latest != null && identifier.name().equals(latest.path);
    return isPath ? latest : identifier;
  }

  public Map<String, String> options() {
    return options;
  }

  @Override
  public String[] namespace() {
    return new String[0];
  }

  @Override
  public String name() {
    return path;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LanceIdentifier that && path.equals(that.path) && options.equals(that.options);
  }

  @Override
  public int hashCode() {
    return Objects.hash(path, options);
  }

  @Override
  public String toString() {
    return path;
  }
}
