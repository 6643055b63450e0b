r"""The one pass over the data: value, gradient and Hessian of the likelihood, block by block.

With ``theta = 1 / sigma`` and ``b = beta / sigma`` the standardised residual
``u = theta y - x'b`` is linear in the unknowns. Stack the columns as ``W = [X, y]`` and the unknowns
as ``z = (-b, theta)``: then ``u = W z`` and the negative log-likelihood is (QH-12)

.. math::

    g(z, \tau) = n \log c(\tau) - n \log\theta + \sum_i w_i\,\rho_\tau(u_i),
    \qquad n = \textstyle\sum_i w_i .

Every sum over rows that any caller needs is accumulated in :func:`reduce_rows`, over row blocks that
fit in cache. Callers see totals only, so that rows may live anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from qhreg.loss import zone_part
from qhreg.normalizer import LogNormalizer, log_normalizer_derivatives

__all__ = [
    "ArrayRows",
    "Block",
    "Objective",
    "RowBlocks",
    "Totals",
    "Zone",
    "objective",
    "reduce_rows",
]

FloatArray = npt.NDArray[np.float64]

BLOCK_BYTES = 2**22
"""Size of a row block of W: its vectors stay in cache, and it is large enough to hide call overhead."""

BLOCK_ROWS = (4096, 32768)
"""Least and most rows of a block: enough for a Gram matrix of many columns, no more than cache."""

BLOCK_SHARE = 6
"""Blocks that data are cut into: what a pass allocates stays small beside them."""

SHORT_BLOCK = 2048
"""Rows below which no block is cut."""

KEPT_DIGITS = 1e-6
"""Share of its largest value that must be left of a diagonal element: beyond it is rounding."""


class Block(NamedTuple):
    """Some rows of the data.

    Attributes
    ----------
    exog : ndarray, shape (m, k)
        Regressors; when `endog` is None the last column is the response.
    endog : ndarray, shape (m,) or None
        Response.
    weights : ndarray, shape (m,) or None
        Case weights; None means one each.
    """

    exog: FloatArray
    endog: FloatArray | None
    weights: FloatArray | None


class RowBlocks(Protocol):
    """Anything that can hand out its rows block by block, as often as asked."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W: regressors plus the response."""
        ...

    @property
    def weight_sum(self) -> float:
        """Sum of the case weights (the number of rows without weights)."""
        ...

    @property
    def least_weight(self) -> float:
        """The least case weight (one without weights)."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Iterate over the rows, each time in the same blocks."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """Rows held in arrays; blocks are views, nothing of the size of the data is copied.

    Attributes
    ----------
    exog : ndarray, shape (n, p)
        Regressors, float32 or float64, C- or F-ordered, possibly read-only.
    endog : ndarray, shape (n,) or None
        Response; None when it is the last column of `exog`.
    weights, offset : ndarray, shape (n,), or None
        Case weights; known part of the location.
    endog_scale : float
        The response enters as ``(endog - offset) / endog_scale``.
    transform : ndarray or None
        When given, shape (p + 1, r + 1): each block [X, y] is multiplied by it, and its last column
        becomes the response. Costs a product per pass; for columns too collinear for a Gram matrix.
    pieces : int
        Least number of blocks of data that are large enough to be cut.
    """

    exog: npt.NDArray[np.floating]
    endog: npt.NDArray[np.floating] | None
    weights: FloatArray | None = None
    offset: FloatArray | None = None
    endog_scale: float = 1.0
    transform: FloatArray | None = None
    pieces: int = BLOCK_SHARE

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.exog.shape[0])

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W."""
        if self.transform is not None:
            return int(self.transform.shape[1])
        return int(self.exog.shape[1]) + (self.endog is not None)

    @cached_property
    def weight_sum(self) -> float:
        """Sum of the case weights."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @cached_property
    def least_weight(self) -> float:
        """The least case weight."""
        return 1.0 if self.weights is None else float(self.weights.min())

    def block(self, rows: slice) -> Block:
        """Return one block in float64, response scaled and shifted."""
        exog = np.asarray(self.exog[rows], dtype=np.float64)
        weights = None if self.weights is None else self.weights[rows]
        endog = None
        if self.endog is not None:
            endog = np.asarray(self.endog[rows], dtype=np.float64)
            if self.offset is not None:
                endog = endog - self.offset[rows]
            if self.endog_scale != 1.0:
                endog = endog / self.endog_scale
        if self.transform is None:
            return Block(exog, endog, weights)
        design = exog @ self.transform[:-1]
        if endog is not None:
            design += endog[:, None] * self.transform[-1]
        return Block(design, None, weights)

    def blocks(self) -> Iterator[Block]:
        """Iterate over blocks of about BLOCK_BYTES."""
        step = BLOCK_BYTES // (8 * max(self.exog.shape[1], 1))
        step = min(max(step, BLOCK_ROWS[0]), BLOCK_ROWS[1])
        step = min(step, max(self.n_rows // self.pieces, SHORT_BLOCK))
        for start in range(0, self.n_rows, step):
            yield self.block(slice(start, start + step))


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

    members: tuple[npt.NDArray[np.bool_], ...]
    gram: FloatArray
    outside: FloatArray
    weight_outside: float
    peak: FloatArray | None

    @property
    def accurate(self) -> bool:
        """Whether taking rows off has left enough digits."""
        if self.peak is None:
            return True
        return bool((self.gram.diagonal() >= KEPT_DIGITS * self.peak).all())


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


def residuals(block: Block, z: FloatArray) -> FloatArray:
    """Return u = W z for one block; z may have several columns."""
    if block.endog is None:
        return block.exog @ z
    u: FloatArray = block.exog @ z[:-1]
    u += z[-1] * (block.endog if z.ndim == 1 else block.endog[:, None])
    return u


def weighted_columns(block: Block, v: FloatArray) -> FloatArray:
    """Return W'v for one block."""
    if block.endog is None:
        return v @ block.exog
    total = np.empty(block.exog.shape[1] + 1)
    total[:-1] = v @ block.exog
    total[-1] = v @ block.endog
    return total


