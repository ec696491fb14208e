package io.lancespark.functions;

import io.lancespark.python.LanceException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.locationtech.jts.geom.Coordinate;
import org.locationtech.jts.geom.Geometry;
import org.locationtech.jts.geom.GeometryFactory;
import org.locationtech.jts.geom.LinearRing;

/**
 * Geometries of well-known binary, read as {@code lance_spark/expr/geo} reads them: x and y only, rings are closed, and
 * points, segments and areas with a coordinate that is not finite have no place.
 */
final class WellKnownBinary {
  private static final GeometryFactory FACTORY = new GeometryFactory();
  private static final int MAX_DEPTH = 32;
  private static final int EWKB_Z = 0x80000000;
  private static final int EWKB_M = 0x40000000;
  private static final int EWKB_SRID = 0x20000000;
  private static final int LEAST_RING = 4;

  private final ByteBuffer data;
  private final List<Geometry> parts = new ArrayList<>();

  private WellKnownBinary(byte[] data) {
    this.data = ByteBuffer.wrap(data);
  }

  /** The geometry; damaged bytes are an invalid input. */
  static Geometry parse(byte[] bytes) {
    WellKnownBinary reader = new WellKnownBinary(bytes);
    try {
      reader.geometry(0);
    } catch (BufferUnderflowException error) {
      throw reader.refused("ends too early");
    }
    if (reader.data.hasRemaining()) {
      throw reader.refused("has bytes after its end");
    }
    return FACTORY.buildGeometry(reader.parts);
  }

  private RuntimeException refused(String reason) {
    return LanceException.invalidInTask(
        "a geometry of " + data.limit() + " bytes " + reason + " at byte " + data.position());
  }

  private void geometry(int depth) {
    if (depth > MAX_DEPTH) {
      throw refused("is nested too deeply");
    }
    byte order = data.get();
    if (order != 0 && order != 1) {
      throw refused("has no byte order");
    }
    ByteOrder outer = data.order();
    data.order(order == 1 ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN);
    int code = data.getInt();
    if ((code & EWKB_SRID) != 0) {
      data.getInt();
    }
    int plain = code & 0x0FFFFFFF;
    int flags = ((code & EWKB_Z) != 0 ? 1 : 0) + ((code & EWKB_M) != 0 ? 1 : 0);
    if (plain / 1000 > 3) {
      throw refused("has the unknown type " + code);
    }
    int dimensions = 2 + Math.max(flags, new int[] {0, 1, 1, 2}[plain / 1000]);
    switch (plain % 1000) {
      case 1 -> addPath(coordinates(1, dimensions));
      case 2 -> addPath(coordinates(data.getInt(), dimensions));
      case 3 -> {
        List<Coordinate[]> rings = new ArrayList<>();
        for (int left = count(4); left > 0; left--) {
          rings.add(coordinates(data.getInt(), dimensions));
        }
        addArea(rings);
      }
      case 4, 5, 6, 7 -> {
        for (int left = count(5); left > 0; left--) {
          geometry(depth + 1);
        }
      }
      default -> throw refused("has the unknown type " + code);
    }
    data.order(outer);
  }

  /** A number of parts, each of at least {@code least} bytes. */
  private int count(int least) {
    int count = data.getInt();
    if (Integer.toUnsignedLong(count) * least > data.remaining()) {
      throw refused("ends too early");
    }
    return count;
  }

  private Coordinate[] coordinates(int count, int dimensions) {
    if (Integer.toUnsignedLong(count) * dimensions * Double.BYTES > data.remaining()) {
      throw refused("ends too early");
    }
    Coordinate[] coordinates = new Coordinate[count];
    for (int place = 0; place < count; place++) {
      coordinates[place] = new Coordinate(data.getDouble(), data.getDouble());
      data.position(data.position() + (dimensions - 2) * Double.BYTES);
    }
    return coordinates;
  }

  private void addPath(Coordinate[] path) {
    if (path.length == 1 && isFinite(path[0])) {
      parts.add(FACTORY.createPoint(path[0]));
    }
    int start = 0;
    for (int place = 0; place <= path.length; place++) {
      if (place == path.length || !isFinite(path[place])) {
        if (place - start > 1) {
          addLine(Arrays.copyOfRange(path, start, place));
        }
        start = place + 1;
      }
    }
  }

  private void addLine(Coordinate[] line) {
    boolean isPoint = Arrays.stream(line).allMatch(line[0]::equals2D);
    parts.add(isPoint ? FACTORY.createPoint(line[0]) : FACTORY.createLineString(line));
  }

  private void addArea(List<Coordinate[]> rings) {
    boolean isBounded = rings.stream().flatMap(Arrays::stream).allMatch(WellKnownBinary::isFinite);
    List<LinearRing> bounds = new ArrayList<>();
    for (Coordinate[] ring : rings) {
      Coordinate[] closed = closed(ring);
      if (isBounded && closed.length >= LEAST_RING) {
        bounds.add(FACTORY.createLinearRing(closed));
      } else {
        addPath(closed);
      }
    }
    if (!bounds.isEmpty()) {
      parts.add(
          FACTORY.createPolygon(bounds.get(0), bounds.subList(1, bounds.size()).toArray(new LinearRing[0])));
    }
  }

  private static Coordinate[] closed(Coordinate[] ring) {
    if (ring.length < 2 || ring[0].equals2D(ring[ring.length - 1])) {
      return ring;
    }
    Coordinate[] closed = Arrays.copyOf(ring, ring.length + 1);
    closed[ring.length] = ring[0];
    return closed;
  }

  private static boolean isFinite(Coordinate point) {
    return Double.isFinite(point.x) && Double.isFinite(point.y);
  }
}
