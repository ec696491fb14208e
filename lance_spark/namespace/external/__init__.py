"""Catalogs of other formats that keep names and places of Lance tables: Glue, Hive, Iceberg REST, Polaris, Unity."""
