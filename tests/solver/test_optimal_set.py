"""Optima that are a set: the centre, whatever the order of the rows, and a warning."""

import numpy as np
import pytest

from qhreg.exceptions import RankWarning
from qhreg.solver import solve


def category_of_four(rng):
    """Return data with a category of two rows far above the line and two far below it."""
    x, category = rng.standard_normal(60), np.zeros(60)
    category[:4] = 1.0
    y = 1.0 + x + rng.standard_normal(60)
    y[:4] = [30.0, 28.0, -25.0, -33.0]
    return np.column_stack([np.ones(60), x, category]), y


@pytest.mark.parametrize("kappa", [0.0, 0.5, 4.0])
def test_the_centre_is_returned_whatever_the_order_of_the_rows(kappa):
    rng = np.random.default_rng(0)
    X, y = category_of_four(rng)
    fits = []
    for _ in range(4):
        order = rng.permutation(60)
        with pytest.warns(RankWarning, match="the coefficient of group is not determined"):
            fits.append(solve(X[order], y[order], tau=0.5, kappa=kappa, names=["1", "x", "group"]))
    for fit in fits:
        assert fit.converged
        assert fit.undetermined == (2,)
        np.testing.assert_allclose(fit.beta, fits[0].beta, rtol=1e-6)
    # the analytic centre between the two rows above and the two below: sum of 1 / distance is zero
    location = X[:4] @ fits[0].beta
    reach = 0.5 * kappa * fits[0].sigma
    distance = np.where(y[:4] > 0, y[:4] - location - reach, y[:4] - location + reach)
    np.testing.assert_allclose(np.sum(1.0 / distance), 0.0, atol=1e-6)


def test_a_median_between_two_rows_is_their_centre():
    with pytest.warns(RankWarning, match="not determined"):
        fit = solve(np.ones((4, 1)), np.array([0.0, 1.0, 3.0, 4.0]), kappa=0.0, tau=0.5)
    np.testing.assert_allclose(fit.beta, 2.0, atol=1e-6)


def test_a_unique_fit_has_no_undetermined_coefficient():
    rng = np.random.default_rng(1)
    X, y = category_of_four(rng)
    for tau, kappa in [(0.45, 4.0), (None, 4.0), (0.45, 0.0)]:
        assert solve(X, y, tau=tau, kappa=kappa).undetermined == ()


def test_an_end_of_the_set_is_not_returned_for_its_centre():
    # three rows on each side: Newton's method may stop where one of them meets the zone
    rng = np.random.default_rng(547)
    exog = np.column_stack([rng.standard_normal(1500), np.zeros(1500)])
    exog[:6, 1] = 1.0
    endog = rng.standard_t(2, 1500) + exog[:, 0]
    betas = []
    for order in (np.arange(1500), rng.permutation(1500), np.arange(1500)[::-1]):
        with pytest.warns(RankWarning, match="not determined"):
            betas.append(solve(exog[order], endog[order], kappa=1.0, tau=0.5).beta)
    np.testing.assert_allclose(betas, [betas[0]] * 3, rtol=1e-5)
