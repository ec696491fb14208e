"""Types of Spark and Lance."""
