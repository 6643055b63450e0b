r"""Covariance of the coefficients of location, scale and asymmetry.

The nonrobust one is the inverse of the expected information (QH-53). The robust ones are the sandwich of
:mod:`qhreg.covariance.estimate` with the scores (QH-51) of the fit, and with the Hessian (QH-52) at the
wider width of :mod:`qhreg.covariance.parts`, at its own maximum. With one scale and one asymmetry
they are those of the linear model fitted by maximum likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray, IntArray
from qhreg.covariance.choice import NEEDS_CASES, CovarianceChoice
from qhreg.covariance.estimate import CovarianceEstimate, describe, finished, robust_covariance
from qhreg.covariance.parts import Parts, RowParts, bread_window, positive_inverse
from qhreg.distributional.coordinates import Coordinates, coordinates
from qhreg.distributional.fit import DistributionalData, DistributionalSolution, settle
from qhreg.distributional.likelihood import (
    BLOCKS,
    Regression,
    RowState,
    assemble,
    evaluate,
    hessian_factors,
    information_factors,
    score_rows,
)
from qhreg.exceptions import DomainError


@dataclass(frozen=True)
class DistributionalParts(Parts):
    """Scores, bread and leverage of a distributional fit; the working parameters are those not held.

    Attributes
    ----------
    rows : RowParts
        Scores of one observation of each row in inner coordinates, and its leverage.
    plain_scores : ndarray, shape (n, q)
        Scores in the working parameters.
    location : ndarray, shape (p, r)
        Coordinates in which the rows in the zone have orthonormal regressors of the location.
    kappa : float
        Width of the zone in the bread.
    """

    rows: RowParts
    plain_scores: FloatArray
    location: FloatArray
    kappa: float

    @property
    def width(self) -> float:
        """Width of the zone in the bread."""
        return self.kappa

    @property
    def transform(self) -> FloatArray:
        """Coordinates T, shape (p, r), in which rows in the zone of the bread have T'X'CXT = 1."""
        return self.location

    @property
    def scores(self) -> FloatArray:
        """Derivatives of the log-likelihood of one observation of each row, shape (n, q)."""
        return self.plain_scores

    def blocks(self) -> Iterator[RowParts]:
        """Iterate over the rows: they are one block."""
        yield self.rows


class _Place(NamedTuple):
    """A fit in coordinates in which rows divided by their scale have orthonormal columns."""

    coordinates: Coordinates
    params: FloatArray
    state: RowState
    kept: IntArray
    outer: IntArray

    @property
    def data(self) -> Regression:
        """The regression in these coordinates."""
        return self.coordinates.data

    @property
    def change(self) -> FloatArray:
        """The parameters that are not held in those here, shape (q, r)."""
        return self.coordinates.jacobian()[np.ix_(self.outer, self.kept)]


def _place(data: DistributionalData, solution: DistributionalSolution) -> _Place:
    log_sigma = data.predictors(solution.params)[1]
    middle = float(log_sigma.mean())
    beta = solution.params[data.block("location")]
    place = coordinates(data, beta, math.exp(middle), np.exp(log_sigma - middle))
    inner = place.inner(solution.params)
    free = [name for name in BLOCKS if name not in solution.held]
    kept, outer = (
        np.concatenate([np.arange(each.size)[each.block(name)] for name in free])
        for each in (place.data, data)
    )
    return _Place(place, inner, evaluate(place.data, inner), kept, outer)


def _held_names(data: DistributionalData, solution: DistributionalSolution) -> tuple[str, ...]:
    return tuple(name for held in solution.held for name in data.names[data.block(held)])


def distributional_parts(
    data: DistributionalData, solution: DistributionalSolution, held: Sequence[str] = ()
) -> DistributionalParts:
    """Return the parts of the robust covariances of a fit.

    Parameters
    ----------
    data : DistributionalData
        The model that was fitted.
    solution : DistributionalSolution
        Its fit; the blocks that it holds at a limit are treated as known.
    held : sequence of str
        None: what is held is the solution's.
    """
    obs, place = data.observations, _place(data, solution)
    tau = float(np.average(place.state.tau, weights=data.weights))
    window = bread_window(place.state.u, tau, obs.nobs, data.weights)
    kappa = math.hypot(data.kappa, window)
    wide = replace(place.data, kappa=kappa)
    params = settle(wide, place.params, solution.held).params
    state = evaluate(wide, params)
    bread = assemble(wide, hessian_factors(state))[np.ix_(place.kept, place.kept)]
    inverse, change = positive_inverse(bread, obs.weight_sum), place.change
    outer, plain = place.coordinates.outer(params), replace(data, kappa=kappa)
    # leverage of the location: curvature of each row in the bread
    design, curvature = wide.location, state.inside / state.sigma**2
    counted = curvature if data.weights is None else curvature * data.weights
    gram = positive_inverse(design.T @ (design * counted[:, None]), float(counted.sum())).inverse
    leverage = np.einsum("ij,jk,ik->i", design, gram, design) * curvature
    roots, vectors = np.linalg.eigh(gram)
    scores = score_rows(place.data, place.state)[:, place.kept]
    own = score_rows(data, evaluate(data, solution.params))[:, place.outer]
    if obs.weights is not None:
        leverage, scores = leverage * obs.weights, scores * obs.weights[:, None]
        own = own * obs.weights[:, None]
    return DistributionalParts(
        obs,
        solution,  # type: ignore[arg-type]
        replace(solution, params=outer),  # type: ignore[arg-type]
        (),
        _held_names(data, solution),
        assemble(plain, hessian_factors(evaluate(plain, outer)))[np.ix_(place.outer, place.outer)],
        change,
        inverse.inverse,
        ~inverse.moved(change),
        np.eye(data.size)[:, place.outer],
        RowParts(obs, scores, leverage),
        own,
        place.coordinates.bases[0].back @ (vectors * np.sqrt(np.maximum(roots, 0.0))),
        kappa,
    )


def distributional_covariance(
    choice: CovarianceChoice, data: DistributionalData, solution: DistributionalSolution
) -> CovarianceEstimate:
    """Return the covariance matrix of the estimates.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options; not "bootstrap".
    data : DistributionalData
        The model that was fitted.
    solution : DistributionalSolution
        Its fit.

    Warns
    -----
    CurvatureWarning
        Some parameters have no standard error.
    """
    if choice.cov_type == "nonrobust":
        if data.observations.weights is not None:
            raise DomainError(NEEDS_CASES)
        place = _place(data, solution)
        info = assemble(place.data, information_factors(place.state))
        weight = data.observations.weight_sum
        inverse = positive_inverse(info[np.ix_(place.kept, place.kept)], weight)
        outward = np.eye(data.size)[:, place.outer] @ place.change
        estimate = CovarianceEstimate(
            outward @ inverse.inverse @ outward.T,
            describe("nonrobust"),
            _held_names(data, solution),
            ~inverse.moved(outward),
        )
    else:
        estimate = robust_covariance(choice, distributional_parts(data, solution))
    return finished(estimate, data.names)
