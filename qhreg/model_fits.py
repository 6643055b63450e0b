"""Other ways to fit a model: at many values of tau, or with a penalty on the coefficients."""

from __future__ import annotations

from typing import Any

from qhreg.exceptions import DomainError
from qhreg.joint_covariance import JOINT_TYPES
from qhreg.parameters import ParameterSpace
from qhreg.process import fit_taus, tau_levels
from qhreg.process_results import ProcessResults
from qhreg.profile_fits import ProfileData
from qhreg.results import (
    QuantileHuberResults,
    QuantileHuberResultsWrapper,
    covariance_request,
)

__all__ = ["OtherFits"]


class OtherFits:
    """Fits of a model beside the maximum-likelihood one."""

    data: Any
    space: ParameterSpace
    observations: Any
    kappa: float | None
    tau: float | None
    tau_bounds: tuple[float, float]
    k_exog: int
    _name_parameters: Any

    def fit_process(
        self,
        taus: Any = None,
        *,
        quantiles: Any = None,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        use_t: bool | None = None,
        progress: bool = False,
    ) -> ProcessResults:
        """Return the fits at many values of tau, each started from its neighbours.

        Parameters
        ----------
        taus : array_like, optional
            Values of tau in (0, 1). The model's own tau is not used.
        quantiles : array_like, optional
            Levels q = 1 - tau in place of `taus`, at kappa = 0 only: for kappa > 0 the fitted curve
            is not the 1 - tau quantile.
        cov_type : {"HC1", "HC0", "cluster", "HAC"}, optional
            Covariance of the estimates, within a fit and between fits; "HC1" by default. The
            density cannot hold at several values of tau, so that there is no "nonrobust" one.
        cov_kwds : dict, optional
            Options of the covariance, as in `fit`.
        use_t : bool, optional
            Whether intervals use the t distribution.
        progress : bool
            Whether to show a progress bar, where tqdm is installed.

        Returns
        -------
        ProcessResults
            With ``params``, ``bse``, ``conf_int()``, ``predict(exog)``, ``crossings(exog)``,
            ``test_equal_slopes()``, ``plot()`` and ``result(tau)``.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from qhreg import QuantileHuberMLE
        >>> engel = sm.datasets.engel.load_pandas().data
        >>> model = QuantileHuberMLE.from_formula("foodexp ~ income", engel, kappa=0.0)
        >>> process = model.fit_process(quantiles=[0.25, 0.5, 0.75])
        >>> process.params["income"].round(3).to_dict()
        {0.25: 0.644, 0.5: 0.56, 0.75: 0.474}
        """
        if self.kappa is None:
            raise DomainError(
                "several values of tau need one width, and kappa=None estimates it: give kappa in the "
                "model, for example the estimate of fit()"
            )
        levels = tau_levels(taus, quantiles=quantiles, kappa=self.kappa)
        names = tuple(str(name) for name in self.data.xnames[: self.k_exog])
        models = [self._at_tau(tau) for tau in levels]
        choice = covariance_request(models[0], cov_type, cov_kwds)
        if choice.cov_type not in JOINT_TYPES:
            raise DomainError(
                f"cov_type={choice.cov_type!r} cannot hold at several values of tau: use one of "
                f"{', '.join(JOINT_TYPES)}"
            )
        data = ProfileData(self.observations, self.space, self.tau_bounds, names)
        solutions = fit_taus(data, levels, progress=progress)
        fits = [
            QuantileHuberResults(model, solution, choice, use_t=bool(use_t))
            for model, solution in zip(models, solutions, strict=True)
        ]
        return ProcessResults(levels, tuple(QuantileHuberResultsWrapper(fit) for fit in fits))

    def _at_tau(self, tau: float) -> Any:
        """Return this model with tau fixed; the data are shared, not copied."""
        made = _twin(self)
        made.data = _twin(self.data)
        made.data._cache = dict(self.data._cache)
        made.data.xnames = list(self.data.xnames[: self.k_exog])
        made.tau = tau
        made._name_parameters()
        return made


def _twin(original: Any) -> Any:
    """Return another object with the same attributes; copy.copy would evaluate the formula again."""
    made = object.__new__(type(original))
    made.__dict__.update(original.__dict__)
    return made
