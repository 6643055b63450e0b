"""Profiles of the likelihood of a linear fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.certificate.global_optimum import GlobalCertificate
from qhreg.exceptions import DomainError
from qhreg.inference.hypothesis_tests import density_note
from qhreg.profile.likelihood import profile_intervals, profile_likelihood
from qhreg.profile.maxima import LocalMaxima, local_maxima
from qhreg.profile.result import ProfileLikelihood
from qhreg.profile.surface import ProfileSurface, profile_surface
from qhreg.specification.model_data import ModelData

__all__ = ["ProfileResults"]


class ProfileResults:
    """The part of a fitted model that looks at its likelihood."""

    space: Any
    params: Any
    cov_type: Any
    _fit_data: Any
    _fit_solution: Any
    _covariance: Any
    _require_likelihood: Any
    certify_global: Any

    @property
    def _profile_data(self) -> ModelData:
        self._require_likelihood("a profile or a simulation")
        data: ModelData = self._fit_data
        return data

    def _standard_error(self, param: str | int) -> float:
        column = self._profile_data.column(param)
        place = column if column is not None else self.space.position(str(param))
        return math.nan if place is None else math.sqrt(float(self._covariance.cov[place, place]))

    # ------------------------------------------------------------------ likelihood

    def profile_likelihood(
        self,
        param: str | int = "tau",
        grid: Any = None,
        alpha: float = 0.05,
        *,
        cut: str | float = "F",
        certificate: GlobalCertificate | None = None,
        search: bool | None = None,
    ) -> ProfileLikelihood:
        """Return the profile likelihood of a parameter with its interval.

        Every point maximises the criterion of this fit, with its p and m: for normal noise the interval
        of a coefficient is the t interval of least squares.

        Parameters
        ----------
        param : str or int
            "tau", "sigma", "kappa", or the name or column of a coefficient.
        grid : array_like, optional
            Values at which to fit; by default chosen to reach beyond the 99 % interval.
        alpha : float
            One minus the nominal coverage.
        cut : {"F", "chi2"} or float
            Critical value of the likelihood ratio: by the F law, the chi-square quantile, or a number
            (:func:`qhreg.inference.hypothesis_tests.lr_cut`).
        certificate : GlobalCertificate, optional
            From `certify_global`, for the plot of tau.
        search : bool, optional
            See :func:`qhreg.profile.profile_likelihood`.

        Returns
        -------
        ProfileLikelihood
            With ``to_frame()``, ``conf_int(alpha)``, ``interval``, ``plot(ax)``, and a ``note`` where
            the covariance of this fit does not assume the density: a profile always does.

        Notes
        -----
        Where the values that are not rejected form several pieces, ``conf_int`` returns the piece around
        the estimate only. The printed interval then names a value in another piece, which is
        ``interval.elsewhere``, and the plot shades both.
        """
        return profile_likelihood(
            self._profile_data,
            self._fit_solution,
            param,
            grid=grid,
            alpha=alpha,
            cut=cut,
            se=self._standard_error(param),
            certificate=certificate,
            search=search,
            note=density_note(self.cov_type),
        )

    def profile_intervals(
        self,
        alpha: float = 0.05,
        *,
        cut: str | float = "F",
        search: bool | None = None,
        progress: bool = False,
        places: list[int] | None = None,
    ) -> FloatArray:
        """Return the profile-likelihood intervals of all parameters, shape (size, 2).

        Parameters
        ----------
        alpha : float
            One minus the nominal coverage.
        cut, search
            As in `profile_likelihood`.
        progress : bool
            Whether to show a progress bar over the parameters.
        places : list of int, optional
            Only these parameters; the rows of the others are NaN.

        Notes
        -----
        They assume the density, whatever the `cov_type`.
        """
        data = self._profile_data
        bse = np.sqrt(self._covariance.cov.diagonal())
        k = self.space.k
        every: list[str | int] = [*range(k), *self.space.extra_names]
        asked = range(len(every)) if places is None else places
        free = [j for j in asked if j < k or not data.is_fixed(every[j])]
        limits = np.full((len(every), 2), np.nan)
        # what a constraint fixes has one value
        limits[asked] = np.asarray(self.params, dtype=np.float64)[asked, None]
        limits[free] = profile_intervals(
            data,
            self._fit_solution,
            alpha=alpha,
            cut=cut,
            bse=bse[free],
            search=search,
            progress=progress,
            params=[every[j] for j in free],
        )
        return limits

    def local_maxima(self) -> LocalMaxima:
        """Return the local maxima of the likelihood over tau, the highest first.

        In small samples a one-sided law, with tau on a bound, can have the highest likelihood; the
        best maximum inside the bounds is then ``local_maxima().interior``.

        Returns
        -------
        LocalMaxima
            With ``to_frame()``, ``points`` and ``interior``; at the fitted width, where kappa is
            estimated.

        Examples
        --------
        >>> import numpy as np
        >>> from qhreg import QuantileHuberMLE
        >>> tails = -np.log1p(-(np.arange(30) + 0.5) / 30)
        >>> y = np.concatenate([-1.0 - 0.35 * tails, 1.0 + 0.4 * tails])  # two peaks
        >>> fit = QuantileHuberMLE(y, np.ones((60, 1)), kappa=0.3).fit()
        >>> fit.local_maxima().to_frame()[["tau", "llf"]].round(3).values.tolist()[:2]
        [[0.833, -103.714], [0.185, -105.436]]
        """
        return local_maxima(self._fit_data, self._fit_solution)

    def profile_surface(
        self,
        params: tuple[str, str] = ("tau", "kappa"),
        *others: str,
        grids: tuple[Any, Any] | None = None,
        points: int = 25,
        progress: bool = False,
    ) -> ProfileSurface:
        """Return the profile likelihood of tau with kappa or sigma, on a grid.

        Parameters
        ----------
        params : (str, str)
            ("tau", "kappa") or ("tau", "sigma").
        *others
            None are accepted: both names are one pair.
        grids : (array_like, array_like), optional
            Values of both.
        points : int
            Number of values of each by default.
        progress : bool
            Whether to show a progress bar.
        """
        if others:
            pair = (params, *others)
            raise DomainError(f"the parameters are one pair: profile_surface({pair!r})")
        return profile_surface(
            self._profile_data,
            self._fit_solution,
            params,
            grids=grids,
            points=points,
            progress=progress,
        )

    # ------------------------------------------------------------------ plots

    def plot_profile(
        self,
        param: str | int = "tau",
        ax: Any = None,
        *,
        alpha: float = 0.05,
        certify: bool | None = None,
        whole: bool | None = None,
        **options: Any,
    ) -> Any:
        """Draw the likelihood ratio of a parameter and return the Axes.

        Parameters
        ----------
        param : str or int
            The parameter.
        ax : Axes, optional
            Where to draw.
        alpha : float
            One minus the nominal coverage of the shaded interval.
        certify : bool, optional
            Whether to show what the global certificate excludes; by default for an estimated tau
            at a given kappa.
        whole : bool, optional
            Whether to show the whole range of tau; by default where another local maximum is not
            rejected at the 99 % level.
        **options
            Of `profile_likelihood`.
        """
        space = self._profile_data.space
        possible = param == "tau" and space.tau is None and space.kappa is not None
        if possible and certify is not False and options.get("certificate") is None:
            options["certificate"] = self.certify_global()
        made = self.profile_likelihood(param, alpha=alpha, **options)
        return made.plot(ax=ax, whole=whole)
