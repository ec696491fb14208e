package io.lancespark.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;

/** The session of the current thread, which holds catalogs, parser and rules. */
public final class Sessions {
  private Sessions() {}

  public static SparkSession active() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }

  public static CatalogManager catalogs() {
    return active().sessionState().catalogManager();
  }

  /** The namespace of names without one in the session catalog; empty for other catalogs, whose root has tables too. */
  public static String[] sessionNamespace(String catalog) {
    CatalogPlugin current = catalogs().currentCatalog();
    boolean isMeant = CatalogV2Util.isSessionCatalog(current) && current.name().equals(catalog);
    return isMeant ? catalogs().currentNamespace() : new String[0];
  }

  /** The parts of a name as SQL writes it. */
  public static List<String> nameParts(String text) throws ParseException {
    return Catalyst.list(active().sessionState().sqlParser().parseMultipartIdentifier(text));
  }

  /** The query that this thread plans, an object that ends with it; null if it plans none. */
  public static Object planned() {
    return QueryPlanningTracker.get().getOrElse(() -> null);
  }

  /** The plan of a statement, not analyzed. */
  public static LogicalPlan parsed(String text) throws ParseException {
    return active().sessionState().sqlParser().parsePlan(text);
  }

  /** Whether the session of this thread has a resolution rule with this name; false without a session. */
  public static boolean hasResolutionRule(String name) {
    scala.Option<org.apache.spark.sql.SparkSession> session = org.apache.spark.sql.SparkSession.getActiveSession();
    if (session.isEmpty() || !(session.get() instanceof SparkSession classic)) {
      return false;
    }
    for (Rule<LogicalPlan> rule : Catalyst.list(classic.sessionState().analyzer().extendedResolutionRules())) {
      if (rule.ruleName().equals(name)) {
        return true;
      }
    }
    return false;
  }
}
