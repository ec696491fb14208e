package io.lancespark.compat;

import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/** Capabilities by name, of which each version of Spark has others. */
public final class Capabilities {
  private Capabilities() {}

  /** The constants of these names that this Spark has. */
  public static <E extends Enum<E>> Set<E> named(Class<E> kind, List<String> names) {
    Set<E> capabilities = EnumSet.allOf(kind);
    capabilities.removeIf(capability -> !names.contains(capability.name()));
    return capabilities;
  }
}
