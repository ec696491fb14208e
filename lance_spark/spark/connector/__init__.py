"""The Python end of the connector: Spark's JVM asks, Python decides.

A request is one JSON object with binary attachments, answered in a warm worker on the driver (`channel.worker`).
`channel.registry` knows the operations; each theme has its package. Tasks run pickled functions that only this package
makes and only this package reads.
"""
