"""Blocks of rows that stay in cache, for every pass over the data."""

from __future__ import annotations

BLOCK_ROWS = 8192
"""Most rows of a block: a vector of them is 64 KiB, and the handful that a pass makes stay in cache."""

BLOCK_BYTES = 2**21
"""Most bytes of a block of columns: they are used several times while they are in cache."""


def row_blocks(n: int, p: int) -> list[slice]:
    """Return slices of n rows of p columns, all of about the same length."""
    step = min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(p, 1)) + 1)
    step = -(-n // max(-(-n // step), 1))  # as many blocks, none much shorter than the others
    return [slice(start, min(start + step, n)) for start in range(0, n, max(step, 1))]
