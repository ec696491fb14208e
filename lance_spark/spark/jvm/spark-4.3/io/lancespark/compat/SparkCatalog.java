package io.lancespark.compat;

import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TimeTravel;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The interfaces of catalogs that this Spark has. */
public interface SparkCatalog extends ChangelogCatalog {
  @Override
  default Table loadTable(Identifier identifier, TableContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    TimeTravel travel = context.timeTravel().orElse(null);
    String version = travel instanceof TimeTravel.AsOfVersion chosen ? chosen.version() : null;
    Long micros = travel instanceof TimeTravel.AsOfTimestamp chosen ? (Long) chosen.micros() : null;
    State state = new State(version, micros, State.of(context.writePrivileges()).privileges());
    return load(identifier, state, options.asCaseSensitiveMap());
  }
}
