"""The mini-block layout of 2.1: pages of chunks of a few KiB."""
