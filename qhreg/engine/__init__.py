"""Rows of data in blocks, and the one pass that sums the likelihood over them."""
