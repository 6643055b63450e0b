r"""The fit as an optimisation problem: data, coordinates, what is fixed and what is free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.likelihood import Totals, Zone, reduce_rows
from qhreg.engine.rows import RowBlocks, SummedRows, residuals, weighted_sum
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import LogNormalizer, restricted_normalizer


def smoothing_width(kappa: float, n: float, columns: int) -> float:
    """Return a width at which the zone has rows, also where kappa is small or zero.

    The bandwidth of smoothed quantile regression (He, Pan, Tan & Zhou 2023), added in quadrature.
    """
    return math.hypot(kappa, max(((math.log(n) + columns) / n) ** 0.4, 0.05))


@dataclass(frozen=True)
class Task:
    """What to fit: the model's side of the problem.

    Attributes
    ----------
    kappa : float
        Huber width.
    tau, sigma : float or None
        Fixed values; None where the parameter is estimated.
    tau_bounds : (float, float)
        Range of an estimated tau.
    reml : bool
        Whether to maximise the restricted likelihood; sigma is then estimated.
    rank : float or None
        The rank p in the restricted likelihood: None for that of the regressors, that of a larger
        model where this one is compared with it (Welham & Thompson 1997).
    unit : float
        What the case weights have been divided by.
    """

    kappa: float
    tau: float | None
    sigma: float | None
    tau_bounds: tuple[float, float]
    reml: bool = True
    rank: float | None = None
    unit: float = 1.0

    @property
    def free_bounds(self) -> tuple[float, float] | None:
        """The range of tau, or None when it is fixed."""
        return self.tau_bounds if self.tau is None else None


class Objective(NamedTuple):
    """The negative log-likelihood (QH-12) or restricted one (QH-25) at (z, tau), differentiated.

    Attributes
    ----------
    value : float
        g(z, tau).
    d_z : ndarray, shape (k,)
        Gradient in z.
    d_tau : float
        Derivative in tau.
    d2_z : ndarray, shape (k, k)
        Hessian in z.
    d_z_tau : ndarray, shape (k,)
        Mixed derivative.
    d2_tau : float
        Second derivative in tau.
    totals : Totals
        The sums over the rows, in their coordinates.
    """

    value: float
    d_z: FloatArray
    d_tau: float
    d2_z: FloatArray
    d_z_tau: FloatArray
    d2_tau: float
    totals: Totals


@dataclass(frozen=True)
class Problem:
    """Minimise g(z, tau) over z = (-b, theta) and tau.

    Attributes
    ----------
    rows : SummedRows
        The data.
    n : float
        Sum of the case weights.
    kappa : float
        Huber width, positive for everything that uses the Hessian.
    matrix : ndarray, shape (p + 1, k), or None
        Coordinates: the unknowns of `rows` are ``matrix @ z``; None when they are z itself.
    theta : float or None
        Fixed value of the last coordinate of z; None when sigma is estimated.
    rank : float
        p of the restricted likelihood (QH-25), zero for the ordinary one.
    tau_bounds : (float, float) or None
        Range of tau; None when it is fixed.
    """

    rows: SummedRows
    n: float
    kappa: float
    matrix: FloatArray | None = None
    theta: float | None = None
    rank: float = 0.0
    tau_bounds: tuple[float, float] | None = None

    @property
    def m(self) -> float:
        """Weight of log theta: n, or n - p in the restricted likelihood."""
        return self.n - self.rank

    def moving(self, z: FloatArray) -> int:
        """Return how many coordinates of z move: all, or all but theta where sigma is fixed."""
        return z.size if self.theta is None else z.size - 1

    def normalizer(self, tau: float | FloatArray) -> LogNormalizer:
        """Return the part of the objective without data, with its derivatives in tau."""
        return restricted_normalizer(tau, self.kappa, self.n, self.rank)

    def to_rows(self, z: FloatArray) -> FloatArray:
        """Return z in the coordinates of the rows."""
        return z if self.matrix is None else self.matrix @ z

    def value(self, z: FloatArray, tau: float) -> float:
        """Return g(z, tau), for kappa = 0 too."""
        loss: float = self.rows.fold(_loss, math.fsum, self.to_rows(z), tau, self.kappa)
        return float(loss + self.normalizer(tau).value - self.m * math.log(z[-1]))

    def evaluate(
        self, z: FloatArray, tau: float, *, since: Zone | None = None, slack: bool = False
    ) -> Objective:
        """Return g and its derivatives at (z, tau) in one pass over the rows.

        Parameters
        ----------
        since : Zone or None
            The zone at a point nearby, which makes second derivatives cheap.
        slack : bool
            Whether to measure the slack of the rows in the zone.
        """
        kappa, theta = self.kappa, float(z[-1])
        totals = reduce_rows(self.rows, self.to_rows(z), tau, kappa, since=since, slack=slack)
        d_z, gram, outside = totals.slope.copy(), totals.zone.gram, totals.zone.outside
        if self.matrix is not None:
            with np.errstate(invalid="ignore"):  # what is not finite shows in the value
                d_z, outside = self.matrix.T.dot(d_z), self.matrix.T.dot(outside)
                gram = self.matrix.T.dot(gram).dot(self.matrix)
        d2_z = gram / kappa
        d_z[-1] -= self.m / theta
        d2_z[-1, -1] += self.m / theta / theta
        c = self.normalizer(tau)
        return Objective(
            totals.loss + c.value - self.m * math.log(theta),
            d_z,
            c.d_tau - totals.excess,
            d2_z,
            -outside,
            c.d2_tau - kappa * totals.zone.weight_outside,
            totals,
        )


def _loss(part: RowBlocks, raw: FloatArray, tau: float, kappa: float) -> float:
    """Return the sum of w rho over the rows of a part."""
    total = 0.0
    for block in part.blocks():
        total += weighted_sum(quantile_huber_loss(residuals(block, raw), tau, kappa), block.weights)
    return total
