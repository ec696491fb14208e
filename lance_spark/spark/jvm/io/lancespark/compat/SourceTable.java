package io.lancespark.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.DataSource$;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Description of a table, a view or a folder of files that Spark reads by its own sources. */
public final class SourceTable {
  /** One file of the source; {@code path} as the column {@code _metadata.file_path} has it. */
  public record File(String path, long size, long modified) {}

  private final StructType columns;
  private final List<String> partitioning = new ArrayList<>();
  private final Map<String, String> properties = new TreeMap<>();
  private final Map<String, String> options = new TreeMap<>();
  private List<File> files;
  private String comment;
  private String buckets;
  private boolean isLance;

  /** Reads what the session knows of {@code name}, as SQL writes it. */
  public SourceTable(String name) {
    SparkSession session = Sessions.active();
    LogicalPlan whole = ((org.apache.spark.sql.classic.Dataset<?>) session.table(name)).queryExecution().analyzed();
    LogicalPlan plan = whole;
    while (plan instanceof SubqueryAlias || plan instanceof Project) {
      plan = plan instanceof SubqueryAlias alias ? alias.child() : ((Project) plan).child();
    }
    Table table = Relations.table(plan);
    if (plan instanceof LogicalRelation relation) {
      columns = ofFiles(relation, whole.schema());
    } else {
      columns = CharVarcharUtils.getRawSchema(whole.schema());
    }
    if (table != null) {
      isLance = table.getClass().getName().startsWith("io.lancespark.");
      properties.putAll(table.properties());
      comment = properties.remove("comment");
      for (Transform transform : table.partitioning()) {
        partitioning.add(transform.describe());
      }
    }
  }

  /** Whether the session has a source of this name. */
  public static boolean hasFormat(String format) {
    try {
      DataSource$.MODULE$.lookupDataSource(format, Sessions.active().sessionState().conf());
      return true;
    } catch (Throwable error) { // Scala throws checked exceptions without declaring them.
      if (error instanceof Error fatal && !(error instanceof LinkageError)) {
        throw fatal;
      }
      return false;
    }
  }

  private StructType ofFiles(LogicalRelation relation, StructType read) {
    StructType schema = read;
    if (relation.relation() instanceof HadoopFsRelation source) {
      files = new ArrayList<>();
      for (PartitionDirectory directory : Catalyst.list(source.location().listFiles(Catalyst.seq(List.of()), Catalyst.seq(List.of())))) {
        for (FileStatusWithMetadata file : Catalyst.list(directory.files())) {
          files.add(new File(written(file.getPath()), file.getLen(), file.getModificationTime()));
        }
      }
      for (StructField field : source.partitionSchema().fields()) {
        partitioning.add(quoted(field.name()));
      }
      options.putAll(CollectionConverters.asJava(source.options()));
      buckets = source.bucketSpec().isDefined() ? source.bucketSpec().get().toString() : null;
    }
    if (relation.catalogTable().isDefined()) {
      CatalogTable entry = relation.catalogTable().get();
      schema = entry.schema();
      comment = entry.comment().isDefined() ? entry.comment().get() : null;
      properties.putAll(CollectionConverters.asJava(entry.properties()));
    }
    return CharVarcharUtils.getRawSchema(schema);
  }

  /** A path in the form of {@code _metadata.file_path}, where Spark reads it from its text once more. */
  private static String written(Path path) {
    return new Path(path.toString()).toUri().toString();
  }

  private static String quoted(String name) {
    return "`" + name.replace("`", "``") + "`";
  }

  public StructType columns() {
    return columns;
  }

  /** The columns in SQL's form, with NOT NULL, DEFAULT and COMMENT. */
  public List<String> definitions() {
    List<String> texts = new ArrayList<>();
    for (StructField field : columns.fields()) {
      texts.add(field.toDDL());
    }
    return texts;
  }

  /** The transforms by which rows are partitioned, in SQL's form. */
  public List<String> partitioning() {
    return partitioning;
  }

  public Map<String, String> properties() {
    return properties;
  }

  /** The options by which its files are read. */
  public Map<String, String> options() {
    return options;
  }

  /** Its files; null if Spark does not list them. */
  public List<File> files() {
    return files;
  }

  public String comment() {
    return comment;
  }

  /** The bucketing of the rows; null if there is none. */
  public String buckets() {
    return buckets;
  }

  /** Whether it is a Lance table already. */
  public boolean isLance() {
    return isLance;
  }
}
