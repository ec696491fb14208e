"""Code for sessions of their own, which sees `spark` with the namespace `lance.db`, and the folder `root`."""

TABLES = """
spark.sql("CREATE TABLE lance.db.t AS SELECT id, concat('n', id) AS name FROM range(0, 3000, 1, 3)")
spark.sql("INSERT INTO lance.db.t SELECT id, 'x' FROM range(3000, 3010)")
assert spark.sql("SELECT count(*) AS n FROM lance.db.t WHERE id >= 2990").first().n == 20
assert spark.table("lance.db.t").where("name = 'x'").count() == 10
spark.sql("CREATE TABLE lance.db.numbered (number BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT)")
spark.sql("INSERT INTO lance.db.numbered (id) SELECT id FROM range(0, 20, 1, 3)")
spark.sql("INSERT INTO lance.db.numbered (id) SELECT id FROM range(0, 20, 1, 2)")
assert spark.table("lance.db.numbered").select("number").distinct().count() == 40
path = root + "/by_path"
spark.range(10).write.format("lance").save(path)
spark.range(5).write.format("lance").mode("append").save(path)
assert spark.read.format("lance").option("version", 1).load(path).count() == 10
assert spark.sql("SELECT sum(id) AS s FROM lance.`" + path + "`").first().s == 55
try:
    spark.table("lance.db.t").where("nope = 1").count()
    raise SystemExit("the column is not there")
except Exception as error:
    assert "UNRESOLVED_COLUMN" in str(error), error
try:
    spark.sql("SELECT * FROM lance.db.t VERSION AS OF 99").count()
    raise SystemExit("the version is not there")
except Exception as error:
    assert "has no version 99" in str(error) and "Traceback" not in str(error), error
"""

STREAMS_AND_ERRORS = """
import pathlib

spark.sql("CACHE TABLE lance.db.t")
spark.sql("CALL lance.system.restore('db.t', 1)").collect()
assert spark.table("lance.db.t").count() == 3000
spark.sql("UNCACHE TABLE lance.db.t")
changes = spark.readStream.table("lance.db.t").where("id % 2 = 0")
for number, options in enumerate([{}, {"key": "id"}]):
    writer = changes.writeStream.option("checkpointLocation", f"{root}/c{number}").trigger(availableNow=True)
    writer.options(**options).toTable("lance.db.copy").awaitTermination()
assert spark.table("lance.db.copy").count() == spark.table("lance.db.copy").distinct().count() == 1500
location = spark.sql("DESCRIBE EXTENDED lance.db.t").where("col_name = 'Location'").first().data_type
for file in pathlib.Path(location.removeprefix("file://"), "data").glob("*.lance"):
    file.unlink()
for statement in (
    "SELECT count(name) FROM lance.db.t WHERE hash(id) % 3 = 0",
    "DELETE FROM lance.db.t WHERE hash(name) % 3 = 0",
    "INSERT INTO lance.db.t SELECT id, name FROM lance.db.t",
):
    try:
        spark.sql(statement).collect()
        raise SystemExit("the files are not there")
    except Exception as error:
        assert (error.getCondition(), error.getSqlState()) == ("LANCE_NOT_FOUND", "42704"), error
        # Under Spark Connect, Spark appends its own stack trace to the text of every error.
        sentence = str(error).splitlines()[0]
        assert sentence.startswith("[LANCE_NOT_FOUND] ") and sentence.endswith(" SQLSTATE: 42704"), error
        assert "Error" not in sentence and "Traceback" not in str(error), error
"""
