r"""Certificates: what is proved about the shape of the objective in tau.

For fixed standardised residuals u the second derivative of the objective in tau is (QH-36)

.. math::

    n\,(\log c)''(\tau) - \kappa\,\#\{i : u_i \text{ outside the quadratic zone}\},

so that :math:`\min_\tau(\log c)'' > \kappa` makes the objective convex in tau whatever the
residuals are (:func:`biconvexity_certificate`), and a count makes it convex for the residuals at
hand (:func:`data_certificate`). It is convex in the coefficients for every kappa, and never convex
in both together (:func:`joint_indefiniteness_witness`).
"""

from qhreg.certificate.biconvexity import (
    KAPPA_STAR,
    BiconvexityCertificate,
    biconvexity_certificate,
    critical_kappa,
)
from qhreg.certificate.data import (
    DataCertificate,
    JointIndefiniteness,
    data_certificate,
    joint_indefiniteness_witness,
)

__all__ = [
    "KAPPA_STAR",
    "BiconvexityCertificate",
    "DataCertificate",
    "JointIndefiniteness",
    "biconvexity_certificate",
    "critical_kappa",
    "data_certificate",
    "joint_indefiniteness_witness",
]
