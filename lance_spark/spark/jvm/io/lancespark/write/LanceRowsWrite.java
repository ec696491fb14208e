package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.python.Json;
import io.lancespark.python.LanceRunner;
import io.lancespark.python.PythonChannel;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.types.StructType;

/** A job that writes rows of a query, in a batch or in an epoch of a stream, in the order that the table asks for. */
public abstract class LanceRowsWrite extends LanceJobWrite implements RequiresDistributionAndOrdering {
  private final Transform[] clustering;
  private final Transform[] ordering;
  private final String distribution;

  /**
   * @param distributes whether Spark can distribute and sort the rows as the plan asks
   */
  protected LanceRowsWrite(JsonNode handle, PythonChannel.Reply plan, boolean distributes) {
    super(handle, plan);
    this.clustering = distributes ? Json.transforms(plan.body().path("clustering")) : new Transform[0];
    this.ordering = distributes ? Json.transforms(plan.body().path("ordering")) : new Transform[0];
    this.distribution = plan.body().get("distribution").asText();
  }

  /** Puts the rows of one partition into one task, as far as Spark likes. */
  @Override
  public final Distribution requiredDistribution() {
    if (clustering.length == 0) {
      return Distributions.unspecified();
    }
    return switch (distribution) {
      case "hash" -> Distributions.clustered(clustering);
      case "range" -> Distributions.ordered(ascending(clustering));
      default -> Distributions.unspecified();
    };
  }

  @Override
  public boolean distributionStrictlyRequired() {
    return false;
  }

  @Override
  public final SortOrder[] requiredOrdering() {
    return ascending(Stream.of(clustering, ordering).flatMap(Arrays::stream).toArray(Transform[]::new));
  }

  private static SortOrder[] ascending(Transform[] transforms) {
    SortOrder[] orders = new SortOrder[transforms.length];
    for (int index = 0; index < orders.length; index++) {
      orders[index] = Expressions.sort(transforms[index], SortDirection.ASCENDING);
    }
    return orders;
  }

  /** The writers of the tasks, for rows of these columns. */
  protected final LanceWriterFactory writers(StructType columns) {
    return new LanceWriterFactory(new LanceRunner(function, columns), description);
  }
}
