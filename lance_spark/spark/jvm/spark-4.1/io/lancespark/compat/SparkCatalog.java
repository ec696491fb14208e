package io.lancespark.compat;

/** The interfaces of catalogs that this Spark has. */
public interface SparkCatalog extends TableInfoCatalog {}
