package io.lancespark.compat;

/** The interfaces of tables that this Spark has. */
public interface SparkTable extends BaseTable {}
