"""Sessions as new users start them: a Python that is not named, or the wrong one, and settings of a site."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.slow

START = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import lance_spark

folder = Path(sys.argv[1])

def started(**settings):
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return lance_spark.configure(builder, root=folder / "root").getOrCreate()

def message(run):
    try:
        run()
    except Exception as error:
        return str(error)
"""

UNNAMED_PYTHON = """
spark = started()
spark.sql("CREATE TABLE lance.t AS SELECT id FROM range(10)")
# A task reads this.
assert spark.sql("SELECT id FROM lance.t WHERE hash(id) IS NOT NULL").count() == 10

def failed(python):
    spark = started(**{"spark.pyspark.driver.python": str(folder / python)})
    return message(lambda: spark.sql("CREATE TABLE lance.u (id INT)"))

spark.stop()
missing = failed("bare")
assert "[LANCE_UNUSABLE_PYTHON]" in missing and "(spark.pyspark.driver.python), is Python 3." in missing, missing
assert "without the packages lance_spark, pyspark_lance, pyarrow, numpy. Set PYSPARK_PYTHON or" in missing, missing

SparkSession.getActiveSession().stop()
broken = failed("broken")
assert "[LANCE_UNUSABLE_PYTHON]" in broken and f"{folder}/broken (spark.pyspark.driver.python), ended" in broken, broken
assert "before it began with table.exists: ImportError: no such symbol. Nothing was changed. Set" in broken, broken

SparkSession.getActiveSession().stop()
absent = failed("absent")
assert "[LANCE_UNUSABLE_PYTHON]" in absent, absent
assert f"{folder}/absent (spark.pyspark.driver.python), cannot be used: Cannot run program" in absent, absent
print("done")
"""

SUBMITTED = """
spark = started()
assert spark.conf.get("spark.sql.extensions") == "site.Extension,io.lancespark.LanceExtensions"
jars = [Path(jar).name for jar in spark.sparkContext._jsc.sc().listJars().mkString(",").split(",")]
assert len(jars) == 2 and "site.jar" in jars and any(jar.startswith("lance-spark") for jar in jars), jars
spark.sql("CREATE TABLE lance.t AS SELECT id FROM range(10)")
spark.sql("OPTIMIZE lance.t")
# A task on an executor reads this.
assert spark.sql("SELECT id FROM lance.t WHERE hash(id) IS NOT NULL").count() == 10
loader = spark._jsparkSession.sharedState().jarClassLoader()
assert loader.getResource("of_the_site.txt") is not None
print("done")
"""


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Variables of a process that starts a Spark with the files in `folder`; none of them names a Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    defaults = (
        "spark.master local[2]\nspark.ui.enabled false\nspark.driver.host 127.0.0.1\n"
        "spark.driver.bindAddress 127.0.0.1\nspark.sql.lance.inlineBytes 0\nspark.sql.shuffle.partitions 2\n"
    )
    with (folder / "spark-defaults.conf").open("a") as file:
        file.write(defaults)
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(folder), **variables}


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(command: list[str], folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        command, capture_output=True, text=True, env=variables, cwd=folder, timeout=500, check=False
    )
    assert result.stdout.strip().endswith("done"), result.stderr[-20000:]
    return result


@pytest.mark.slow
def test_python_of_the_driver_plans_unless_another_is_named(jar: Path, tmp_path: Path) -> None:
    # The python3 on the PATH has no packages.
    executable(tmp_path / "bin" / "python3", f'exec "{sys.executable}" -S -E "$@"')
    executable(
        tmp_path / "bare",
        f'exec env PYTHONPATH={pyspark.__path__[0]}/python/lib/pyspark.zip "{sys.executable}" -S "$@"',
    )
    executable(tmp_path / "broken", f'PYTHONPATH="{tmp_path}/libraries:$PYTHONPATH" exec "{sys.executable}" "$@"')
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "pyroaring.py").write_text("raise ImportError('no such symbol')\n")
    variables = environment(tmp_path, PATH=f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    printed = run([sys.executable, "-c", START + UNNAMED_PYTHON, str(tmp_path)], tmp_path, variables).stderr
    assert "LANCE_COMMIT_STATE_UNKNOWN" not in printed
    assert "replaced a previously registered function" not in printed


@pytest.mark.slow
def test_spark_submit_keeps_what_the_site_has_set(jar: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "site.jar", "w") as archive:
        archive.writestr("of_the_site.txt", "")
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.jars {tmp_path}/site.jar\nspark.sql.extensions site.Extension\n"
    )
    script = tmp_path / "script.py"
    script.write_text(START + SUBMITTED)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    submit = [
        f"{pyspark.__path__[0]}/bin/spark-submit",
        "--master",
        "local-cluster[1,2,1024]",
        str(script),
        str(tmp_path),
    ]
    run(submit, tmp_path, environment(tmp_path, PATH=path))
