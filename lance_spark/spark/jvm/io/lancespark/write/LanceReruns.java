package io.lancespark.write;

import com.fasterxml.jackson.databind.JsonNode;
import io.lancespark.compat.SessionConf;
import io.lancespark.python.LanceBatchWrites;
import io.lancespark.python.LanceException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Supplier;

/**
 * Commits of statements. One that conflicts with other writers is run again on the newest version, a bounded number of
 * times.
 *
 * <p>The outermost commit does that, inside of itself. Commits of the runs that it starts only say how they went. A
 * commit whose outcome is unknown is never run again: its rows may be there.
 */
public final class LanceReruns {
  /** How many times a statement runs at most. */
  static final String RUNS = "spark.sql.lance.maxStatementRuns";

  private static final String CONFLICT = "RetryableConflictError";
  private static final int DEFAULT_RUNS = 10;
  private static final long FIRST_WAIT_MILLIS = 50;
  private static final long MAX_WAIT_MILLIS = 5_000;

  /** So long a statement waits for others of this driver; it does not need the lock to be right. */
  private static final long LOCK_SECONDS = 60;

  /** First runs commit side by side. While one is run again, others wait: it can only lose to other drivers. */
  private static final Map<String, ReadWriteLock> LOCKS = new ConcurrentHashMap<>();

  private static final ThreadLocal<Run> RERUN = new ThreadLocal<>();

  private LanceReruns() {}

  /** What a run that was started by another one has committed. */
  private static final class Run {
    private JsonNode committed;
  }

  /**
   * What {@code commit} returns, or what the commit of a later run of the statement has returned.
   *
   * @param handle the target
   */
  static JsonNode commit(JsonNode handle, Supplier<JsonNode> commit) {
    Run rerun = RERUN.get();
    if (rerun != null) {
      rerun.committed = commit.get();
      return rerun.committed;
    }
    int runs = runs();
    String key = handle.path("uri").asText() + '#' + handle.path("branch").asText();
    ReadWriteLock lock = LOCKS.computeIfAbsent(key, name -> new ReentrantReadWriteLock(true));
    LanceException conflict;
    boolean held = acquire(lock.readLock());
    try {
      return commit.get();
    } catch (Throwable error) {
      conflict = conflictOf(error);
      if (conflict == null || runs < 2) {
        throw LanceException.sneaky(error);
      }
    } finally {
      release(lock.readLock(), held);
    }
    held = acquire(lock.writeLock());
    try {
      return runAgain(runs, conflict);
    } finally {
      release(lock.writeLock(), held);
    }
  }

  private static JsonNode runAgain(int runs, LanceException first) {
    LanceStatement statement = LanceStatement.running();
    if (statement == null) {
      throw LanceException.sneaky(first);
    }
    LanceException conflict = first;
    for (int run = 2; run <= runs; run++) {
      await(run - 2);
      Run rerun = new Run();
      RERUN.set(rerun);
      try {
        LanceBatchWrites.again(statement::runAgain);
        return rerun.committed;
      } catch (Throwable error) {
        conflict = conflictOf(error);
        if (conflict == null) {
          throw LanceException.sneaky(error);
        }
      } finally {
        RERUN.remove();
      }
    }
    throw LanceException.sneaky(conflict.after(runs));
  }

  private static int runs() {
    String text = SessionConf.get(RUNS, Integer.toString(DEFAULT_RUNS));
    try {
      int runs = Integer.parseInt(text.strip());
      if (runs > 0) {
        return runs;
      }
    } catch (NumberFormatException error) {
      // Reported below.
    }
    throw new IllegalArgumentException(RUNS + " is a number of runs, 1 or more, not '" + text + "'");
  }

  /** The conflict that an error is about, if a new run may go without one; null for all other errors. */
  private static LanceException conflictOf(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof LanceException conflict) {
        return conflict.kind().equals(CONFLICT) ? conflict : null;
      }
    }
    return null;
  }

  private static void await(int attempt) {
    long bound = Math.min(MAX_WAIT_MILLIS, FIRST_WAIT_MILLIS << Math.min(attempt, 10));
    try {
      Thread.sleep(ThreadLocalRandom.current().nextLong(bound + 1));
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw LanceException.sneaky(interrupt);
    }
  }

  private static boolean acquire(Lock lock) {
    try {
      return lock.tryLock(LOCK_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw LanceException.sneaky(interrupt);
    }
  }

  private static void release(Lock lock, boolean held) {
    if (held) {
      lock.unlock();
    }
  }
}
