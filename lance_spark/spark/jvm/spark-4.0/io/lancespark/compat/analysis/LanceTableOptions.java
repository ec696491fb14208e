package io.lancespark.compat.analysis;

import io.lancespark.catalog.LanceStagedTable;
import io.lancespark.compat.BaseCatalog;
import io.lancespark.compat.Catalyst;
import io.lancespark.compat.SparkCatalog;
import io.lancespark.python.LanceException;
import io.lancespark.table.LanceIdentifier;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext$;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Options that choose the state of a table by name. Spark passes them to catalogs from 4.3 on; before, it would read
 * or change the newest version of the main branch without an error. Here a branch becomes a part of the name, and a
 * version or tag a clause of time travel; other options are refused. The targets of {@code save(path)} and of writes
 * with mergeSchema are loaded again, as what they are.
 */
public final class LanceTableOptions extends Rule<LogicalPlan> {
  private static final String BRANCH = "branch";
  private static final String VERSION = "version";
  private static final String TAG = "tag";
  private static final String TIMESTAMP = "timestamp";
  private static final String MERGE_SCHEMA = "mergeSchema";
  private static final List<String> VERSIONS = List.of(VERSION, TAG, TIMESTAMP);

  private static final List<String> INSERT = List.of("INSERT");
  private static final List<String> OVERWRITE = List.of("INSERT", "DELETE");

  /** The state options that choose columns of a read. */
  private static final List<String> COLUMNS = List.of("columns", "with_row_id", "with_row_address");

  /** All options that this rule knows. */
  private static final List<String> ALL =
      List.of(BRANCH, VERSION, TAG, TIMESTAMP, MERGE_SCHEMA, "columns", "with_row_id", "with_row_address");

  /** A target that this rule has loaded. */
  private static final TreeNodeTag<Boolean> LOADED = new TreeNodeTag<>("io.lancespark.LoadedTarget");

  private final SparkSession session;

  private LanceTableOptions(SparkSession session) {
    this.session = session;
  }

  static void inject(SparkSessionExtensions extensions) {
    extensions.injectHintResolutionRule(Catalyst.ruleOf(LanceTableOptions::new));
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(Catalyst.replacing(this::replaced));
  }

  /** Returns null if the node stays. */
  private LogicalPlan replaced(LogicalPlan node) {
    if (node instanceof UnresolvedRelation relation) {
      return read(relation);
    } else if (node instanceof RelationTimeTravel travel && travel.relation() instanceof UnresolvedRelation relation) {
      UnresolvedRelation named = ofBranch(relation, relation.options());
      return named == null
          ? null
          : aliased(relation, new RelationTimeTravel(named, travel.timestamp(), travel.version()));
    } else if (node instanceof InsertIntoStatement insert && insert.table() instanceof UnresolvedRelation relation) {
      NamedRelation target = target(relation, relation.options(), INSERT);
      if (target instanceof DataSourceV2Relation loaded) {
        // An INSERT has no other place for the options of its write.
        return with(insert, 0, with(loaded, 4, relation.clearWritePrivileges().options()));
      }
      return target == null ? null : with(insert, 0, target);
    }
    return node instanceof V2WriteCommand write ? written(write) : null;
  }

  private LogicalPlan read(UnresolvedRelation relation) {
    if (hasNone(relation.options())) {
      return null;
    }
    UnresolvedRelation named = ofBranch(relation, relation.options());
    if (relation.isStreaming() || qualified(relation) == null) {
      return named == null ? null : aliased(relation, named);
    }
    CaseInsensitiveStringMap options = relation.options();
    if (options.containsKey(TIMESTAMP)) {
      throw LanceException.invalid(
          "this version of Spark passes the option timestamp to no table by name; use timestampAsOf");
    }
    for (String name : COLUMNS) {
      if (options.containsKey(name)) {
        throw LanceException.invalid(
            "this version of Spark passes the option " + name + " to no table by name; load the table by its path");
      }
    }
    if (options.containsKey(VERSION) && options.containsKey(TAG)) {
      throw LanceException.invalid("options version and tag both choose a version; keep one");
    }
    if (options.containsKey(VERSION) && !options.get(VERSION).strip().matches("[0-9]+")) {
      throw LanceException.invalid("option version is '" + options.get(VERSION) + "', which is not an integer");
    }
    String version = options.containsKey(VERSION) ? options.get(VERSION) : options.get(TAG);
    if (version == null) {
      return named == null ? null : aliased(relation, named);
    }
    UnresolvedRelation newest = without(named == null ? relation : named, List.of(VERSION, TAG));
    return aliased(relation, new RelationTimeTravel(newest, Option.empty(), Option.apply(version)));
  }

  /** The plan under the name that the query gives the relation. */
  private LogicalPlan aliased(UnresolvedRelation relation, LogicalPlan plan) {
    return SubqueryAlias$.MODULE$.apply(Catalyst.seq(qualified(relation)), plan);
  }

  private LogicalPlan written(V2WriteCommand write) {
    CaseInsensitiveStringMap options = options(write);
    List<String> privileges = write instanceof AppendData ? INSERT : OVERWRITE;
    NamedRelation target = null;
    if (options != null && write.table() instanceof UnresolvedRelation relation) {
      target = target(relation, options, privileges);
    } else if (options != null
        && write.table() instanceof DataSourceV2Relation relation
        // A table that the statement makes refuses a branch itself; the rows must not go anywhere else.
        && !(relation.table() instanceof LanceStagedTable)
        && relation.getTagValue(LOADED).isEmpty()
        && relation.catalog().getOrElse(() -> null) instanceof SparkCatalog catalog
        && relation.identifier().isDefined()) {
      target =
          relation.identifier().get() instanceof LanceIdentifier path
              ? loaded(catalog, path, privileges, Map.of())
              : target(unresolved(catalog, relation.identifier().get(), privileges), options, privileges);
    }
    return target == null ? null : (LogicalPlan) write.withNewTable(target);
  }

