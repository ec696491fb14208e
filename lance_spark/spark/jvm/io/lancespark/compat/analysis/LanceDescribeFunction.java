package io.lancespark.compat.analysis;

import io.lancespark.catalog.SearchCatalog;
import io.lancespark.compat.Catalyst;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunctionName;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.DescribeFunction;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Answers DESCRIBE FUNCTION for the functions of Lance catalogs, which Spark refuses for every catalog but its own. */
public final class LanceDescribeFunction extends Rule<LogicalPlan> {
  private static final StructType ROW = new StructType().add("function_desc", DataTypes.StringType, false);

  private final SparkSession session;

  public LanceDescribeFunction(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan instanceof DescribeFunction statement && statement.child() instanceof UnresolvedFunctionName name
        ? described(statement, Catalyst.list(name.multipartIdentifier()))
        : plan;
  }

  private LogicalPlan described(DescribeFunction statement, List<String> parts) {
    UnboundFunction function = isOfSession(parts) ? null : find(parts);
    if (function == null) {
      return statement;
    }
    String name = String.join(".", parts);
    List<Row> rows = new ArrayList<>();
    rows.add(RowFactory.create("Function: " + name));
    rows.add(RowFactory.create("Class: " + function.getClass().getName()));
    rows.add(RowFactory.create("Usage: " + function.description()));
    if (statement.isExtended()) {
      rows.add(RowFactory.create("Extended Usage:\n    No example/argument for " + name + ".\n"));
    }
    return LocalRelation.fromExternalRows(Catalyst.seq(Catalyst.list(DataTypeUtils.toAttributes(ROW))), Catalyst.seq(rows));
  }

  /** Whether a name means a function of the session, which comes before those of the current catalog. */
  private boolean isOfSession(List<String> parts) {
    SessionCatalog functions = session.sessionState().catalog();
    return parts.size() == 1
        && (functions.lookupBuiltinOrTempFunction(parts.get(0)).isDefined()
            || functions.lookupBuiltinOrTempTableFunction(parts.get(0)).isDefined());
  }

  /** The function of a Lance catalog, or null. */
  private UnboundFunction find(List<String> parts) {
    CatalogManager catalogs = session.sessionState().catalogManager();
    boolean namesCatalog = parts.size() > 1 && catalogs.isCatalogRegistered(parts.get(0));
    CatalogPlugin catalog = namesCatalog ? catalogs.catalog(parts.get(0)) : catalogs.currentCatalog();
    // Spark describes the functions of the session catalog, and calls no others there.
    if (!(catalog instanceof SearchCatalog)
        || CatalogV2Util.isSessionCatalog(catalog)
        || !(catalog instanceof FunctionCatalog functions)) {
      return null;
    }
    List<String> rest = namesCatalog ? parts.subList(1, parts.size()) : parts;
    String[] namespace = rest.subList(0, rest.size() - 1).toArray(new String[0]);
    try {
      return functions.loadFunction(Identifier.of(namespace, rest.get(rest.size() - 1)));
    } catch (NoSuchFunctionException missing) {
      return null;
    }
  }
}
