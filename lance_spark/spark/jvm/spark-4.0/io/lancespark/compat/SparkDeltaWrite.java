package io.lancespark.compat;

/** The methods of row-level writes that this Spark has: it counts no rows. */
public interface SparkDeltaWrite extends CountedWrite {}
