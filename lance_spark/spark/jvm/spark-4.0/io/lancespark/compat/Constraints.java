package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.TableChange;

/** Constraints of tables, which Spark has from 4.1 on. */
public final class Constraints {
  private Constraints() {}

  /**
   * A constraint as a statement declares it.
   *
   * @param condition in SQL; null if it is not a CHECK
   */
  public record Declared(String name, String kind, boolean isEnforced, String condition) {}

  /**
   * A change of the constraints of a table.
   *
   * @param added null if the constraint {@code dropped} is dropped
   */
  public record Change(Declared added, String dropped, boolean ifExists) {}

  /** Returns null: no change of a table is one of its constraints. */
  public static Change change(TableChange change) {
    return null;
  }
}
