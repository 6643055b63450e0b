"""Covariance matrices of the estimates: expected information, and one sandwich.

- :mod:`~qhreg.covariance.choice`: the table of types, and which one a fit gets;
- :mod:`~qhreg.covariance.parts`: scores, bread and leverage of a fit, with ``scores`` and
  ``information``;
- :mod:`~qhreg.covariance.estimate`: the covariance from these.
"""

from __future__ import annotations

from qhreg.covariance.choice import (
    COVARIANCE_TYPES,
    SANDWICHES,
    CovarianceChoice,
    choose_covariance,
)
from qhreg.covariance.estimate import (
    CovarianceEstimate,
    estimate_covariance,
    nonrobust_covariance,
    sandwich,
)
from qhreg.covariance.information import (
    design_moments,
    expected_information,
)
from qhreg.covariance.parts import Parts, covariance_parts
from qhreg.covariance.scores import observed_hessian, score_obs, score_sum

__all__ = [
    "COVARIANCE_TYPES",
    "SANDWICHES",
    "CovarianceChoice",
    "CovarianceEstimate",
    "Parts",
    "choose_covariance",
    "covariance_parts",
    "design_moments",
    "estimate_covariance",
    "expected_information",
    "nonrobust_covariance",
    "observed_hessian",
    "sandwich",
    "score_obs",
    "score_sum",
]
