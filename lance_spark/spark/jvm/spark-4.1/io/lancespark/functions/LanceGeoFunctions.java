package io.lancespark.functions;

import io.lancespark.compat.Geometries;
import io.lancespark.python.LanceException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.GeometryType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StringType;
import org.locationtech.jts.geom.Geometry;
import org.locationtech.jts.io.ParseException;
import org.locationtech.jts.io.WKBWriter;
import org.locationtech.jts.io.WKTReader;
import org.locationtech.jts.operation.relateng.RelateNG;
import org.locationtech.jts.operation.relateng.RelatePredicate;
import org.locationtech.jts.operation.relateng.TopologyPredicate;

/**
 * How two geometries lie to each other, and geometries of text. Scans answer {@code st_intersects} and {@code
 * st_disjoint} of a column and a constant, by an index where there is one, and find the rows that meet the constant for
 * the other functions; what Spark keeps is evaluated here.
 */
public final class LanceGeoFunctions {
  private static final String FROM_TEXT = "st_geomfromtext";

  private static final Map<String, Supplier<TopologyPredicate>> RELATIONS =
      Map.of(
          "st_intersects", RelatePredicate::intersects,
          "st_disjoint", RelatePredicate::disjoint,
          "st_contains", RelatePredicate::contains,
          "st_within", RelatePredicate::within,
          "st_covers", RelatePredicate::covers,
          "st_coveredby", RelatePredicate::coveredBy,
          "st_touches", RelatePredicate::touches,
          "st_crosses", RelatePredicate::crosses,
          "st_overlaps", RelatePredicate::overlaps,
          "st_equals", RelatePredicate::equalsTopo);

  static final List<NamedFunction> ALL = all();

  private LanceGeoFunctions() {}

  private static List<NamedFunction> all() {
    List<NamedFunction> all = new ArrayList<>();
    all.add(
        named(FROM_TEXT, "(text) - the GEOMETRY that well-known text such as POLYGON((0 0, 2 0, 2 2, 0 0)) stands for"));
    for (String name : new TreeSet<>(RELATIONS.keySet())) {
      all.add(named(name, "(one, other) - whether a geometry, GEOMETRY or well-known binary, " + meaning(name)));
    }
    return List.copyOf(all);
  }

  private static NamedFunction named(String name, String meaning) {
    return NamedFunction.of(name, "st_funcs", meaning, types -> bind(name, types));
  }

  private static String meaning(String name) {
    return switch (name) {
      case "st_intersects" -> "has a point in common with another";
      case "st_disjoint" -> "has no point in common with another";
      case "st_contains" -> "has all points of another, one of them inside";
      case "st_within" -> "has all its points in another, one of them inside";
      case "st_covers" -> "has all points of another";
      case "st_coveredby" -> "has all its points in another";
      case "st_touches" -> "meets another at their boundaries only";
      case "st_crosses" -> "crosses another";
      case "st_overlaps" -> "has a part of another of the same dimension, each with a part outside";
      default -> "has the same points as another";
    };
  }

  private static ScalarFunction<?> bind(String name, DataType[] types) {
    boolean isText = name.equals(FROM_TEXT);
    boolean fits = types.length == (isText ? 1 : 2);
    for (int place = 0; place < types.length && fits; place++) {
      boolean isGeometry = types[place] instanceof GeometryType || types[place] instanceof BinaryType;
      fits = types[place] instanceof NullType || (isText ? types[place] instanceof StringType : isGeometry);
    }
    if (!fits) {
      return null;
    }
    DataType unknown = isText ? DataTypes.StringType : DataTypes.BinaryType;
    List<DataType> inputs = TypedFunction.withoutNull(types, place -> unknown);
    if (isText) {
      return new FromText(inputs);
    }
    requireOneSystem(name, inputs.get(0), inputs.get(1));
    return new Relation(name, inputs);
  }

  /** Coordinates without a reference system, SRID 0, are compared with those of any other. */
  private static void requireOneSystem(String name, DataType one, DataType other) {
    if (one instanceof GeometryType first
        && other instanceof GeometryType second
        && first.srid() != second.srid()
        && first.srid() > 0
        && second.srid() > 0) {
      throw LanceException.invalid(
          name + " compares geometries of one reference system, got SRID " + first.srid() + " and " + second.srid());
    }
  }

  private record Relation(String name, List<DataType> types) implements TypedFunction<Boolean> {
    @Override
    public DataType resultType() {
      return DataTypes.BooleanType;
    }

    /** As plans show it. */
    @Override
    public String toString() {
      return name;
    }

    @Override
    public Boolean produceResult(InternalRow row) {
      if (TypedFunction.hasNull(row, 2)) {
        return null;
      }
      return RelateNG.relate(geometry(row, 0), geometry(row, 1), RELATIONS.get(name).get());
    }

    private Geometry geometry(InternalRow row, int place) {
      Object value = row.get(place, types.get(place));
      byte[] geometry = Geometries.binary(value);
      return WellKnownBinary.parse(geometry == null ? (byte[]) value : geometry);
    }
  }

  private record FromText(List<DataType> types) implements TypedFunction<Object> {
    @Override
    public DataType resultType() {
      return GeometryType.apply(0);
    }

    @Override
    public String name() {
      return FROM_TEXT;
    }

    /** As plans show it. */
    @Override
    public String toString() {
      return FROM_TEXT;
    }

    @Override
    public Object produceResult(InternalRow row) {
      if (row.isNullAt(0)) {
        return null;
      }
      String text = row.getUTF8String(0).toString();
      try {
        return Geometries.ofBinary(new WKBWriter().write(new WKTReader().read(text)));
      } catch (ParseException | IllegalArgumentException error) {
        throw LanceException.invalidInTask(
            "'" + text + "' is no geometry; write it as POINT(1 2), LINESTRING(0 0, 1 1) ...");
      }
    }
  }
}
