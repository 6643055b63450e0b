r"""The quantile Huber distribution as a scipy distribution, every method in closed form.

Write t for the slope on the side of zero that a point lies on (tau on the left, 1 - tau on the
right), :math:`M(x) = (1-\Phi(x))/\varphi(x)` for the Mills ratio, A for the half normaliser (QH-5).
The probability beyond v on its own side is the density times a ratio (QH-10),

.. math::

    R(v) = \begin{cases}
        1/t & |v| \ge \kappa t\\
        \sqrt\kappa\,M(|v|/\sqrt\kappa) + e^{-(\kappa^2 t^2 - v^2)/(2\kappa)}
            \big(1 - t\sqrt\kappa\,M(t\sqrt\kappa)\big)/t & |v| < \kappa t
    \end{cases}

and the probability on the other side is the other half plus what lies between zero and v (QH-11):
two sums of positive terms, so that neither tail is one minus the other.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy import integrate, special, stats
from scipy.stats._distn_infrastructure import _ShapeInfo

from qhreg._typing import FloatArray
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import (
    FARTHEST,
    half_normalizer,
    log_normalizer_derivatives,
    log_normalizer_higher,
    zone_integral,
)

# scipy's methods take *args where a distribution names its shapes: no override can match them.
_RvContinuous: Any = stats.rv_continuous

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_SQRT_2PI = math.sqrt(2 * math.pi)


def _mills(x: Any) -> Any:
    """Return the Mills ratio of the normal distribution."""
    return _SQRT_HALF_PI * special.erfcx(x / math.sqrt(2))


def _width(kappa: Any) -> tuple[Any, Any]:
    """Return sqrt(kappa), and the same with 1 in the place of 0 to divide by."""
    width = np.sqrt(kappa)
    return width, np.where(width > 0.0, width, 1.0)


def _number(parameter: Any, points: Any) -> Any:
    """Return the one number that a parameter repeats for all points, or else the parameter.

    scipy repeats the shapes for every point, and the usual case is one pair of them.
    """
    flat = np.ravel(parameter)
    if 0 < flat.size <= np.size(points) and np.all(flat == flat[0]):
        return float(flat[0])
    return parameter


def _both_halves(tau: Any, kappa: Any) -> Any:
    """Return c as the sum of its halves."""
    return half_normalizer(tau, kappa) + half_normalizer(1.0 - tau, kappa)


def _zone_remainder(t: Any, kappa: Any) -> Any:
    """Return (1 - x M(x)) / t with x = t sqrt(kappa): the share of the tail that is not normal."""
    x = t * np.sqrt(kappa)
    return (1.0 - x * _mills(x)) / t


def _near_ratio(distance: Any, t: Any, kappa: Any) -> Any:
    """Return R (QH-10) at |v| = distance, where the slope of the loss is t."""
    width, divisor = _width(kappa)
    inside = distance < kappa * t
    z = np.where(inside, distance, 0.0) / divisor
    x = t * width
    decay = np.exp(-0.5 * (x - z) * (x + z))
    return np.where(inside, width * _mills(z) + decay * _zone_remainder(t, kappa), 1.0 / t)


def _near(v: Any, tau: Any, kappa: Any) -> tuple[Any, Any]:
    """Return the probability beyond v on its own side, cdf left of zero and sf right, and its log.

    R / c is taken before the logarithm: with one slope close to 0 both are large and nearly equal.
    """
    t = np.where(v <= 0.0, tau, 1.0 - tau)
    share = _near_ratio(np.abs(v), t, kappa) / _both_halves(tau, kappa)
    loss = quantile_huber_loss(v, tau, kappa)
    return np.exp(-loss) * share, np.log(share) - loss


def _between(distance: Any, t: Any, kappa: Any) -> Any:
    """Return c times the probability between zero and distance, on the side with slope t."""
    width, divisor = _width(kappa)
    edge = kappa * t
    zone = (
        _SQRT_HALF_PI * width * special.erf(np.minimum(distance, edge) / (divisor * math.sqrt(2)))
    )
    tail = -np.expm1(-t * np.maximum(distance - edge, 0.0)) * np.exp(-0.5 * edge * t) / t
    return zone + tail


def _far(v: Any, tau: Any, kappa: Any) -> Any:
    """Return the probability on the other side of v than its near tail (QH-11)."""
    left = v <= 0.0
    t, other = np.where(left, tau, 1.0 - tau), np.where(left, 1.0 - tau, tau)
    mass = half_normalizer(other, kappa) + _between(np.abs(v), t, kappa)
    return np.minimum(mass / _both_halves(tau, kappa), 1.0)


def _log_near_far(v: Any, tau: Any, kappa: Any) -> tuple[Any, Any]:
    """Return the logarithms of the near and the far probability, each from the smaller of them."""
    (near, log_near), far = _near(v, tau, kappa), _far(v, tau, kappa)
    return (
        np.where(near < 0.5, log_near, np.log1p(-np.minimum(far, 0.5))),
        np.where(far < 0.5, np.log(far), np.log1p(-np.minimum(near, 0.5))),
    )


def _near_quantile(p: Any, t: Any, kappa: Any, c: Any) -> Any:
    """Return the distance from zero beyond which the side with slope t has probability p."""
    width, divisor = _width(kappa)
    edge = kappa * t
    edge_gauss = np.exp(-0.5 * edge * t)
    edge_p = edge_gauss / (t * c)
    beyond = (p <= edge_p) & (edge_p > 0.0)
    ratio = np.where(beyond, p / np.where(beyond, edge_p, 1.0), 1.0)
    normal_p = (p * c - edge_gauss * _zone_remainder(t, kappa)) / (_SQRT_2PI * divisor)
    z = np.minimum(-special.ndtri(np.clip(normal_p, 0.0, 0.5)), t * width)
    with np.errstate(divide="ignore"):  # p = 0 is infinitely far
        return np.where(beyond, edge - np.log(ratio) / t, width * z)


def _far_quantile(p: Any, t: Any, other: Any, kappa: Any, c: Any) -> Any:
    """Return the distance on the side with slope t up to which, other side included, p lies.

    For p >= 1/2 the difference 1 - p is exact and the near quantile takes it. Otherwise the other
    side can be so light that 1 - p would lose p, and (QH-11) is inverted.
    """
    width, divisor = _width(kappa)
    edge = kappa * t
    mass = p * c - half_normalizer(other, kappa)
    tail = (mass - _between(edge, t, kappa)) * t / np.exp(-0.5 * np.minimum(edge * t, 1000.0))
    zone = np.clip(mass / (_SQRT_HALF_PI * divisor), 0.0, 0.9)  # below 0.39 where it is used
    anchored = np.where(
        tail > 0.0,
        edge - np.log1p(-np.clip(tail, 0.0, 0.5)) / t,
        np.minimum(math.sqrt(2) * width * special.erfinv(zone), edge),
    )
    return np.where(p < 0.5, anchored, _near_quantile(np.where(p < 0.5, 0.5, 1.0 - p), t, kappa, c))


def _tail_quantile(p: Any, t: Any, other: Any, kappa: Any) -> Any:
    """Return the distance from zero, on the side with slope t, beyond which there is probability p.

    It is negative where the point lies on the other side.
    """
    half = half_normalizer(t, kappa)
    c = half + half_normalizer(other, kappa)
    return np.where(
        p * c <= half, _near_quantile(p, t, kappa, c), -_far_quantile(p, other, t, kappa, c)
    )


def _half_moment(n: int, t: Any, kappa: Any) -> Any:
    """Return the integral of u^n exp(-rho) over the positive half line with slope t (QH-18)."""
    x = np.minimum(kappa * t * t, FARTHEST)
    zone = kappa ** (n + 1) * zone_integral(n, t, kappa)
    partial_exponential = sum(x**j / math.factorial(j) for j in range(n + 1))
    tail = math.factorial(n) * partial_exponential * np.exp(-0.5 * x) / t ** (n + 1)
    return zone + tail


def _normal_integrals(w: Any) -> tuple[Any, Any]:
    r"""Return antiderivatives of :math:`\Phi` and :math:`\Phi^2` at w."""
    cdf, pdf = special.ndtr(w), np.exp(-0.5 * w * w) / _SQRT_2PI
    square = w * cdf**2 + 2.0 * pdf * cdf - special.ndtr(math.sqrt(2) * w) / math.sqrt(math.pi)
    return w * cdf + pdf, square


def _zone_cdf(tau: Any, kappa: Any) -> tuple[Any, Any, Any]:
    r"""Return A, a and b: A the cdf at the zone's left edge, :math:`a + b\Phi(v/\sqrt\kappa)` in it."""
    c = _both_halves(tau, kappa)
    left = np.exp(-0.5 * np.minimum(kappa * tau * tau, FARTHEST)) / (tau * c)
    share = _SQRT_2PI * np.sqrt(kappa) / c
    return left, left - share * special.ndtr(-tau * np.sqrt(kappa)), share


