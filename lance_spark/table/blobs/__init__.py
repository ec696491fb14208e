"""Reading the values of blob columns."""
