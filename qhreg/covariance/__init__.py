"""Covariance matrices of the estimates: expected information and sandwiches.

:mod:`qhreg.covariance.estimate` is the door. From the inside out:

- the rows: ``scores``, ``information``, ``bandwidth``, ``curvature``, ``rowterms``;
- coordinates that lose no digits: ``orthonormal``;
- the sandwich: ``bread``, ``sandwich``, and for dependent rows ``dependence``, ``dependent``;
- what it is compared with, and where it says too little: ``calibration``, ``contrastlaw``,
  ``confined``, ``effective``, ``cautions``;
- several fits at once: ``joint``; which type a fit gets: ``choice``.
"""

from __future__ import annotations

from qhreg.covariance.estimate import (
    COV_TYPES,
    NEEDS_CASES,
    CovarianceEstimate,
    DesignMoments,
    Fitted,
    Point,
    bread_width,
    check_width,
    covariance,
    design_moments,
    expected_information,
    group_codes,
    information_ratio,
    no_covariance,
    nonrobust_covariance,
    observed_hessian,
    require_more_rows,
    score_obs,
    smoothed_bread,
    uneven,
)

__all__ = [
    "COV_TYPES",
    "NEEDS_CASES",
    "CovarianceEstimate",
    "DesignMoments",
    "Fitted",
    "Point",
    "bread_width",
    "check_width",
    "covariance",
    "design_moments",
    "expected_information",
    "group_codes",
    "information_ratio",
    "no_covariance",
    "nonrobust_covariance",
    "observed_hessian",
    "require_more_rows",
    "score_obs",
    "smoothed_bread",
    "uneven",
]
