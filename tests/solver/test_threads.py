"""The limit on BLAS threads: shared by concurrent work, and taken back."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from solver_data import regression
from threadpoolctl import threadpool_info, threadpool_limits

from qhreg._blocks import SERIAL_SIZE, one_blas_thread
from qhreg.solver import solve


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_the_limit_holds_inside_and_is_taken_back_outside():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread(SERIAL_SIZE + 1):
            assert blas_threads() == {1}
            with one_blas_thread(SERIAL_SIZE + 1):
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_small_work_leaves_the_threads_alone():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread(SERIAL_SIZE):
            assert blas_threads() == before


def test_the_limit_is_taken_back_after_an_error():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ZeroDivisionError), one_blas_thread(SERIAL_SIZE + 1):
            raise ZeroDivisionError
        assert blas_threads() == before


def test_concurrent_fits_agree_and_restore_the_threads():
    X, y = regression(30_000, 4, seed=1)
    expected = solve(X, y)
    found = []
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        workers = [threading.Thread(target=lambda: found.append(solve(X, y))) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert blas_threads() == before
    assert len(found) == 4
    for fit in found:
        np.testing.assert_allclose(fit.beta, expected.beta, rtol=1e-8)