  /** The options of a write by a DataFrame; null for other writes. */
  private static CaseInsensitiveStringMap options(V2WriteCommand write) {
    scala.collection.immutable.Map<String, String> options =
        write instanceof AppendData append
            ? append.writeOptions()
            : write instanceof OverwriteByExpression overwrite
                ? overwrite.writeOptions()
                : write instanceof OverwritePartitionsDynamic partitions ? partitions.writeOptions() : null;
    return options == null ? null : new CaseInsensitiveStringMap(CollectionConverters.asJava(options));
  }

  /** The name of a table that Spark has loaded without the options of the write. */
  private static UnresolvedRelation unresolved(SparkCatalog catalog, Identifier identifier, List<String> privileges) {
    List<String> parts = new ArrayList<>(List.of(catalog.name()));
    parts.addAll(List.of(identifier.namespace()));
    parts.add(identifier.name());
    Map<String, String> options = Map.of(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES(), String.join(",", privileges));
    return new UnresolvedRelation(Catalyst.seq(parts), new CaseInsensitiveStringMap(options), false);
  }

  /** The target of a write with {@code options}; null if it stays. */
  private NamedRelation target(
      UnresolvedRelation relation, CaseInsensitiveStringMap options, List<String> privileges) {
    List<String> name = hasNone(options) ? null : qualified(relation);
    if (name == null) {
      return null;
    }
    for (String each : VERSIONS) {
      if (options.containsKey(each)) {
        throw LanceException.invalid("a write has no option " + each + ": it makes a new version");
      }
    }
    UnresolvedRelation named = ofBranch(relation, options);
    if (!options.containsKey(MERGE_SCHEMA)) {
      return named;
    }
    List<String> parts = named == null ? name : Catalyst.list(named.multipartIdentifier());
    int last = parts.size() - 1;
    Identifier identifier = Identifier.of(parts.subList(1, last).toArray(new String[0]), parts.get(last));
    SparkCatalog catalog = (SparkCatalog) session.sessionState().catalogManager().catalog(parts.get(0));
    return loaded(catalog, identifier, privileges, Map.of(MERGE_SCHEMA, options.get(MERGE_SCHEMA)));
  }

  /** The table as the target of a write. */
  private static DataSourceV2Relation loaded(
      SparkCatalog catalog, Identifier identifier, List<String> privileges, Map<String, String> options) {
    try {
      Table table = catalog.load(identifier, new BaseCatalog.State(null, null, privileges), options);
      DataSourceV2Relation relation =
          DataSourceV2Relation.create(table, Option.apply(catalog), Option.apply(identifier));
      relation.setTagValue(LOADED, true);
      return relation;
    } catch (NoSuchTableException error) {
      throw LanceException.sneaky(error);
    }
  }

  /** The relation with the branch that {@code options} name in its own name; null if it stays. */
  private UnresolvedRelation ofBranch(UnresolvedRelation relation, CaseInsensitiveStringMap options) {
    String branch = options.get(BRANCH);
    List<String> parts = branch == null || branch.equals("main") ? null : qualified(relation);
    String last = "branch_" + branch;
    if (parts == null || parts.get(parts.size() - 1).equals(last)) {
      return null;
    }
    List<String> name = new ArrayList<>(parts);
    name.add(last);
    UnresolvedRelation rest = without(relation, List.of(BRANCH));
    return rest.copy(Catalyst.seq(name), rest.options(), rest.isStreaming());
  }

  private static boolean hasNone(CaseInsensitiveStringMap options) {
    return ALL.stream().noneMatch(options::containsKey);
  }

  private static UnresolvedRelation without(UnresolvedRelation relation, List<String> names) {
    Map<String, String> options = new HashMap<>(relation.options().asCaseSensitiveMap());
    options.keySet().removeIf(key -> names.stream().anyMatch(key::equalsIgnoreCase));
    return relation.copy(
        relation.multipartIdentifier(), new CaseInsensitiveStringMap(options), relation.isStreaming());
  }

  /** The name of a Lance table, catalog first; null for other relations. */
  private List<String> qualified(UnresolvedRelation relation) {
    if (session.sessionState().catalog().isTempView(relation.multipartIdentifier())) {
      return null;
    }
    List<String> parts = Catalyst.list(relation.multipartIdentifier());
    List<String> ofView = Catalyst.list(AnalysisContext$.MODULE$.get().catalogAndNamespace());
    if (!ofView.isEmpty() && !session.sessionState().catalogManager().isCatalogRegistered(parts.get(0))) {
      List<String> whole = new ArrayList<>(parts.size() == 1 ? ofView : ofView.subList(0, 1));
      whole.addAll(parts);
      parts = whole;
    }
    return LanceParser.resolve(session, parts);
  }

  /** A node with another argument; Spark's versions have other arguments behind it. */
  private static LogicalPlan with(LogicalPlan node, int place, Object argument) {
    Object[] arguments = CollectionConverters.asJava(node.productIterator().toSeq()).toArray();
    arguments[place] = argument;
    return (LogicalPlan) node.makeCopy(arguments);
  }
}
