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
    weighted,
    weighted_columns,
    weighted_sum,
)
from qhreg.family.loss import zone_part

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
        self.gram += gram(chosen_rows(block, in_zone.nonzero()[0]))
        outside = weighted(np.subtract(1.0, in_zone), block.weights)
        self.outside += weighted_columns(block, outside)
        self.weight_outside += float(outside.sum())

    def _move(self, rows: Block, came: BoolArray) -> None:
        """Add the rows that came into the zone and take off those that left it."""
        sign = weighted(SIGNS.take(came), rows.weights)
        signed_end = None if rows.endog is None else sign * rows.endog
        self.gram += products(sign[:, None] * rows.exog, signed_end, rows.exog, rows.endog)
        self.outside -= weighted_columns(rows, sign)
        self.weight_outside -= float(sign.sum())

    def zone(self) -> Zone:
        """Return the sums over all rows."""
        members, known = tuple(self.members), self.since
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
    zone : Zone
        The second-order sums.
    slack : float
        By how much psi of any row in the zone can change before it meets -tau or 1 - tau; 0 where it
        was not asked for.
    """

    loss: float
    slope: FloatArray
    square: float
    excess: float
    rows_in_zone: int
    zone: Zone
    slack: float


def reduce_rows(
    rows: SummedRows,
    z: FloatArray,
    tau: float,
    kappa: float,
    *,
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
    since : Zone or None
        The zone of the same rows at another point. Near it few rows change sides, and only these are
        added to its sums and taken off them: the Hessian then costs little more than the gradient.
    slack : bool
        Whether to measure the slack of the rows in the zone.
    """
    if since is not None and not since.members:  # which rows are in the zone was not kept
        since = None
    return rows.fold(_totals, _sum, z, tau, kappa, since, slack)


def _totals(
    rows: RowBlocks, z: FloatArray, tau: float, kappa: float, since: Zone | None, slack: bool
) -> Totals:
    """Return the totals of rows held in memory."""
    linear = square = excess = 0.0
    in_zone = 0
    room = min(tau, 1.0 - tau) * kappa if slack else 0.0
    slope = np.zeros(rows.n_unknowns)
    sums = ZoneSums(rows.n_unknowns, since)
    for block in rows.blocks():
        u = residuals(block, z)
        zone = zone_part(u, tau, kappa)
        beyond = np.subtract(u, zone, out=u)
        zone_weighted = weighted(zone, block.weights)
        square += float(zone_weighted.dot(zone))
        linear += float(zone_weighted.dot(beyond))
        slope += weighted_columns(block, zone_weighted)
        excess += weighted_sum(beyond, block.weights)
        members = beyond == 0.0
        count = int(np.count_nonzero(members))
        in_zone += count
        sums.add(block, members, count)
        if slack and count:
            inside = zone[members]
            ends = float(inside.min()) + kappa * tau, kappa * (1.0 - tau) - float(inside.max())
            room = min(room, *ends)
    second_order = sums.zone()
    if not second_order.accurate:
        return _totals(rows, z, tau, kappa, None, slack)
    return Totals(
        (0.5 * square + linear) / kappa,
        slope / kappa,
        square / kappa**2,
        excess,
        in_zone,
        second_order,
        room / kappa,
    )


def _sum(parts: Sequence[Totals]) -> Totals:
    """Return the totals of all parts, without the list of their rows in the zone."""
    zones = [part.zone for part in parts]
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
