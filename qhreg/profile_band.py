r"""What a global certificate says about every tau, not only about the best one.

At a node the duality gap bounds the profile :math:`n\log c + h` from below. Between two nodes h, being
concave, lies above its chord. Beyond the last node a feasible dual point shrunk towards the end of
the range stays feasible: with :math:`s` the share of the distance to the end that is left, and
:math:`D` the dual value at the node,

.. math::

    h \ge D + n\log s \quad(\sigma\ \text{estimated}), \qquad
    h + n\log\theta \ge s\,(D + n\log\theta) \quad(\sigma = 1/\theta\ \text{fixed}).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qhreg.globalopt import GlobalCertificate
from qhreg.normalizer import log_normalizer_derivatives
from qhreg.profile_fits import ProfilePoint

__all__ = ["certified_bound"]

FloatArray = npt.NDArray[np.float64]


def certified_bound(
    certificate: GlobalCertificate,
    taus: FloatArray,
    points: Sequence[ProfilePoint] = (),
    *,
    n: float,
    kappa: float,
    sigma_fixed: float | None = None,
) -> FloatArray:
    """Return an upper bound on the log-likelihood at each tau, whatever beta and sigma are.

    Parameters
    ----------
    certificate : GlobalCertificate
        Its convex fits are the nodes.
    taus : ndarray
        Where to bound, in (0, 1).
    points : sequence of ProfilePoint
        Further convex fits of the same model.
    n : float
        Sum of the case weights.
    kappa : float
        Huber width.
    sigma_fixed : float or None
        The scale where it is fixed.
    """
    nodes = np.concatenate([certificate.nodes_tau, [p.value for p in points]])
    bounds = np.concatenate([certificate.nodes_bound, [p.loglike + p.gap for p in points]])
    nodes, first = np.unique(nodes, return_index=True)
    lower = -bounds[first] - n * log_normalizer_derivatives(nodes, kappa).value
    taus = np.asarray(taus, dtype=np.float64)
    h = np.interp(taus, nodes, lower)
    left, right = taus < nodes[0], taus > nodes[-1]
    share = np.ones_like(taus)
    share[left] = taus[left] / nodes[0]
    share[right] = (1.0 - taus[right]) / (1.0 - nodes[-1])
    outside = left | right
    if sigma_fixed is None:
        h[outside] += n * np.log(share[outside])
    else:
        log_theta = -n * math.log(sigma_fixed)
        h[outside] = share[outside] * (h[outside] + log_theta) - log_theta
    bound: FloatArray = -(h + n * log_normalizer_derivatives(taus, kappa).value)
    return bound
