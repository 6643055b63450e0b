"""How every pass over the data runs: in blocks of rows that stay in cache, on one BLAS thread.

The blocks are too small for threads to help: two of them gain nothing on an idle machine and cost a
factor of ten on a busy one, where each waits for the other at every call. numpy and scipy each bring
a BLAS with a pool of its own. Without threadpoolctl, the extra ``threads``, nothing is limited, and
``OMP_NUM_THREADS`` decides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

BLOCK_ROWS = 8192
"""Most rows of a block: a vector of them is 64 KiB, and the handful that a pass makes stay in cache."""

BLOCK_BYTES = 2**21
"""Most bytes of a block of columns: they are used several times while they are in cache."""

SERIAL_SIZE = 9000
"""Elements of a matrix up to which BLAS uses one thread anyway."""

_lock = threading.Lock()
_depth = 0
_limiter: Any = None


def row_blocks(n: int, p: int) -> list[slice]:
    """Return slices of n rows of p columns, all of about the same length."""
    step = min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(p, 1)) + 1)
    step = -(-n // max(-(-n // step), 1))  # as many blocks, none much shorter than the others
    return [slice(start, min(start + step, n)) for start in range(0, n, max(step, 1))]


@lru_cache(maxsize=1)
def _controller() -> Any:
    """Return the controller of the BLAS libraries, None without threadpoolctl."""
    with suppress(ImportError):
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController()
    return None


@contextmanager
def one_blas_thread(size: int) -> Iterator[None]:
    """Keep every BLAS of the process to one thread for work on a matrix of the given size.

    Nested and concurrent uses share one limit; the last to leave restores what the first one found.
    """
    global _depth, _limiter
    if size <= SERIAL_SIZE or _controller() is None:
        yield
        return
    with _lock:
        if _depth == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _limiter.restore_original_limits()
