"""Profile likelihoods: how the highest log-likelihood falls as one parameter leaves its estimate.

:mod:`qhreg.profile.likelihood` is the door. ``data`` is the model as profiles see it, ``refits`` and
``fits`` make the points, ``roots`` and ``trace`` the limits, ``maxima`` and ``band`` what is known of
every tau, ``result`` holds it. ``surface`` is for two parameters, ``score_intervals`` inverts the robust
score test along the same fits.
"""

from __future__ import annotations

from qhreg.profile.likelihood import (
    ProfileLikelihood,
    profile_intervals,
    profile_likelihood,
)

__all__ = [
    "ProfileLikelihood",
    "profile_intervals",
    "profile_likelihood",
]
