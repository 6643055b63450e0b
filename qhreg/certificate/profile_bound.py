r"""What is proved about every tau, not only about the best one.

Convex fits at nodes give feasible dual points. Between two nodes a and b the mixture
:math:`(1-s)v_a + s v_b` is feasible at :math:`\tau = (1-s)a + sb`, and its dual value bounds the profile
there (QH-16); v = 0 is feasible at both ends of (0, 1). Three inner products for each pair of
neighbours are all that the bound needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.family.normalizer import restricted_normalizer
from qhreg.solver import value_shift
from qhreg.solver.dual import DualVector, dual_value
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.setup import Setup

__all__ = ["ProfileBound", "profile_bound"]


@dataclass(frozen=True)
class ProfileBound:
    """An upper bound of the log-likelihood at every tau, whatever beta and sigma are.

    Attributes
    ----------
    nodes : ndarray, shape (m + 2,)
        0, the asymmetries of the convex fits, and 1.
    alignment, square : ndarray, shape (m + 2,)
        Inner products of each dual point with the response and with itself.
    cross : ndarray, shape (m + 1,)
        Inner products of neighbours.
    n, rank, kappa : float
        Sum of the case weights; p of the restricted likelihood; Huber width.
    theta : float or None
        1 / sigma in the units of the fits where sigma is fixed.
    shift : float
        What to add to values of the problem to have minus log-likelihoods in the units of the data.
    """

    nodes: FloatArray
    alignment: FloatArray
    square: FloatArray
    cross: FloatArray
    n: float
    rank: float
    kappa: float
    theta: float | None
    shift: float

    def __call__(self, taus: Any) -> FloatArray:
        """Return the bound at each tau in (0, 1)."""
        tau = np.asarray(taus, dtype=np.float64)
        right = np.clip(np.searchsorted(self.nodes, tau), 1, self.nodes.size - 1)
        left = right - 1
        s = (tau - self.nodes[left]) / (self.nodes[right] - self.nodes[left])
        alignment = (1.0 - s) * self.alignment[left] + s * self.alignment[right]
        square = (
            (1.0 - s) ** 2 * self.square[left]
            + 2.0 * s * (1.0 - s) * self.cross[left]
            + s**2 * self.square[right]
        )
        h = dual_value(alignment, square, self.n - self.rank, self.kappa, self.theta)
        rest = restricted_normalizer(tau, self.kappa, self.n, self.rank).value
        bound: FloatArray = -(h + rest + self.shift)
        return bound


def profile_bound(setup: Setup, start: FloatArray, nodes: Iterable[float]) -> ProfileBound:
    """Return the bound from convex fits at given asymmetries.

    Parameters
    ----------
    setup : Setup
        The problem.
    start : ndarray, shape (k,)
        Where the first fit starts.
    nodes : iterable of float
        Asymmetries in (0, 1): those of a global certificate make the bound as tight as the
        certificate.
    """
    problem, weights = setup.problem, setup.weights
    taus = np.unique(np.asarray(list(nodes), dtype=np.float64))
    alignment, square, cross = [0.0], [0.0], []
    before: DualVector | None = None
    z = start
    for tau in taus:
        fit = fit_at(problem, float(tau), z, keep=True, warm=True)
        v = fit.dual.kept
        assert v is not None
        cross.append(0.0 if before is None else v.dot(before, weights))
        alignment.append(fit.dual.alignment)
        square.append(fit.dual.square)
        before, z = v, fit.z
    return ProfileBound(
        np.concatenate([[0.0], taus, [1.0]]),
        np.array([*alignment, 0.0]),
        np.array([*square, 0.0]),
        np.array([*cross, 0.0]),
        problem.n,
        problem.rank,
        problem.kappa,
        problem.theta,
        value_shift(setup) - 0.5 * problem.rank * math.log(2.0 * math.pi),
    )
