package io.lancespark.compat.analysis;

import io.lancespark.catalog.LanceTable;
import io.lancespark.compat.Catalyst;
import io.lancespark.compat.Relations;
import io.lancespark.compat.SessionConf;
import io.lancespark.compat.Shims;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * Gives the target of an INSERT its types: a blob column takes bytes, or descriptions, whose bytes the tasks copy. In
 * Spark 4.0 it also gives the rows the columns that they lack.
 *
 * <p>Spark asks for the columns of a target before it knows the rows. Until this rule has seen both, such a table takes
 * any rows; then Spark checks and casts them as those of any table.
 */
public final class LanceInsertTargets extends Rule<LogicalPlan> {
  private static final List<String> MEMBERS = List.of("kind", "position", "size", "blob_id", "blob_uri", "source");

  /** Tables ask whether a session has the rule. */
  @Override
  public String ruleName() {
    return LanceTable.INSERT_RULE;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(
        Catalyst.replacing(
            node ->
                node instanceof V2WriteCommand write && write.query().resolved() && isUndecided(write.table())
                    ? decided(write)
                    : null));
  }

  private static LogicalPlan decided(V2WriteCommand write) {
    DataSourceV2Relation target = (DataSourceV2Relation) write.table();
    LanceTable table = (LanceTable) target.table();
    DataSourceV2Relation decided = decided(target, table.describedIn(described(write, table)));
    LogicalPlan resolved = (LogicalPlan) write.withNewTable(decided);
    return table.fillsColumns() && lacksColumns(write) ? filled((V2WriteCommand) resolved, decided) : resolved;
  }

  /** Whether rows with names lack columns. Those of the store assignment policy LEGACY are left to Spark, to refuse. */
  private static boolean lacksColumns(V2WriteCommand write) {
    return write.isByName()
        && write.query().output().size() < ((LogicalPlan) write.table()).output().size()
        && SQLConf.get().storeAssignmentPolicy() != SQLConf.StoreAssignmentPolicy$.MODULE$.LEGACY();
  }

  private static LogicalPlan filled(V2WriteCommand write, DataSourceV2Relation table) {
    Seq<Attribute> columns = Catalyst.seq(Catalyst.list(table.output()));
    return (LogicalPlan) write.withNewQuery(Shims.resolvedOutput(table.table().name(), columns, write.query()));
  }

  private static boolean isUndecided(NamedRelation table) {
    return table instanceof DataSourceV2Relation relation
        && relation.table() instanceof LanceTable lance
        && lance.isUndecided();
  }

  /** The columns of the table that get descriptions. */
  private static Set<String> described(V2WriteCommand write, LanceTable table) {
    Set<String> names = new HashSet<>();
    StructField[] columns = table.sparkSchema().fields();
    List<Attribute> rows = Catalyst.list(write.query().output());
    for (int index = 0; index < rows.size(); index++) {
      Attribute row = rows.get(index);
      if (!hasDescriptions(row.dataType())) {
        continue;
      }
      if (!write.isByName()) {
        if (index < columns.length) {
          names.add(columns[index].name());
        }
        continue;
      }
      for (StructField column : columns) {
        if (SessionConf.isSameName(column.name(), row.name())) {
          names.add(column.name());
        }
      }
    }
    return names;
  }

  private static boolean hasDescriptions(DataType type) {
    if (!(type instanceof StructType struct)) {
      return false;
    }
    return MEMBERS.equals(List.of(struct.fieldNames()))
        || List.of(struct.fields()).stream().anyMatch(field -> hasDescriptions(field.dataType()));
  }

  private static DataSourceV2Relation decided(DataSourceV2Relation target, LanceTable table) {
    StructType types = table.sparkSchema();
    List<AttributeReference> columns =
        Catalyst.list(target.output()).stream().map(column -> withType(column, types)).toList();
    return Relations.with(target, table, Catalyst.seq(columns));
  }

  private static AttributeReference withType(AttributeReference column, StructType types) {
    return types.getFieldIndex(column.name()).isEmpty()
        ? column
        : column.withDataType(types.apply(column.name()).dataType());
  }
}
