"""Bootstrap replicates: their covariance and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError
from qhreg.family.domain import check_alpha

__all__ = ["BootstrapResult"]


@dataclass(frozen=True)
class BootstrapResult:
    """Replicates of the estimates.

    Attributes
    ----------
    params : ndarray, shape (B, q)
        The replicates that succeeded, in the order beta, sigma, tau, kappa.
    estimate : ndarray, shape (q,)
        The estimates from the data.
    acceleration : ndarray, shape (q,)
        The skewness of the influence values divided by six, for BCa intervals.
    free : tuple of str
        The estimated parameters.
    kind : str
        What was resampled: "pairs", "cluster", "parametric", "wild" or "multiplier".
    n_boot : int
        Replicates asked for.
    failures : dict of str to int
        Reasons of the failed replicates, with their numbers.
    n_at_bound : int
        Replicates in which tau ended on a bound; they are kept.
    names : tuple of str
        Names of the parameters, for the table.
    labelled : bool
        Whether `cov`, `bse` and `conf_int` are pandas objects with these names; arrays otherwise.
    """

    params: FloatArray
    estimate: FloatArray
    acceleration: FloatArray
    free: tuple[str, ...]
    kind: str
    n_boot: int
    failures: dict[str, int]
    n_at_bound: int
    names: tuple[str, ...] = ()
    labelled: bool = False

    @property
    def n_failed(self) -> int:
        """Number of failed replicates."""
        return sum(self.failures.values())

    @property
    def cov(self) -> Any:
        """The covariance of the replicates, shape (q, q); NaN for a kappa that reached infinity."""
        with np.errstate(invalid="ignore"):
            cov = np.atleast_2d(np.cov(self.params, rowvar=False))
        names = list(self.names)
        return pd.DataFrame(cov, index=names, columns=names) if self.labelled else cov

    @property
    def bse(self) -> Any:
        """The standard deviations of the replicates; NaN for a kappa that reached infinity."""
        with np.errstate(invalid="ignore"):
            deviation = self.params.std(axis=0, ddof=1)
        return pd.Series(deviation, index=list(self.names)) if self.labelled else deviation

    def conf_int(self, alpha: float = 0.05, method: str = "percentile") -> Any:
        r"""Return intervals at level 1 - alpha, shape (q, 2).

        Parameters
        ----------
        alpha : float
            One minus the level.
        method : {"percentile", "basic", "bca"}
            Quantiles of the replicates at alpha/2 and 1 - alpha/2, these mirrored at the estimate, or
            quantiles at levels corrected for bias and skewness.

        Notes
        -----
        Basic: :math:`2\hat\theta - q_{1-\alpha/2}` to :math:`2\hat\theta - q_{\alpha/2}`, with the
        logarithm of sigma and kappa and the logit of tau in place of the parameter.

        BCa: with :math:`z_0 = \Phi^{-1}(\#\{\theta^* < \hat\theta\}/B)` and the acceleration a, the
        levels are :math:`\Phi(z_0 + (z_0 + z)/(1 - a(z_0 + z)))` for
        :math:`z = \Phi^{-1}(\alpha/2), \Phi^{-1}(1-\alpha/2)`.
        """
        check_alpha(alpha)
        if method not in ("percentile", "basic", "bca"):
            raise DomainError(f"method must be 'percentile', 'basic' or 'bca', got {method!r}")
        levels = np.tile([alpha / 2.0, 1.0 - alpha / 2.0], (self.estimate.size, 1))
        if method == "bca":
            levels = self._bca_levels(levels)
        columns = zip(self.params.T, levels, strict=True)
        limits = np.array([_quantiles(column, level) for column, level in columns])
        if method == "basic":
            limits = self._mirrored(limits)
        return pd.DataFrame(limits, index=list(self.names)) if self.labelled else limits

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return estimates, standard errors, bias and percentile limits, a row for each parameter.

        Parameters
        ----------
        alpha : float
            One minus the level of the limits.
        """
        with np.errstate(invalid="ignore"):
            bias = self.params.mean(axis=0) - self.estimate
        lower, upper = np.asarray(self.conf_int(alpha)).T
        columns = {"estimate": self.estimate, "se": np.asarray(self.bse), "bias": bias}
        columns |= {"ci_lower": lower, "ci_upper": upper}
        return pd.DataFrame(columns, index=list(self.names or self._plain_names()))

    def plot(
        self,
        names: Sequence[str] | None = None,
        axes: Any = None,
        *,
        alpha: float = 0.05,
        method: str = "percentile",
    ) -> Any:
        """Draw the replicates with estimates and intervals, one panel each, and return the Figure.

        Parameters
        ----------
        names : sequence of str, optional
            The parameters; all by default.
        axes : sequence of Axes, optional
            Where to draw, one for each.
        alpha : float
            One minus the level of the intervals.
        method : {"percentile", "basic", "bca"}
            Of the intervals, as in `conf_int`.
        """
        from qhreg.plotting import plot_bootstrap

        every = list(self.names or self._plain_names())
        unknown = [name for name in names or () if name not in every]
        if unknown:
            raise DomainError(
                f"no parameter is called {unknown[0]!r}: choose from {', '.join(every)}"
            )
        chosen = every if names is None else list(names)
        places = [every.index(name) for name in chosen]
        limits = np.asarray(self.conf_int(alpha, method))[places]
        replicates, estimate = self.params[:, places], self.estimate[places]
        return plot_bootstrap(replicates, estimate, limits, chosen, level=1.0 - alpha, axes=axes)

    def _plain_names(self) -> list[str]:
        """Return names for the table of a bootstrap that knows none."""
        others = [name for name in self.free if name != "beta"]
        return [*(f"beta[{j}]" for j in range(self.estimate.size - len(others))), *others]

    def _mirrored(self, limits: FloatArray) -> FloatArray:
        """Return limits mirrored at the estimates, each on the scale of its parameter."""
        estimate = self.estimate[:, None]
        mirrored: FloatArray = 2.0 * estimate - limits[:, ::-1]
        others = [name for name in self.free if name != "beta"]
        for j, name in enumerate(others, start=self.estimate.size - len(others)):
            with np.errstate(divide="ignore", invalid="ignore"):
                if name == "tau":
                    middle = special.logit(self.estimate[j])
                    mirrored[j] = special.expit(2.0 * middle - special.logit(limits[j, ::-1]))
                else:
                    mirrored[j] = estimate[j] ** 2 / limits[j, ::-1]
        return mirrored

    def _bca_levels(self, levels: FloatArray) -> FloatArray:
        below = (self.params < self.estimate).mean(axis=0)
        # Ties count half: an estimate on a bound equals many of its replicates.
        below = below + 0.5 * (self.params == self.estimate).mean(axis=0)
        edge = 0.5 / len(self.params)
        z0 = special.ndtri(np.clip(below, edge, 1.0 - edge))[:, None]
        z = z0 + special.ndtri(levels)
        corrected: FloatArray = special.ndtr(z0 + z / (1.0 - self.acceleration[:, None] * z))
        return corrected

    def __str__(self) -> str:
        level = "{:.4g}".format
        table = self.summary_frame().to_string(float_format=level)
        return f"{repr(self)[1:-1]}; 95 % percentile limits\n{table}"

    def __repr__(self) -> str:
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        bound = f", {self.n_at_bound} with tau on a bound" if self.n_at_bound else ""
        return f"<BootstrapResult: {len(self.params)} replicates, {self.kind}{failed}{bound}>"


def _quantiles(values: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles by linear interpolation; towards an infinite value they are infinite."""
    finite = np.isfinite(values)
    if finite.all():
        return np.asarray(np.quantile(values, levels))
    above = np.quantile(values, levels, method="higher")
    largest = values[finite].max(initial=0.0)
    inner = np.quantile(np.minimum(values, largest), levels)
    return np.asarray(np.where(np.isfinite(above), inner, above))
