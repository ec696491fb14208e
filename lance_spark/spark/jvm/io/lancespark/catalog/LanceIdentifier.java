package io.lancespark.catalog;

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
  private final String path;
  private final Map<String, String> options;

  public LanceIdentifier(String path, CaseInsensitiveStringMap options) {
    this.path = path;
    this.options = Map.copyOf(options.asCaseSensitiveMap());
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