def _gather(exog: FloatArray, rows: npt.NDArray[np.intp]) -> FloatArray:
    """Return the chosen rows by the faster route: take copies an F-ordered block as a whole first."""
    by_row = exog.strides[0] >= exog.strides[1]
    return exog.take(rows, axis=0, mode="clip") if by_row else exog[rows]


def chosen_rows(block: Block, rows: npt.NDArray[np.intp]) -> Block:
    """Return some rows of a block as a block of their own."""
    return Block(
        _gather(block.exog, rows),
        None if block.endog is None else block.endog[rows],
        None if block.weights is None else block.weights[rows],
    )


def gram(block: Block) -> FloatArray:
    """Return the sum of w W W' over a block that may be overwritten."""
    exog, endog = block.exog, block.endog
    if block.weights is not None:
        root = np.sqrt(block.weights)
        exog *= root[:, None]
        endog = None if endog is None else endog * root
    return _products(exog, endog, exog, endog)


def _products(
    left: FloatArray, left_end: FloatArray | None, exog: FloatArray, endog: FloatArray | None
) -> FloatArray:
    """Return the symmetric [left, left_end]' [exog, endog]."""
    if endog is None or left_end is None:
        return left.T @ exog
    k = exog.shape[1]
    total = np.empty((k + 1, k + 1))
    total[:k, :k] = left.T @ exog
    total[k, :k] = total[:k, k] = endog @ left
    total[k, k] = endog @ left_end
    return total


class _ZoneSums:
    """The second-order sums, gathered block by block: anew, or as changes since another point."""

    def __init__(self, k: int, since: Zone | None) -> None:
        self.since = since
        self.members: list[npt.NDArray[np.bool_]] = []
        self.gram = np.zeros((k, k))
        self.outside = np.zeros(k)
        self.weight_outside = 0.0
        self.changed = since is None

    def add(self, block: Block, in_zone: npt.NDArray[np.bool_], count: int) -> None:
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

    def _move(self, rows: Block, came: npt.NDArray[np.bool_]) -> None:
        """Add the rows that came into the zone and take off those that left it."""
        self.changed = True
        sign = np.where(came, 1.0, -1.0)
        if rows.weights is not None:
            sign *= rows.weights
        signed_end = None if rows.endog is None else sign * rows.endog
        self.gram += _products(sign[:, None] * rows.exog, signed_end, rows.exog, rows.endog)
        self.outside -= weighted_columns(rows, sign)
        self.weight_outside -= float(np.add.reduce(sign))

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


def reduce_rows(
    rows: RowBlocks,
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
    rows : RowBlocks
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
    linear = square = excess = 0.0
    in_zone = 0
    room = min(tau, 1.0 - tau) * kappa if slack else 0.0
    slope = np.zeros(rows.n_unknowns)
    sums = _ZoneSums(rows.n_unknowns, since) if hessian else None
    for block in rows.blocks():
        u = residuals(block, z)
        zone = zone_part(u, tau, kappa)
        beyond = np.subtract(u, zone, out=u)
        weighted = zone if block.weights is None else zone * block.weights
        square += float(weighted @ zone)
        linear += float(weighted @ beyond)
        slope += weighted_columns(block, weighted)
        excess += float(np.add.reduce(beyond) if block.weights is None else beyond @ block.weights)
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
        return reduce_rows(rows, z, tau, kappa, slack=slack)
    return Totals(
        (0.5 * square + linear) / kappa,
        slope / kappa,
        square / kappa**2,
        excess,
        in_zone,
        found,
        room / kappa,
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


def objective(totals: Totals, z: FloatArray, tau: float, kappa: float, n: float) -> Objective:
    """Return g and its derivatives from the totals of one pass; n is the sum of the weights."""
    c: LogNormalizer = log_normalizer_derivatives(tau, kappa)
    theta = float(z[-1])
    d_z = totals.slope.copy()
    d_z[-1] -= n / theta
    zone = totals.zone
    d2_z = d_z_tau = None
    d2_tau = n * c.d2_tau
    if zone is not None:
        d2_z = zone.gram / kappa
        d2_z[-1, -1] += n / theta**2
        d_z_tau = -zone.outside
        d2_tau -= kappa * zone.weight_outside
    return Objective(
        totals.loss + n * (c.value - math.log(theta)),
        d_z,
        n * c.d_tau - totals.excess,
        d2_z,
        d_z_tau,
        d2_tau,
        totals.loss,
        totals.square,
        totals.rows_in_zone,
        zone,
        totals.slack,
    )
