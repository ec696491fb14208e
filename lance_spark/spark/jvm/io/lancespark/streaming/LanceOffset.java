package io.lancespark.streaming;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** An offset as Python wrote it; offsets are equal if their texts are. */
final class LanceOffset extends Offset {
  private final String json;

  LanceOffset(String json) {
    this.json = json;
  }

  @Override
  public String json() {
    return json;
  }
}
