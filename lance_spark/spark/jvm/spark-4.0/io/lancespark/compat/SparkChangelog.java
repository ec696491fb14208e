package io.lancespark.compat;

import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The interface of changelogs, which Spark has from 4.2 on. */
public interface SparkChangelog {
  String name();

  Column[] columns();

  boolean containsCarryoverRows();

  boolean containsIntermediateChanges();

  boolean representsUpdateAsDeleteAndInsert();

  ScanBuilder newScanBuilder(CaseInsensitiveStringMap options);
}
