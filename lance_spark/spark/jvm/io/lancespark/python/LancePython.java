package io.lancespark.python;

import io.lancespark.compat.SessionConf;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.api.python.SimplePythonFunction;

/**
 * The Python programs that plan statements and run tasks.
 *
 * <p>A setting of the user comes first, in Spark's own order. The last resort before {@code python3} is {@link #DEFAULT},
 * by which {@code configure} and {@code install} name the Python of the driver. It counts for tasks only if they run on
 * the driver's machine: other machines need not have the same path.
 */
public final class LancePython {
  /** The Python that plans where the user has named none. */
  static final String DEFAULT = "spark.sql.lance.defaultPython";

  private static final String SETTING = "spark.pyspark.python";
  private static final String DRIVER_SETTING = "spark.pyspark.driver.python";
  private static final String VARIABLE = "PYSPARK_PYTHON";
  private static final String DRIVER_VARIABLE = "PYSPARK_DRIVER_PYTHON";
  private static final String UNSET = "Spark's default, as neither PYSPARK_PYTHON nor spark.pyspark.python is set";

  /** Packages without which the planner does not start; all others come with them. */
  private static final List<String> PACKAGES = List.of("lance_spark", "pyspark_lance", "pyspark", "pyarrow", "numpy");

  /** Prints the version, the path, and which of the packages in the arguments cannot be found. Imports none of them. */
  private static final String LOOK =
      String.join(
          "\n",
          "import sys",
          "from importlib.util import find_spec",
          "print('%d.%d' % sys.version_info[:2])",
          "print(sys.executable)",
          "print(', '.join(name for name in sys.argv[1:] if find_spec(name) is None))");

  private static final long MAX_SECONDS = 60;

  private static final Map<String, String> VERSIONS = new ConcurrentHashMap<>();

  /** Where Python finds modules. Spark looks for its own jar each time it is asked, longer than a request takes. */
  private static final String PATH =
      PythonUtils.mergePythonPaths(
          PythonUtils.toSeq(
              List.of(PythonUtils.sparkPythonPath(), System.getenv().getOrDefault("PYTHONPATH", ""))));

  /**
   * A Python.
   *
   * @param program its command
   * @param origin the setting or variable that names it
   */
  record Choice(String program, String origin) {}

  /** The output of a program that has ended without an error, or the reason why there is none. */
  private record Run(List<String> lines, String failure) {}

  private LancePython() {}

  /** A pickled function for the planner worker, in Spark's form. */
  static SimplePythonFunction inPlanner(byte[] command) {
    return function(command, ofPlanner().program());
  }

  /** A pickled function for tasks, in Spark's form. Its version is that of the planner, which has pickled it. */
  public static SimplePythonFunction inTasks(byte[] command) {
    return function(command, ofTasks().program());
  }

  /** The error of a planner worker that ended before it began with a request; null if its Python can be used. */
  static RuntimeException unusable(String op, Throwable cause) {
    Choice choice = ofPlanner();
    Run run = run(choice, "import pyspark_lance.planner");
    if (run.failure() == null) {
      return null;
    }
    String text = described(choice, choice.program()) + " ended before it began with " + op + ": " + run.failure();
    return LanceException.unusablePython(text + ". Nothing was changed. " + advice(), cause);
  }

  private static SimplePythonFunction function(byte[] command, String program) {
    Map<String, String> environment = new HashMap<>(Map.of("PYTHONPATH", PATH));
    return new SimplePythonFunction(
        command, environment, new ArrayList<>(), program, version(ofPlanner()), new ArrayList<>(), null);
  }

  private static Choice ofPlanner() {
    return Stream.of(setting(DRIVER_SETTING), setting(SETTING), variable(DRIVER_VARIABLE), variable(VARIABLE))
        .filter(choice -> choice != null)
        .findFirst()
        .orElseGet(LancePython::unnamed);
  }

  private static Choice ofTasks() {
    boolean isLocal = SparkContext.getOrCreate().master().startsWith("local");
    Stream<Choice> named = Stream.of(setting(SETTING), variable(VARIABLE), isLocal ? ofPlanner() : variable(DRIVER_VARIABLE));
    return named.filter(choice -> choice != null).findFirst().orElse(new Choice("python3", UNSET));
  }

  private static Choice unnamed() {
    String program = SessionConf.get(DEFAULT, SparkEnv.get().conf().get(DEFAULT, ""));
    return program.isEmpty() ? new Choice("python3", UNSET) : new Choice(program, DEFAULT);
  }

  private static Choice setting(String name) {
    String program = SparkEnv.get().conf().get(name, "");
    return program.isEmpty() ? null : new Choice(program, name);
  }

  /** The Python in a variable. Notebooks put the command that starts them there, which is none. */
  private static Choice variable(String name) {
    String program = System.getenv().getOrDefault(name, "");
    String command = program.substring(program.lastIndexOf('/') + 1).toLowerCase(Locale.ROOT);
    return program.isEmpty() || command.startsWith("jupyter") ? null : new Choice(program, name);
  }

  /** The version of a Python that has our packages. A failure is not kept: packages may be installed meanwhile. */
  private static String version(Choice choice) {
    String earlier = VERSIONS.get(choice.program());
    if (earlier != null) {
      return earlier;
    }
    List<String> arguments = new ArrayList<>(List.of(LOOK));
    arguments.addAll(PACKAGES);
    Run run = run(choice, arguments.toArray(new String[0]));
    if (run.failure() != null) {
      throw LanceException.unusablePython(
          described(choice, choice.program()) + " cannot be used: " + run.failure() + ". " + advice(), null);
    }
    String version = run.lines().get(0);
    String missing = run.lines().size() > 2 ? run.lines().get(2) : "";
    if (!missing.isEmpty()) {
      String text = described(choice, run.lines().get(1)) + " is Python " + version + " without the packages " + missing;
      throw LanceException.unusablePython(text + ". " + advice(), null);
    }
    VERSIONS.put(choice.program(), version);
    return version;
  }

  private static String described(Choice choice, String program) {
    return "the Python that plans statements, " + program + " (" + choice.origin() + "),";
  }

  private static String advice() {
    return "Set " + VARIABLE + " or " + SETTING + " to the Python where lance-spark is installed, before Spark starts ("
        + DRIVER_VARIABLE + " or " + DRIVER_SETTING + " for the driver alone), or install lance-spark there";
  }

  /** Runs a program with {@code -c} and the arguments. */
  private static Run run(Choice choice, String... arguments) {
    List<String> command = new ArrayList<>(List.of(choice.program(), "-c"));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().put("PYTHONPATH", PATH);
    Process process = null;
    try {
      process = builder.start();
      process.getOutputStream().close();
      if (!process.waitFor(MAX_SECONDS, TimeUnit.SECONDS)) {
        return new Run(List.of(), "it did not answer within " + MAX_SECONDS + " s");
      }
      List<String> errors = lines(process.getErrorStream());
      String last = errors.isEmpty() ? "exit code " + process.exitValue() : errors.get(errors.size() - 1).strip();
      return new Run(lines(process.getInputStream()), process.exitValue() == 0 ? null : last);
    } catch (IOException error) {
      return new Run(List.of(), error.getMessage());
    } catch (InterruptedException error) {
      throw LanceException.sneaky(error);
    } finally {
      if (process != null) {
        process.destroyForcibly();
      }
    }
  }

  private static List<String> lines(InputStream stream) throws IOException {
    return new String(stream.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
  }
}
