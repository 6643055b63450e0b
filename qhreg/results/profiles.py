"""Profile likelihoods and their intervals, of any fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from qhreg._typing import FloatArray
from qhreg.certificate.global_optimum import GlobalCertificate
from qhreg.inference.hypothesis_tests import density_note
from qhreg.profile.curve import Curve
from qhreg.profile.likelihood import profile_intervals, profile_likelihood
from qhreg.profile.result import ProfileLikelihood


class ProfileResults:
    """The part of the results that follows the likelihood as a parameter leaves its estimate."""

    model: Any
    params: Any
    cov_type: Any
    _covariance: Any
    _fit_data: Any
    _fit_solution: Any
    _require_likelihood: Any
    _curve_of: ClassVar[Callable[..., Curve]]
    """What returns the profile of a parameter as a function, given data and solution."""

    @property
    def _profile_data(self) -> Any:
        self._require_likelihood("a profile or a simulation")
        return self._fit_data

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
            The name of a parameter, or the column of a coefficient; of the linear model also "tau",
            "sigma" or "kappa" where it is fixed.
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
        data, names = self._profile_data, list(map(str, self.model.data.param_names))
        place, se = names.index(param) if param in names else data.column(param), math.nan
        if place is not None:
            se = math.sqrt(float(self._covariance.cov[place, place]))
        return profile_likelihood(
            data,
            self._fit_solution,
            param,
            grid=grid,
            alpha=alpha,
            cut=cut,
            se=se,
            certificate=certificate,
            search=search,
            note=density_note(self.cov_type),
            curve_from=self._curve_of,
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
        data, names = self._profile_data, self.model.data.param_names
        every = [*range(len(data.names)), *names[len(data.names) :]]
        asked = list(range(len(every))) if places is None else places
        free = [j for j in asked if not data.is_fixed(every[j])]
        limits = np.full((len(every), 2), np.nan)
        # what a constraint fixes has one value
        limits[asked] = np.asarray(self.params, dtype=np.float64)[asked, None]
        limits[free] = profile_intervals(
            data,
            self._fit_solution,
            alpha=alpha,
            cut=cut,
            bse=np.sqrt(self._covariance.cov.diagonal())[free],
            search=search,
            progress=progress,
            params=[every[j] for j in free],
            curve_from=self._curve_of,
        )
        return limits

    def plot_profile(self, param: str | int, ax: Any = None, **options: Any) -> Any:
        """Draw the likelihood ratio of a parameter and return the Axes.

        Parameters
        ----------
        param : str or int
            The parameter.
        ax : Axes, optional
            Where to draw.
        **options
            Of `profile_likelihood`.
        """
        return self.profile_likelihood(param, **options).plot(ax=ax)
