"""Profile likelihoods: how the highest log-likelihood falls as one parameter leaves its estimate.

:mod:`qhreg.profile.likelihood` is the door. ``curve`` makes the points, ``result`` holds them and
finds limits, ``surface`` is for two parameters.
"""

from __future__ import annotations

from qhreg.profile.likelihood import profile_intervals, profile_likelihood
from qhreg.profile.result import ProfileLikelihood

__all__ = [
    "ProfileLikelihood",
    "profile_intervals",
    "profile_likelihood",
]
