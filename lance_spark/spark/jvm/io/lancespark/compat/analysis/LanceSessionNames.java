package io.lancespark.compat.analysis;

import io.lancespark.catalog.SearchCatalog;
import io.lancespark.compat.Catalyst;
import io.lancespark.python.LanceException;
import io.lancespark.table.LanceIdentifier;
import java.util.List;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.PersistedView$;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.command.AlterTableRenameCommand;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.datasources.CreateTable;
import scala.Option;

/**
 * Keeps tables and views of Spark's own session catalog from the names of Lance tables in it. Spark makes and renames
 * these by commands of its own, which ask no catalog class.
 */
public final class LanceSessionNames extends Rule<LogicalPlan> {
  private static final TreeNodeTag<Boolean> CHECKED = new TreeNodeTag<>("io.lancespark.CheckedName");

  private final SparkSession session;

  public LanceSessionNames(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(Catalyst.replacing(this::checked));
  }

  /** Nothing to do in place of a statement with IF NOT EXISTS whose name is taken; null if the node stays. */
  private LogicalPlan checked(LogicalPlan node) {
    if (node instanceof CreateTable table) {
      checkOverwrite(table);
      return checked(node, table.tableDesc().identifier(), table.mode());
    } else if (node instanceof CreateViewCommand view && view.viewType().equals(PersistedView$.MODULE$)) {
      return checked(node, view.name(), mode(view.allowExisting()));
    } else if (node instanceof CreateTableLikeCommand like) {
      checkSource(like);
      return checked(node, like.targetTable(), mode(like.ifNotExists()));
    } else if (node instanceof AlterTableRenameCommand rename) {
      // Spark renames within a database.
      TableIdentifier target = new TableIdentifier(rename.newName().table(), rename.oldName().database());
      return checked(node, target, SaveMode.ErrorIfExists);
    }
    return null;
  }

  private static SaveMode mode(boolean ifNotExists) {
    return ifNotExists ? SaveMode.Ignore : SaveMode.ErrorIfExists;
  }

  private LogicalPlan checked(LogicalPlan node, TableIdentifier name, SaveMode mode) {
    if (node.getTagValue(CHECKED).isDefined()) {
      return null;
    }
    node.setTagValue(CHECKED, true);
    if (!isLance(name)) {
      return null;
    }
    return switch (mode) {
      case Ignore -> LocalRelation.fromExternalRows(Catalyst.seq(List.of()), Catalyst.seq(List.of()));
      case ErrorIfExists -> throw LanceException.sneaky(new TableAlreadyExistsException(identifier(name)));
      default -> throw LanceException.invalid(
          name.unquotedString() + " is a Lance table; write to it with format('lance') or writeTo, or DROP it first");
    };
  }

  private boolean isLance(TableIdentifier name) {
    CatalogPlugin catalog = session.sessionState().catalogManager().v2SessionCatalog();
    return catalog instanceof SearchCatalog lance && lance.isLance(identifier(name));
  }

  private Identifier identifier(TableIdentifier name) {
    String database = name.database().getOrElse(() -> session.sessionState().catalog().getCurrentDatabase());
    return Identifier.of(new String[] {database}, name.table());
  }

  /** Refuses an overwrite of one of Spark's tables by {@code format("lance")}: Spark would run a command for files. */
  private static void checkOverwrite(CreateTable table) {
    boolean isOverwrite = table.mode() == SaveMode.Overwrite;
    if (isOverwrite && isLance(table.tableDesc().provider())) {
      throw LanceException.invalid(
          table.tableDesc().identifier().unquotedString()
              + " is a table or view of Spark's catalog, which no Lance table replaces; DROP it first");
    }
  }

  /** Refuses to copy the definition of a Lance table, or to make an entry for one without a place. */
  private void checkSource(CreateTableLikeCommand like) {
    if (isLance(like.provider()) || isLance(like.sourceTable())) {
      String source = like.sourceTable().unquotedString();
      String target = like.targetTable().unquotedString();
      throw LanceException.invalid(
          "CREATE TABLE " + target + " LIKE " + source + " makes no Lance table; write CREATE TABLE " + target
              + " USING lance AS SELECT * FROM " + source + " LIMIT 0");
    }
  }

  private static boolean isLance(Option<String> provider) {
    return provider.isDefined() && provider.get().equalsIgnoreCase(LanceIdentifier.SOURCE);
  }
}
