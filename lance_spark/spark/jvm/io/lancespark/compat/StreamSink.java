package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.StructType;

/** The table that a streaming query writes to by name, with the columns that it had when the query started. */
public record StreamSink(CatalogPlugin catalog, Identifier identifier, StructType columns) {}
