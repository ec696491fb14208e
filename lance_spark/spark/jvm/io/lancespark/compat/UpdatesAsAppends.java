package io.lancespark.compat;

import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/** Mark of builders of streaming writes to which Spark hands updated rows like new ones. */
public interface UpdatesAsAppends extends SupportsStreamingUpdateAsAppend {}
