"""The Python data source: what a Spark session without the connector's jar can do."""
