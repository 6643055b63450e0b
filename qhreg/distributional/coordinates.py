r"""Coordinates in which the three designs have orthonormal columns and residuals are near one.

The solver works with :math:`(y - o - X\beta_0)/\sigma_0` in place of the response, where
:math:`\beta_0, \sigma_0` are those of the fit with one scale and one asymmetry, and with orthonormal
columns in place of the regressors: neither units nor near collinearity cost digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from qhreg._typing import FloatArray
from qhreg.distributional.likelihood import BLOCKS, Regression
from qhreg.solver.setup import basis_of, minimum_norm
from qhreg.specification.observations import Observations


@dataclass(frozen=True)
class BlockBasis:
    """An orthonormal basis of the columns of one block.

    Attributes
    ----------
    design : ndarray, shape (n, r)
        Its columns are orthonormal times the square root of n, rows divided by their scale.
    back : ndarray, shape (p, r)
        Maps coefficients of `design` to the shortest ones of the given columns.
    dependent : tuple of int
        Columns that are combinations of earlier ones.
    """

    design: FloatArray
    back: FloatArray
    dependent: tuple[int, ...]

    def project(self, fitted: FloatArray) -> FloatArray:
        """Return the coefficients whose fitted values are nearest to the given ones."""
        coefficients = np.linalg.lstsq(self.design, fitted, rcond=None)[0]
        return np.asarray(coefficients, dtype=np.float64)


def block_basis(design: FloatArray, sigma: FloatArray | None = None) -> BlockBasis:
    """Return a basis of the columns of a design, orthonormal when rows are divided by their sigma.

    Parameters
    ----------
    design : ndarray, shape (n, p)
        The columns.
    sigma : ndarray, shape (n,), optional
        Scale of each row; one by default.
    """
    p = design.shape[1]
    rows = np.asarray(design, dtype=np.float64)
    rows = rows if sigma is None else rows / sigma[:, None]
    basis = basis_of(rows, np.zeros(design.shape[0]))
    r = basis.columns.size
    transform = basis.matrix[:p, :r]
    columns = [minimum_norm(basis, column) for column in transform.T]
    back = np.column_stack(columns) if columns else np.zeros((p, 0))
    columns_made = basis.design[:, :r]
    if sigma is not None:
        columns_made = columns_made * sigma[:, None]
    return BlockBasis(columns_made, back, tuple(int(j) for j in basis.dependent))


@dataclass(frozen=True)
class Coordinates:
    """A regression in well-conditioned coordinates, and the way back.

    Attributes
    ----------
    data : Regression
        The regression in these coordinates.
    bases : tuple of BlockBasis
        One for each block.
    centre : ndarray, shape (p,)
        The coefficients of the location that are zero here.
    unit : float
        The scale that is one here.
    given : Regression
        The regression as given.
    """

    data: Regression
    bases: tuple[BlockBasis, ...]
    centre: FloatArray
    unit: float
    given: Regression

    def outer(self, inner: FloatArray) -> FloatArray:
        """Return the parameters of the given regression."""
        parts = self.data.split(inner)
        beta, gamma, delta = (b.back @ part for b, part in zip(self.bases, parts, strict=True))
        return np.concatenate([self.centre + self.unit * beta, gamma, delta])

    def inner(self, outer: FloatArray) -> FloatArray:
        """Return the parameters here of parameters of the given regression."""
        beta, gamma, delta = self.given.split(outer)
        parts = ((beta - self.centre) / self.unit, gamma, delta)
        blocks = zip(self.bases, self.given.designs, parts, strict=True)
        return np.concatenate([basis.project(x @ part) for basis, x, part in blocks])

    def constant(self, sigma: float, tau: float) -> FloatArray:
        """Return the parameters nearest to one scale and one asymmetry at the centre."""
        ones = np.ones(self.data.endog.size)
        goal = (
            0.0 * ones,
            (math.log(sigma) - self.given.log_sigma) * ones,
            (math.log(tau) - math.log1p(-tau) - self.given.logit_tau) * ones,
        )
        return np.concatenate([b.project(f) for b, f in zip(self.bases, goal, strict=True)])

    def jacobian(self) -> FloatArray:
        """Return the derivative of the given parameters in those here."""
        jacobian = np.zeros((self.given.size, self.data.size))
        for name, basis in zip(BLOCKS, self.bases, strict=True):
            scale = self.unit if name == "location" else 1.0
            jacobian[self.given.block(name), self.data.block(name)] = scale * basis.back
        return jacobian


def coordinates(
    given: Regression, centre: FloatArray, unit: float, sigma: FloatArray | None = None
) -> Coordinates:
    """Return a regression in orthonormal columns, its response centred and in units of a scale.

    Parameters
    ----------
    given : Regression
        The regression.
    centre : ndarray, shape (p,)
        Coefficients whose residuals are the new response.
    unit : float
        Scale of the new response.
    sigma : ndarray, shape (n,), optional
        Scale of each row in these units; one by default.
    """
    location, scale, tau = given.designs
    bases = (block_basis(location, sigma), block_basis(scale), block_basis(tau))
    endog = given.observations.residuals(centre) / unit
    data = replace(
        given,
        observations=Observations(bases[0].design, endog, weights=given.weights),
        scale=bases[1].design,
        tau=bases[2].design,
        log_sigma=given.log_sigma - math.log(unit),
    )
    return Coordinates(data, bases, centre, unit, given)
