"""What stands in for a bread of which the rows in the zone do not tell everything."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qhreg import QuantileHuberDistributional, QuantileHuberMLE
from qhreg.bread import bread_inverse, is_flat
from qhreg.covariance import covariance
from qhreg.exceptions import CurvatureWarning
from qhreg.orthonormal import inverse_of
from qhreg.solver import solve


def positive_definite(seed, q=5):
    root = np.random.default_rng(seed).standard_normal((q + 3, q))
    return root.T @ root


def test_a_definite_bread_is_inverted_as_it_is():
    bread = positive_definite(0)
    inverse, helped = bread_inverse(bread, np.eye(5), 3)
    assert helped == ""
    assert_allclose(inverse, np.linalg.inv(bread))
    assert not is_flat(bread, inverse, 3)


@pytest.mark.parametrize("rounding", [0.0, 1e-17, -1e-17])
def test_a_direction_without_curvature_gets_the_mean_of_the_others(rounding):
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    bread = np.diag([0.0, 0.0, 0.0, 40.0, 50.0])
    bread[:3, :3] = (rotation * [0.2, 0.4, rounding]) @ rotation.T
    inverse, helped = bread_inverse(bread, np.eye(5), 3)
    assert "1 combination of the coefficients that no row in the zone" in helped
    wanted = np.diag([0.0, 0.0, 0.0, 1.0 / 40.0, 1.0 / 50.0])
    wanted[:3, :3] = (rotation / [0.2, 0.4, 0.3]) @ rotation.T
    assert_allclose(inverse, wanted, atol=1e-12)


def test_no_curvature_at_all_leaves_the_expected_one():
    bread = np.diag([0.0, 0.0, 7.0])
    inverse, helped = bread_inverse(bread, np.diag([0.5, 0.5, 9.0]), 2)
    assert "2 combinations" in helped
    assert_allclose(inverse, np.diag([2.0, 2.0, 1.0 / 7.0]))


def test_expected_blocks_stand_in_for_indefinite_ones():
    info = np.diag([0.5, 0.5, 9.0])
    bread = np.array([[0.4, 0.0, 3.0], [0.0, 0.3, 0.0], [3.0, 0.0, 7.0]])
    inverse, helped = bread_inverse(bread, info, 2)
    assert helped == "expected blocks as the observed are indefinite"
    assert_allclose(inverse, np.diag([1.0 / 0.4, 1.0 / 0.3, 1.0 / 9.0]))
    info[0, 2] = info[2, 0] = 2.0  # definite, but not with the smaller curvature
    info[0, 0] = 0.6
    inverse, helped = bread_inverse(bread, info, 2)
    assert helped == "the expected information as the observed is indefinite"
    assert_allclose(inverse, np.linalg.inv(info))


def rare(seed, n=600, members=4):
    """Data with a category none of whose rows lies near the location."""
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal(n), np.zeros(n)])
    exog[rng.choice(n, members, replace=False), 2] = 1.0
    endog = exog @ [1.0, 0.5, 0.0] + rng.standard_normal(n)
    endog[exog[:, 2] == 1.0] = 20.0 * np.tile([-1.0, 1.0], members // 2)
    return exog, endog


@pytest.mark.parametrize("seed", [0, 1, 3])
@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "cluster"])
def test_a_rare_category_outside_the_zone_has_the_density_of_all_rows(seed, cov_type):
    exog, endog = rare(seed)
    fit = solve(exog, endog, kappa=1.0, tau=0.5)
    options = {"groups": np.arange(600)} if cov_type == "cluster" else {}
    with pytest.warns(CurvatureWarning, match="1 combination of the coefficients that no row"):
        made = covariance(cov_type, exog, endog, fit, free=("beta", "sigma"), **options)
    u = (endog - exog @ fit.beta) / fit.sigma
    member = exog[:, 2] == 1.0
    density = np.mean(np.abs(u) < 0.5 * made.bread_width) / made.bread_width
    # four scores of 1/2 over the curvature of four rows
    by_hand = fit.sigma**2 * member.sum() * 0.25 / (member.sum() * density) ** 2
    assert_allclose(made.cov[2, 2], by_hand, rtol=0.3)
    others = np.delete(np.arange(600), np.flatnonzero(member))
    plain = covariance(
        "HC1",
        exog[others][:, :2],
        endog[others],
        solve(exog[others][:, :2], endog[others], kappa=1.0, tau=0.5),
        free=("beta", "sigma"),
    )
    assert_allclose(made.cov[:2, :2].diagonal(), plain.cov[:2, :2].diagonal(), rtol=0.25)


def test_a_summary_says_what_stands_in():
    exog, endog = rare(0)
    fit = QuantileHuberMLE(endog, exog, tau=0.5).fit()
    with pytest.warns(CurvatureWarning, match=r'prefer conf_int\(method="score"\)'):
        text = " ".join(str(fit.summary()).split())
    assert "the mean curvature along 1 combination of the coefficients" in text


def test_the_same_with_covariates_on_the_scale():
    exog, endog = rare(1)
    exog[exog[:, 2] == 1.0, 1] = 0.0  # the four have the same sigma
    model = QuantileHuberDistributional(endog, exog, exog_scale=exog[:, :2], kappa=1.0, tau=0.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = np.asarray(model.fit(cov_type="HC1").bse)[2]
    assert any("1 combination of the coefficients" in str(each.message) for each in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CurvatureWarning)
        plain = np.asarray(QuantileHuberMLE(endog, exog, tau=0.5).fit().bse)[2]
    assert 0.3 < error / plain < 3.0


def test_flatness_is_not_a_matter_of_the_other_parameters():
    bread = np.diag([0.3, 0.2, 1e12])
    assert not is_flat(bread, inverse_of(bread), 2)
    bread = np.diag([0.3, 1e-12, 1e-12])
    assert is_flat(bread, inverse_of(bread), 2)
    assert not is_flat(bread, inverse_of(bread), 0)
