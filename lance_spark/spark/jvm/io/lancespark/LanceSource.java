package io.lancespark;

import io.lancespark.catalog.TableRequests;
import io.lancespark.compat.SessionConf;
import io.lancespark.python.LanceSpark;
import io.lancespark.streaming.LanceStreams;
import io.lancespark.table.LanceIdentifier;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** {@code format("lance")} by path, and {@code CREATE TABLE ... USING lance} in Spark's session catalog. */
public final class LanceSource implements SupportsCatalogOptions, DataSourceRegister {
  private static final String SETTING = "spark.sql.catalog." + LanceIdentifier.CATALOG;

  @Override
  public String shortName() {
    return LanceIdentifier.SOURCE;
  }

  @Override
  public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
    return LanceIdentifier.of(options);
  }

  @Override
  public String extractCatalog(CaseInsensitiveStringMap options) {
    LanceSpark.check();
    SessionConf.setDefault(SETTING, LanceCatalog.class.getName());
    return LanceIdentifier.CATALOG;
  }

  @Override
  public Optional<String> extractTimeTravelVersion(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("versionAsOf"));
  }

  @Override
  public Optional<String> extractTimeTravelTimestamp(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("timestampAsOf"));
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    LanceSpark.check();
    Map<String, String> entries = options.asCaseSensitiveMap();
    return LanceStreams.isStarting()
        ? TableRequests.atPath(entries, true).sparkSchema()
        : TableRequests.ofSessionCatalog(null, new Transform[0], entries).sparkSchema();
  }

  /** A table of the session catalog, whose properties hold the path, created if missing; or the table of a stream. */
  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    LanceSpark.check();
    return LanceStreams.isStarting()
        ? TableRequests.atPath(properties, !LanceStreams.isWriting())
        : TableRequests.ofSessionCatalog(schema, partitioning, properties);
  }
}