def _shortfall(v: Any, tau: Any, kappa: Any) -> Any:
    r"""Return :math:`E(v - X)_+ = \int_{-\infty}^v F` for v up to zero."""
    width, divisor = _width(kappa)
    left, a, share = _zone_cdf(tau, kappa)
    start, w = -tau * width, np.maximum(v / divisor, -tau * width)
    zone = a * (w - start) + share * (_normal_integrals(w)[0] - _normal_integrals(start)[0])
    beyond = np.exp(np.minimum(tau * (v + kappa * tau), 0.0))
    return left / tau * beyond + np.where(v > -kappa * tau, width * zone, 0.0)


def _half_mean_difference(tau: Any, kappa: Any) -> Any:
    r"""Return :math:`\tfrac12 E|X - X'| = \int F (1 - F)`: two tails and the zone."""
    width, _ = _width(kappa)
    left, a, share = _zone_cdf(tau, kappa)
    right, _, _ = _zone_cdf(1.0 - tau, kappa)
    start, end = -tau * width, (1.0 - tau) * width
    once, twice = (
        y - x for x, y in zip(_normal_integrals(start), _normal_integrals(end), strict=True)
    )
    zone = a * (1.0 - a) * width + share * (1.0 - 2.0 * a) * once - share**2 * twice
    tails = left * (1.0 - 0.5 * left) / tau + right * (1.0 - 0.5 * right) / (1.0 - tau)
    return tails + width * zone


