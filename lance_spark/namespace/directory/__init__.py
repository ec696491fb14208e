"""The catalog that a folder is: its tables, namespaces and views in `__manifest`, and the directories of tables."""
