package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.python.PythonChannel;
import io.lancespark.python.LanceRunner;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.types.StructType;

/** A job that writes rows of a query, in a batch or in an epoch of a stream, in the order that the table asks for. */
public abstract class LanceRowsWrite extends LanceJobWrite implements RequiresDistributionAndOrdering {
  private final LanceLayout layout;

  protected LanceRowsWrite(JsonNode handle, PythonChannel.Reply plan, LanceLayout layout) {
    super(handle, plan);
    this.layout = layout;
  }

  /** Puts the rows of one partition into one task, as far as Spark likes. */
  @Override
  public final Distribution requiredDistribution() {
    return layout.distribution();
  }

  @Override
  public boolean distributionStrictlyRequired() {
    return false;
  }

  @Override
  public final SortOrder[] requiredOrdering() {
    return layout.ordering();
  }

  /** The writers of the tasks, for rows of these columns. */
  protected final LanceWriterFactory writers(StructType columns) {
    return new LanceWriterFactory(new LanceRunner(function, columns), description);
  }
}
