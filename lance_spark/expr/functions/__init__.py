"""The scalar functions of a filter, with Spark's semantics: texts, numbers, dates and lists."""
