package io.lancespark.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** Constraints of tables. */
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

  static List<Declared> of(Constraint[] constraints) {
    List<Declared> declared = new ArrayList<>();
    for (Constraint constraint : constraints) {
      declared.add(declared(constraint));
    }
    return declared;
  }

  private static Declared declared(Constraint constraint) {
    return new Declared(
        constraint.name(),
        constraint.getClass().getSimpleName().toUpperCase(Locale.ROOT),
        constraint.enforced(),
        constraint instanceof Check check ? check.predicateSql() : null);
  }

  /** The change of constraints that a change of a table is; null for other changes. */
  public static Change change(TableChange change) {
    if (change instanceof TableChange.AddConstraint add) {
      return new Change(declared(add.constraint()), null, false);
    }
    return change instanceof TableChange.DropConstraint drop ? new Change(null, drop.name(), drop.ifExists()) : null;
  }

  /** The CHECK constraints with these names and conditions, which all rows meet. */
  static Constraint[] checks(List<Declared> declared) {
    Constraint[] constraints = new Constraint[declared.size()];
    for (int index = 0; index < constraints.length; index++) {
      constraints[index] =
          Constraint.check(declared.get(index).name())
              .predicateSql(declared.get(index).condition())
              .enforced(true)
              .validationStatus(Constraint.ValidationStatus.VALID)
              .build();
    }
    return constraints;
  }
}
