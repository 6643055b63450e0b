r"""The one pass over the data: value, gradient and Hessian of the likelihood, block by block.

With ``theta = 1 / sigma`` and ``b = beta / sigma`` the standardised residual
``u = theta y - x'b`` is linear in the unknowns. Stack the columns as ``W = [X, y]`` and the unknowns
as ``z = (-b, theta)``: then ``u = W z`` and the negative log-likelihood is (QH-12)

.. math::

    g(z, \tau) = n \log c(\tau) - n \log\theta + \sum_i w_i\,\rho_\tau(u_i),
    \qquad n = \textstyle\sum_i w_i ,

and the restricted one, with p the rank of X and m = n - p (QH-25),

.. math::

    R(z, \tau) = n \log c(\tau) + \frac p2\log q(\tau) - m \log\theta
    + \sum_i w_i\,\rho_\tau(u_i) .

R is minus the log density of what no shift of y along X changes, by Laplace's method with the expected
information q / sigma^2 of each row (Patterson & Thompson 1971; Harville 1974; Cox & Reid 1987). With a
normal density it is the residual likelihood, whose sigma^2 divides by n - p.

Every sum over rows that Newton's method needs is accumulated in :func:`reduce_rows`, over row blocks
that fit in cache. Callers see totals only, so that rows may live anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from qhreg._typing import BoolArray, FloatArray
from qhreg.engine.rows import (
    Block,
    RowBlocks,
    SummedRows,
    chosen_rows,
    gram,
    products,
    residuals,
    weighted_columns,
)
from qhreg.family.loss import zone_part
from qhreg.family.normalizer import restricted_normalizer

KEPT_DIGITS = 1e-6
"""Share of its largest value that must be left of a diagonal element: beyond it is rounding."""

SIGNS = np.array([-1.0, 1.0])
"""The sign with which a row enters the sums when it has left the zone, and when it has come."""


class Zone(NamedTuple):
    """The rows in the zone at one (z, tau, kappa) and the second-order sums over them; W is n x k.

    Attributes
    ----------
    members : tuple of ndarray of bool
        For each block, which of its rows are in the zone.
    gram : ndarray, shape (k, k)
        sum of w W W' over the rows in the zone; divided by kappa, the Hessian of the loss in z.
    outside : ndarray, shape (k,)
        sum of w W over the rows outside the zone: minus the mixed derivative in (z, tau).
    weight_outside : float
        sum of w over the rows outside: times -kappa, the second derivative of the loss in tau.
    peak : ndarray, shape (k,), or None
        The largest that the diagonal of `gram` has been since it was summed over all rows: times the
        rounding of floats, the error of `gram`. None when it has just been.
    """

    members: tuple[BoolArray, ...]
    gram: FloatArray
    outside: FloatArray
    weight_outside: float
    peak: FloatArray | None

    @property
    def accurate(self) -> bool:
        """Whether taking rows off has left enough digits."""
        if self.peak is None:
            return True
        return min((self.gram.diagonal() - KEPT_DIGITS * self.peak).tolist(), default=0.0) >= 0.0


class ZoneSums:
    """The second-order sums, gathered block by block: anew, or as changes since another point."""

    def __init__(self, k: int, since: Zone | None) -> None:
        self.since = since
        self.members: list[BoolArray] = []
        self.gram = np.zeros((k, k))
        self.outside = np.zeros(k)
        self.weight_outside = 0.0
        self.changed = since is None

    def add(self, block: Block, in_zone: BoolArray, count: int) -> None:
        """Add the rows of one block, of which `count` are in the zone."""
        number = len(self.members)
        self.members.append(in_zone)
        if self.since is not None:
            moved = (in_zone != self.since.members[number]).nonzero()[0]
            if number > 0 or 2 * moved.size <= count:
                if moved.size:
                    self._move(chosen_rows(block, moved), in_zone[moved])
                return
            self.since = None
        self.changed = True
        inside = in_zone.nonzero()[0]
        self.gram += gram(chosen_rows(block, inside))
        out_weight = np.ones(in_zone.size) if block.weights is None else block.weights.copy()
        out_weight[inside] = 0.0
        self.outside += weighted_columns(block, out_weight)
        self.weight_outside += float(
            in_zone.size - inside.size if block.weights is None else np.add.reduce(out_weight)
        )

    def _move(self, rows: Block, came: BoolArray) -> None:
        """Add the rows that came into the zone and take off those that left it."""
        self.changed = True
        sign = SIGNS.take(came)
        if rows.weights is not None:
            sign *= rows.weights
        signed_end = None if rows.endog is None else sign * rows.endog
        self.gram += products(sign[:, None] * rows.exog, signed_end, rows.exog, rows.endog)
        self.outside -= weighted_columns(rows, sign)
        self.weight_outside -= float(
            2 * np.count_nonzero(came) - came.size if rows.weights is None else np.add.reduce(sign)
        )

    def zone(self) -> Zone:
        """Return the sums over all rows."""
        members, known = tuple(self.members), self.since
        if known is not None and not self.changed:
            return known
        if known is None:
            return Zone(members, self.gram, self.outside, self.weight_outside, None)
        total = known.gram + self.gram
        peak = known.gram.diagonal() if known.peak is None else known.peak
        return Zone(
            members,
            total,
            known.outside + self.outside,
            known.weight_outside + self.weight_outside,
            np.maximum(peak, total.diagonal()),
        )


class Totals(NamedTuple):
    """Sums over all rows at one (z, tau, kappa); W is n x k.

    Attributes
    ----------
    loss : float
        sum w rho.
    slope : ndarray, shape (k,)
        sum w psi W: the gradient of the loss in z.
    square : float
        sum w psi^2.
    excess : float
        sum w e: minus the derivative of the loss in tau.
    rows_in_zone : int
        Number of rows in the zone (with or without weight).
    zone : Zone or None
        The second-order sums where they were asked for.
    slack : float
        By how much psi of any row in the zone can change before it meets -tau or 1 - tau; 0 where it
        was not asked for.
    """

    loss: float
    slope: FloatArray
    square: float
    excess: float
    rows_in_zone: int
    zone: Zone | None
    slack: float


def reduce_rows(
    rows: SummedRows,
    z: FloatArray,
    tau: float,
    kappa: float,
    *,
    hessian: bool = True,
    since: Zone | None = None,
    slack: bool = False,
) -> Totals:
    """Return the totals at (z, tau, kappa) in one pass over the rows; kappa must be positive.

    Parameters
    ----------
    rows : SummedRows
        The data.
    z : ndarray, shape (k,)
        (-b, theta).
    tau, kappa : float
        0 < tau < 1, kappa > 0.
    hessian : bool
        Whether to accumulate the second-order totals too.
    since : Zone or None
        The zone of the same rows at another point. Near it few rows change sides, and only these are
        added to its sums and taken off them: the Hessian then costs little more than the gradient.
    slack : bool
        Whether to measure the slack of the rows in the zone; with `hessian` only.
    """
    if since is not None and not since.members:  # which rows are in the zone was not kept
        since = None
    return rows.fold(_totals, _sum, z, tau, kappa, hessian, since, slack)


def _totals(
    rows: RowBlocks,
    z: FloatArray,
    tau: float,
    kappa: float,
    hessian: bool,
    since: Zone | None,
    slack: bool,
) -> Totals:
    """Return the totals of rows held in memory."""
    linear = square = excess = 0.0
    in_zone = 0
    room = min(tau, 1.0 - tau) * kappa if slack else 0.0
    k = rows.n_unknowns
    slope = np.zeros(k)
    sums = ZoneSums(k, since) if hessian else None
    for block in rows.blocks():
        u = residuals(block, z)
        zone = zone_part(u, tau, kappa)
        beyond = np.subtract(u, zone, out=u)
        weighted = zone if block.weights is None else zone * block.weights
        square += float(weighted.dot(zone))
        linear += float(weighted.dot(beyond))
        slope += weighted_columns(block, weighted)
        excess += float(
            np.add.reduce(beyond) if block.weights is None else beyond.dot(block.weights)
        )
        if sums is None:
            in_zone += beyond.size - int(np.count_nonzero(beyond))
            continue
        members = beyond == 0.0
        count = int(np.count_nonzero(members))
        in_zone += count
        sums.add(block, members, count)
        if slack and count:
            inside = zone[members]
            room = min(
                room,
                float(inside.min()) + kappa * tau,
                kappa * (1.0 - tau) - float(inside.max()),
            )
    found = None if sums is None else sums.zone()
    if found is not None and not found.accurate:
        return _totals(rows, z, tau, kappa, hessian, None, slack)
    return Totals(
        (0.5 * square + linear) / kappa,
        slope / kappa,
        square / kappa**2,
        excess,
        in_zone,
        found,
        room / kappa,
    )


def _sum(parts: Sequence[Totals]) -> Totals:
    """Return the totals of all parts, without the list of their rows in the zone."""
    zones = [part.zone for part in parts if part.zone is not None]
    zone = None
    if zones:
        zone = Zone(
            (),
            np.sum([each.gram for each in zones], axis=0),
            np.sum([each.outside for each in zones], axis=0),
            sum(each.weight_outside for each in zones),
            None,
        )
    return Totals(
        sum(part.loss for part in parts),
        np.sum([part.slope for part in parts], axis=0),
        sum(part.square for part in parts),
        sum(part.excess for part in parts),
        sum(part.rows_in_zone for part in parts),
        zone,
        min(part.slack for part in parts),
    )


class Objective(NamedTuple):
    """The negative log-likelihood (QH-12) at (z, tau) with its derivatives.

    Attributes
    ----------
    value : float
        g(z, tau).
    d_z : ndarray, shape (k,)
        Gradient in z.
    d_tau : float
        Derivative in tau.
    d2_z : ndarray, shape (k, k), or None
        Hessian in z.
    d_z_tau : ndarray, shape (k,), or None
        Mixed derivative.
    d2_tau : float
        Second derivative in tau.
    loss, square : float
        sum w rho and sum w psi^2.
    rows_in_zone : int
        Rows in the quadratic zone.
    zone : Zone or None
        The zone, in the coordinates of the rows, where the Hessian was asked for.
    slack : float
        How far psi of every row in the zone is from -tau and 1 - tau, where that was asked for.
    """

    value: float
    d_z: FloatArray
    d_tau: float
    d2_z: FloatArray | None
    d_z_tau: FloatArray | None
    d2_tau: float
    loss: float
    square: float
    rows_in_zone: int
    zone: Zone | None
    slack: float


def objective(
    totals: Totals,
    z: FloatArray,
    tau: float,
    kappa: float,
    n: float,
    matrix: FloatArray | None = None,
    *,
    rank: float = 0.0,
) -> Objective:
    """Return g and its derivatives in z from the totals of one pass.

    Parameters
    ----------
    n : float
        Sum of the weights.
    rank : float
        Rank of the regressors in the restricted likelihood (QH-25); zero for the ordinary one.
    matrix : ndarray or None
        Coordinates: the totals are at the unknowns ``matrix @ z``; None when they are z itself.
    """
    c, m = restricted_normalizer(tau, kappa, n, rank), n - rank
    theta = float(z[-1])
    d_z = totals.slope.copy() if matrix is None else matrix.T.dot(totals.slope)
    d_z[-1] -= m / theta
    zone = totals.zone
    d2_z = d_z_tau = None
    d2_tau = c.d2_tau
    if zone is not None:
        gram = zone.gram if matrix is None else matrix.T.dot(zone.gram).dot(matrix)
        d2_z = gram / kappa
        d2_z[-1, -1] += m / theta / theta
        d_z_tau = -(zone.outside if matrix is None else matrix.T.dot(zone.outside))
        d2_tau -= kappa * zone.weight_outside
    return Objective(
        totals.loss + c.value - m * math.log(theta),
        d_z,
        c.d_tau - totals.excess,
        d2_z,
        d_z_tau,
        d2_tau,
        totals.loss,
        totals.square,
        totals.rows_in_zone,
        zone,
        totals.slack,
    )
