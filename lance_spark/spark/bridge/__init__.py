"""The Python end of the connector: Spark's JVM asks, Python decides.

A request is one JSON object with binary attachments, answered in a warm worker on the driver (`worker`). `registry`
knows the operations; each theme has its file. What tasks run travels as pickled functions, made here and only here.
"""
