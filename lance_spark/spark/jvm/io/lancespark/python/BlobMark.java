package io.lancespark.python;

import java.security.SecureRandom;
import java.util.Base64;

/** Random bytes of this driver by which the tasks of its writes recognize references to blobs. */
public final class BlobMark {
  private static final byte[] MARK = random(16);
  private static final byte[] KEY = random(32);

  private BlobMark() {}

  private static byte[] random(int length) {
    byte[] bytes = new byte[length];
    new SecureRandom().nextBytes(bytes);
    return bytes;
  }

  /** The first bytes of a reference. */
  public static byte[] bytes() {
    return MARK.clone();
  }

  /** The same in base64. */
  static String text() {
    return Base64.getEncoder().encodeToString(MARK);
  }

  /** By which this driver's tasks sign where described blobs are, in base64. Unlike the mark it is in no value. */
  static String key() {
    return Base64.getEncoder().encodeToString(KEY);
  }
}
