package io.lancespark.compat;

/** The session catalog that this Spark extends. */
public abstract class ExtendedCatalog extends SummarizedCatalog {}
