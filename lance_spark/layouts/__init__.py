"""Page layouts: conversion between the buffers of a page and Arrow arrays.

Importing this package registers all of them in `registry`.
"""

from lance_spark.layouts import blob
from lance_spark.layouts.constant import layout as constant
from lance_spark.layouts.full_zip import layout as full_zip
from lance_spark.layouts.mini_block import layout as mini_block

__all__ = ["blob", "constant", "full_zip", "mini_block"]
