package io.lancespark.write;

import io.lancespark.python.LanceException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Rows from the thread that has them to the one that asks for them, in chunks, of which few wait at any time. */
public final class LanceChunks<T> implements Iterator<T> {
  private static final int CHUNK_ROWS = 512;
  private static final long CHUNK_BYTES = 1L << 20;
  private static final int WAITING = 4;
  private static final long LOOK_MILLIS = 100;

  private final ArrayBlockingQueue<List<T>> queue = new ArrayBlockingQueue<>(WAITING);
  private List<T> filling = new ArrayList<>(CHUNK_ROWS);
  private long bytes;
  private Iterator<T> current = Collections.emptyIterator();
  private boolean ended;
  private volatile boolean drained;
  private volatile boolean cancelled;
  private volatile Throwable failure;

  /** Adds a row; waits while enough of them wait. */
  void put(T row, long size) throws IOException {
    filling.add(row);
    bytes += size;
    if (filling.size() >= CHUNK_ROWS || bytes >= CHUNK_BYTES) {
      send(filling);
      filling = new ArrayList<>(CHUNK_ROWS);
      bytes = 0;
    }
  }

  /** Says that no row follows. */
  void finish() throws IOException {
    if (!filling.isEmpty()) {
      send(filling);
      filling = List.of();
    }
    send(List.of());
  }

  /** Whoever waits for rows gets an error instead. */
  void cancel() {
    cancelled = true;
  }

  /** Says that all rows were taken, so that no more are added. */
  void drained() {
    drained = true;
  }

  /** Says that no row will be taken any more. */
  void fail(Throwable error) {
    failure = error;
  }

  /** Throws what the other thread has failed with. */
  void check() {
    if (failure != null) {
      throw LanceException.sneaky(failure);
    }
  }

  private void send(List<T> chunk) throws IOException {
    try {
      do {
        check();
        if (drained) {
          throw new IOException("the rows of a task were read to an end before it was there");
        }
      } while (!queue.offer(chunk, LOOK_MILLIS, TimeUnit.MILLISECONDS));
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw new IOException("the task was killed", interrupt);
    }
  }

  @Override
  public boolean hasNext() {
    while (!ended && !current.hasNext()) {
      List<T> chunk = take();
      ended = chunk.isEmpty();
      current = chunk.iterator();
    }
    return !ended;
  }

  @Override
  public T next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return current.next();
  }

  private List<T> take() {
    try {
      while (!cancelled) {
        List<T> chunk = queue.poll(LOOK_MILLIS, TimeUnit.MILLISECONDS);
        if (chunk != null) {
          return chunk;
        }
      }
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
    }
    throw new IllegalStateException("the task has ended before its rows");
  }
}