def _quadrature_cuts(tau: float, kappa: float) -> FloatArray:
    """Return increasing points between which the density is smooth and of one scale."""
    p = np.array([1e-300, 1e-60, 1e-12, 1e-3])
    kinks = [-kappa * tau, 0.0, kappa * (1.0 - tau)]
    low, high = (
        -_tail_quantile(p, tau, 1.0 - tau, kappa),
        _tail_quantile(p, 1.0 - tau, tau, kappa),
    )
    cuts = np.unique([*low, *kinks, *high])
    inside: FloatArray = cuts[(cuts >= low[0]) & (cuts <= high[0])]
    return inside


class quantile_huber_gen(_RvContinuous):  # type: ignore[misc]
    r"""The quantile Huber distribution.

    %(before_notes)s

    Notes
    -----
    The density for the asymmetry ``tau`` and the Huber width ``kappa`` is

    .. math::

        f(x;\tau,\kappa) = e^{-\rho(x)}/c(\tau,\kappa), \qquad
        \rho(x) = x\psi - \kappa\psi^2/2, \qquad
        \psi = \operatorname{clip}(x/\kappa,\,-\tau,\,1-\tau)

    for :math:`0 < \tau < 1` and :math:`\kappa \ge 0`: normal with variance kappa on
    :math:`[-\kappa\tau, \kappa(1-\tau)]`, exponential with rate tau to the left of it and rate
    1 - tau to the right. Its mode is 0. High tau means a heavy right tail.

    The probability left of 0 is 1 - tau only for kappa = 0. There
    ``statsmodels.QuantReg(...).fit(q)`` and R's ``rq(tau=q)`` estimate the same location as q = 1 -
    tau; for kappa > 0 the level of the location is ``cdf(0)``.

    Tilting the density by :math:`e^{hx}` gives the same family at :math:`\tau+h`, so that its
    cumulant generating function is, for :math:`-\tau < h < 1-\tau` (QH-17),

    .. math:: K(h) = \kappa h^2/2 + \log c(\tau+h) - \log c(\tau).

    The mean is :math:`(\log c)'`, the variance :math:`\kappa + (\log c)''`, the third and fourth
    cumulants are the derivatives of log c; the entropy is
    :math:`1 + \log c - \kappa\,\partial_\kappa\log c`.

    At kappa = 0 it is the asymmetric Laplace distribution. With
    :math:`a = \sqrt{(1-\tau)/\tau}` the same law is

    - ``scipy.stats.laplace_asymmetric(kappa=a, scale=scale / sqrt(tau * (1 - tau)))``,
    - ``dalap(kappa = a, scale = scale * sqrt(2 / (tau * (1 - tau))))`` in R's VGAM, whose own tau
      is 1 - tau here.

    At tau = 1/2 it is the density of Huber's loss; for kappa to infinity it approaches the normal
    distribution with standard deviation ``scale * sqrt(kappa)``.

    %(after_notes)s

    Examples
    --------
    >>> from qhreg.family.distribution import quantile_huber
    >>> errors = quantile_huber(tau=0.75, kappa=1.0, scale=2.0)
    >>> round(float(errors.mean()), 4), round(float(errors.cdf(0.0)), 4)
    (4.8713, 0.2909)
    """

    def __call__(self, *args: Any, **kwds: Any) -> Any:
        """Return the distribution with its parameters fixed, as any of scipy.stats."""
        if (args and isinstance(args[0], str)) or {"formula", "data"} & kwds.keys():
            raise TypeError(
                "qhreg.quantile_huber is the distribution: the model of a formula is "
                "qhreg.formula.api.quantile_huber(formula, data)"
            )
        return self.freeze(*args, **kwds)

    def _argcheck(self, tau: Any, kappa: Any) -> Any:
        return (tau > 0) & (tau < 1) & (kappa >= 0) & (kappa < np.inf)

    def _shape_info(self) -> list[Any]:
        return [
            _ShapeInfo("tau", False, (0, 1), (False, False)),
            _ShapeInfo("kappa", False, (0, np.inf), (True, False)),
        ]

    def _logpdf(self, x: Any, tau: Any, kappa: Any) -> Any:
        tau, kappa = _number(tau, x), _number(kappa, x)
        result = quantile_huber_loss(x, tau, kappa)
        result += log_normalizer_derivatives(tau, kappa).value
        return np.negative(result, out=result) if isinstance(result, np.ndarray) else -result

    def _pdf(self, x: Any, tau: Any, kappa: Any) -> Any:
        return np.exp(self._logpdf(x, tau, kappa))

    def _cdf(self, x: Any, tau: Any, kappa: Any) -> Any:
        tau, kappa = _number(tau, x), _number(kappa, x)
        return np.where(x <= 0.0, _near(x, tau, kappa)[0], _far(x, tau, kappa))

    def _sf(self, x: Any, tau: Any, kappa: Any) -> Any:
        tau, kappa = _number(tau, x), _number(kappa, x)
        return np.where(x <= 0.0, _far(x, tau, kappa), _near(x, tau, kappa)[0])

    def _logcdf(self, x: Any, tau: Any, kappa: Any) -> Any:
        log_near, log_far = _log_near_far(x, _number(tau, x), _number(kappa, x))
        return np.where(x <= 0.0, log_near, log_far)

    def _logsf(self, x: Any, tau: Any, kappa: Any) -> Any:
        log_near, log_far = _log_near_far(x, _number(tau, x), _number(kappa, x))
        return np.where(x <= 0.0, log_far, log_near)

    def _ppf(self, q: Any, tau: Any, kappa: Any) -> Any:
        tau = _number(tau, q)
        return -_tail_quantile(q, tau, 1.0 - tau, _number(kappa, q))

    def _isf(self, q: Any, tau: Any, kappa: Any) -> Any:
        tau = _number(tau, q)
        return _tail_quantile(q, 1.0 - tau, tau, _number(kappa, q))

    def _stats(self, tau: Any, kappa: Any) -> tuple[Any, Any, Any, Any]:
        log_c = log_normalizer_derivatives(tau, kappa)
        third, fourth = log_normalizer_higher(tau, kappa)
        variance = kappa + log_c.d2_tau
        return log_c.d_tau, variance, third / variance**1.5, fourth / variance**2

    def _munp(self, n: Any, tau: Any, kappa: Any) -> Any:
        n = int(n)
        right, left = _half_moment(n, 1.0 - tau, kappa), _half_moment(n, tau, kappa)
        return (right + (-1.0) ** n * left) * np.exp(-log_normalizer_derivatives(tau, kappa).value)

    def _entropy(self, tau: Any, kappa: Any) -> Any:
        # scipy asks for bad shapes too and discards the answer; nan is tested first, because
        # ordering it raises a floating point flag
        if np.any(np.isnan(tau + kappa)) or not np.all(self._argcheck(tau, kappa)):
            return np.nan
        log_c = log_normalizer_derivatives(tau, kappa)
        return 1.0 + log_c.value - kappa * log_c.d_kappa

    def crps(self, x: Any, tau: Any, kappa: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        r"""Return the continuous ranked probability score of observations, in closed form.

        .. math:: \int (F(z) - 1\{z \ge x\})^2\,dz = E|X - x| - \tfrac12 E|X - X'|,

        with :math:`E|X - x| = 2 E(x - X)_+ + E X - x` (Gneiting & Raftery 2007). In the zone F is a
        multiple of the normal cdf, and the integrals of :math:`\Phi` and :math:`\Phi^2` are elementary.

        Parameters
        ----------
        x : array_like
            Observations.
        tau, kappa, loc, scale : array_like
            Parameters of the law.

        Returns
        -------
        ndarray or float
            In the units of x; lower is better. NaN outside the domain.

        Examples
        --------
        >>> from qhreg.family.distribution import quantile_huber
        >>> float(quantile_huber.crps(0.0, tau=0.5, kappa=0.0))
        0.5
        """
        x, tau, kappa, loc, scale = np.broadcast_arrays(
            *(np.asarray(each, dtype=np.float64) for each in (x, tau, kappa, loc, scale))
        )
        valid = self._argcheck(tau, kappa) & (scale > 0.0)
        tau, kappa = np.where(valid, tau, 0.5), np.where(valid, kappa, 1.0)
        v = (x - loc) / np.where(valid, scale, 1.0)
        mean = log_normalizer_derivatives(tau, kappa).d_tau
        away = np.where(v <= 0.0, mean - v, v - mean)
        near = _shortfall(-np.abs(v), np.where(v <= 0.0, tau, 1.0 - tau), kappa)
        score = scale * (2.0 * near + away - _half_mean_difference(tau, kappa))
        return np.where(valid, score, np.nan)[()]

    def expect(
        self,
        func: Any = None,
        args: tuple[Any, ...] = (),
        loc: float = 0,
        scale: float = 1,
        lb: float | None = None,
        ub: float | None = None,
        conditional: bool = False,
        **kwds: Any,
    ) -> Any:
        """Return the expected value of func(X), by quadrature between the kinks of the density.

        Parameters
        ----------
        func : callable, optional
            Function of one number; the identity by default.
        args : tuple
            The shapes tau and kappa.
        loc, scale : float
            Location and scale.
        lb, ub : float, optional
            Bounds of the integral; by default the points beyond which the probability is 1e-300.
        conditional : bool
            Whether to divide by the probability between the bounds.
        **kwds
            Passed to `scipy.integrate.quad`.
        """
        tau, kappa = (float(arg) for arg in args)
        cuts = loc + scale * _quadrature_cuts(tau, kappa)
        lower, upper = cuts[0] if lb is None else lb, cuts[-1] if ub is None else ub
        edges = [lower, *(cut for cut in cuts if lower < cut < upper), upper]

        def integrand(x: float) -> Any:
            density = float(self._pdf((x - loc) / scale, tau, kappa)) / scale
            return (x if func is None else func(x)) * density

        pieces = itertools.pairwise(edges)
        total = sum(integrate.quad(integrand, a, b, **kwds)[0] for a, b in pieces)
        if conditional:
            law = {"loc": loc, "scale": scale}
            tail = self.cdf if upper <= loc else self.sf
            total /= abs(tail(upper, *args, **law) - tail(lower, *args, **law))
        return total

    def _fitstart(self, data: Any, args: Any = None) -> Any:
        # scipy would start both shapes at 1, and tau = 1 is outside the family.
        shapes = (0.5, 1.0)
        return shapes + self._fit_loc_scale_support(data, *shapes)


quantile_huber = quantile_huber_gen(name="quantile_huber")
