"""The rows in the quadratic zone: the second-order sums over them, anew or moved from another point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qhreg._typing import BoolArray, FloatArray
from qhreg.engine.rows import Block, chosen_rows, gram, products, weighted_columns

__all__ = ["Zone", "ZoneSums"]


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
