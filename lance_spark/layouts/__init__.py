"""Page layouts: conversion between the buffers of a page and Arrow arrays.

Importing this package registers all of them in `registry`.
"""

from lance_spark.layouts import blob, constant, full_zip, mini_block

__all__ = ["blob", "constant", "full_zip", "mini_block"]
