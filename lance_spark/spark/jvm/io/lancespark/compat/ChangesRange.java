package io.lancespark.compat;

/**
 * The changes that a query reads. The ends of the range are versions or microseconds since 1970; null if there is none.
 *
 * @param deduplication the name of Spark's mode
 * @param computesUpdates whether pairs of a deleted and an added row are updates
 */
public record ChangesRange(
    String firstVersion,
    String lastVersion,
    Long firstMicros,
    Long lastMicros,
    boolean includesFirst,
    boolean includesLast,
    String deduplication,
    boolean computesUpdates) {}
