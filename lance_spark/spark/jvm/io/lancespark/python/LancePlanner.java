package io.lancespark.python;

import io.lancespark.compat.SessionConf;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the planner worker ready between requests.
 *
 * <p>Spark starts the worker at the first request, which waits some seconds for Python's imports, and ends it after a
 * minute without requests. So the worker is asked for a sign of life when a session starts and every half minute after
 * that, until no statement has used it for the time of the setting {@code spark.sql.lance.planner.keepAlive}.
 */
public final class LancePlanner {
  static final String KEEP_ALIVE = "spark.sql.lance.planner.keepAlive";
  private static final String DEFAULT_KEEP_ALIVE = "30min";

  /** Half of the time after which Spark ends an idle worker. */
  private static final long INTERVAL_SECONDS = 30;

  /** How long a request waits for a worker that is starting, before it takes one of its own. */
  private static final long MAX_WAIT_SECONDS = 10;

  private static final Logger LOG = LoggerFactory.getLogger(LancePlanner.class);

  /**
   * Requests hold the read lock, the sign of life the write lock. So the latter is not sent beside a request, for which
   * Spark would start a second worker, and a request does not start a second one beside the worker that is starting.
   */
  private static final ReadWriteLock BUSY = new ReentrantReadWriteLock();

  private static final ScheduledExecutorService TIMER =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "lance-planner-keep-alive");
            thread.setDaemon(true);
            return thread;
          });

  private static ScheduledFuture<?> signs;
  private static volatile long keepAlive;
  private static volatile long lastUse;

  /** The session of the last request, whose settings are part of how Spark chooses a worker. */
  private static volatile WeakReference<SparkSession> session = new WeakReference<>(null);

  private LancePlanner() {}

  /** A request to the worker; closed when it has replied. */
  interface Use extends AutoCloseable {
    @Override
    void close();
  }

  /** Starts the worker in the background, unless the setting is 0. */
  public static void start() {
    // Not of a session: this is called while the first one is made.
    SparkConf conf = SparkContext.getOrCreate().getConf();
    try {
      keepReady(nanoseconds(conf.get(KEEP_ALIVE, DEFAULT_KEEP_ALIVE)), 0);
    } catch (IllegalArgumentException error) {
      // Spark would drop the extension. The first statement refuses the setting.
      LOG.debug("the planner worker does not start with the session", error);
    }
  }

  /** Begins a request: waits for a worker that is starting. */
  static Use use() {
    // A wrong value is refused here, where the user sees it.
    long time = nanoseconds(SessionConf.get(KEEP_ALIVE, DEFAULT_KEEP_ALIVE));
    boolean locked = false;
    try {
      locked = BUSY.readLock().tryLock(MAX_WAIT_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    boolean unlock = locked;
    return () -> {
      if (unlock) {
        BUSY.readLock().unlock();
      }
      session = new WeakReference<>(SparkSession.getActiveSession().getOrElse(() -> null));
      keepReady(time, INTERVAL_SECONDS);
    };
  }

  /** Whether the worker is kept ready now. */
  public static synchronized boolean isKeptReady() {
    return signs != null;
  }

  private static synchronized void keepReady(long time, long delay) {
    keepAlive = time;
    lastUse = System.nanoTime();
    if (time == 0) {
      stop();
    } else if (signs == null) {
      signs = TIMER.scheduleWithFixedDelay(LancePlanner::giveSign, delay, INTERVAL_SECONDS, TimeUnit.SECONDS);
    }
  }

  private static synchronized void stop() {
    if (signs != null) {
      signs.cancel(false);
      signs = null;
    }
  }

  private static void giveSign() {
    if (System.nanoTime() - lastUse > keepAlive || SparkEnv.get() == null) {
      stop();
    } else if (BUSY.writeLock().tryLock()) {
      try {
        SparkSession current = session.get();
        if (current != null) {
          SparkSession.setActiveSession(current);
        }
        new ChannelRequest("planner.ready", Json.object(), List.of()).send();
      } catch (Throwable error) {
        // The next statement meets the same error and reports it.
        LOG.debug("the planner worker gave no sign of life", error);
      } finally {
        SparkSession.clearActiveSession();
        BUSY.writeLock().unlock();
      }
    }
  }

  private static long nanoseconds(String time) {
    try {
      return TimeUnit.SECONDS.toNanos(JavaUtils.timeStringAsSec(time));
    } catch (NumberFormatException error) {
      throw new IllegalArgumentException(
          KEEP_ALIVE + " is '" + time + "'; set it to a time such as 30min, or to 0", error);
    }
  }
}
