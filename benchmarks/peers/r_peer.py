"""Time R's quantreg and conquer on an array held by Python."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

METHODS = ("rq_pfn", "rq_fn", "rq_br", "rq_formula_pfn", "conquer", "conquer_uniform")

_SCRIPT = Path(__file__).with_name("r_peer.R")
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


@functools.cache
def have_r() -> bool:
    """Return whether Rscript runs here with quantreg and conquer installed."""
    if shutil.which("Rscript") is None:
        return False
    check = (
        'quit(status = !all(sapply(c("quantreg", "conquer"), requireNamespace, quietly = TRUE)))'
    )
    run = subprocess.run(["Rscript", "-e", check], capture_output=True, check=False)
    return run.returncode == 0


def time_r(method: str, X: FloatArray, y: FloatArray, q: float, repeats: int = 3) -> dict[str, Any]:
    """Return the fastest of the repeats of one R method on one thread.

    Parameters
    ----------
    method : str
        ``rq_pfn``, ``rq_fn``, ``rq_br`` (the fitting function without formula), ``rq_formula_pfn``
        (``rq`` as users call it), ``conquer`` (its defaults: Gaussian kernel, tolerance 1e-4) or
        ``conquer_uniform``.
    X : ndarray of shape (n, p)
        The first column must be constant: conquer adds its own.
    y : ndarray of shape (n,)
    q : float
        Quantile level, 1 - tau.
    repeats : int

    Returns
    -------
    dict
        ``seconds``, ``cpu_seconds`` (the mean over the repeats when below 20 ms, R's clock being
        coarse), ``all_seconds``, ``coef``, ``objective`` (the check loss at q), ``blas`` (the file
        that R takes its BLAS from).
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    if not np.all(X[:, 0] == 1.0):
        raise ValueError("the first column of X must be ones")
    n, p = X.shape
    with tempfile.TemporaryDirectory() as directory:
        with (Path(directory) / "X.bin").open("wb") as file:
            for j in range(p):
                np.ascontiguousarray(X[:, j], dtype=np.float64).tofile(file)
        np.asarray(y, dtype=np.float64).tofile(Path(directory) / "y.bin")
        command = ["Rscript", _SCRIPT, directory, n, p, method, repr(float(q)), repeats]
        run = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, **_ONE_THREAD},
            capture_output=True,
            text=True,
            check=False,
        )
    if run.returncode != 0:
        raise RuntimeError(f"Rscript failed on {method}: {run.stderr.strip()}")
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    result["coef"] = np.array(result["coef"])
    return result
