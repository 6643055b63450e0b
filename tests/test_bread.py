"""What stands in for a bread of which the rows in the zone do not tell everything."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qhreg import QuantileHuberDistributional, QuantileHuberMLE
from qhreg.covariance import covariance
from qhreg.covariance.bread import bread_inverse, is_flat, lost_scores
from qhreg.covariance.orthonormal import inverse_of
from qhreg.exceptions import CurvatureWarning
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
    assert helped == "expected blocks as the observed are indefinite"
    info[:2, :2] = bread[:2, :2]
    assert_allclose(inverse, np.linalg.inv(info), atol=1e-9)


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


def with_single_row(seed, n=400):
    """Data with a category of one row."""
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal(n), np.zeros(n)])
    exog[7, 2] = 1.0
    return exog, exog @ [1.0, 0.5, 0.7] + rng.standard_normal(n)


FITTED_EXACTLY = "rows that identify 1 combination of the coefficients are fitted exactly"


@pytest.mark.parametrize("kappa", [0.0, 1.0])
@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "cluster", "HAC"])
def test_the_only_row_of_a_category_has_the_error_of_an_unseen_one(kappa, cov_type):
    # its residual is zero: taken at its word, the standard error of its effect would be that of the mean
    exog, endog = with_single_row(0)
    fit = solve(exog, endog, kappa=kappa, tau=0.5)
    options = {"cluster": {"groups": np.arange(400)}, "HAC": {"maxlags": 2}}.get(cov_type, {})
    with pytest.warns(CurvatureWarning, match=FITTED_EXACTLY):
        made = covariance(cov_type, exog, endog, fit, free=("beta", "sigma"), **options)
    assert_allclose(np.sqrt(made.cov[2, 2]), 1.0, rtol=0.3)  # that of one normal variable
    rest = np.delete(np.arange(400), 7)
    alone = solve(exog[rest, :2], endog[rest], kappa=kappa, tau=0.5)
    plain = covariance("HC1", exog[rest, :2], endog[rest], alone, free=("beta", "sigma"))
    assert_allclose(made.cov[:2, :2].diagonal(), plain.cov[:2, :2].diagonal(), rtol=0.35)
    if made.calibration is not None:
        assert_allclose(made.calibration.df[2], 1.0)
        assert np.all(np.delete(made.calibration.df, 2) > 10.0)


def test_it_does_not_matter_how_the_category_is_coded():
    exog, endog = with_single_row(1)
    other = np.column_stack([exog[:, 2], exog[:, 1], 1.0 - exog[:, 2]])  # the row is the base
    errors = []
    for design, contrast in ((exog, [0.0, 0.0, 1.0, 0.0]), (other, [1.0, 0.0, -1.0, 0.0])):
        fit = QuantileHuberMLE(endog, design, tau=0.5).fit()
        with pytest.warns(CurvatureWarning, match=FITTED_EXACTLY):
            test = fit.t_test(contrast)
        errors.append(float(np.squeeze(test.sd)))
    assert_allclose(errors[0], errors[1], rtol=1e-6)


def test_a_category_with_a_slope_of_its_own_for_two_rows():
    exog, endog = with_single_row(2)
    exog[8, 2] = 1.0
    exog = np.column_stack([exog, exog[:, 1] * exog[:, 2]])
    fit = solve(exog, endog, kappa=1.0)
    with pytest.warns(CurvatureWarning, match="2 combinations of the coefficients are fitted"):
        error = np.sqrt(covariance("HC1", exog, endog, fit).cov.diagonal())
    assert error[3] > 0.5 / abs(exog[7, 1] - exog[8, 1])


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_score_intervals_know_nothing_of_a_single_row(kappa):
    exog, endog = with_single_row(3)
    limits = np.asarray(
        QuantileHuberMLE(endog, exog, kappa=kappa, tau=0.5).fit().conf_int(method="score")
    )
    assert_allclose(limits[2], [-np.inf, np.inf])
    rest = np.delete(np.arange(400), 7)
    plain = QuantileHuberMLE(endog[rest], exog[rest, :2], kappa=kappa, tau=0.5).fit()
    assert_allclose(limits[[0, 1, 3]], plain.conf_int(method="score"), atol=5e-3)


def test_a_single_row_with_covariates_on_the_scale():
    exog, endog = with_single_row(4)
    model = QuantileHuberDistributional(endog, exog, exog_scale=exog[:, :2], kappa=1.0, tau=0.5)
    with pytest.warns(CurvatureWarning, match=FITTED_EXACTLY):
        error = np.asarray(model.fit(cov_type="HC1").bse)[2]
    assert 0.5 < error < 2.0


def test_expected_values_stand_in_where_all_rows_are_fitted_exactly():
    lost = lost_scores(np.zeros((2, 2)), np.zeros((2, 2)), np.diag([0.5, 0.5]), 2)
    assert_allclose(lost.meat, np.diag([0.5, 0.5]))
    assert_allclose(lost.bread, np.diag([0.5, 0.5]))
    assert lost_scores(np.eye(2), np.eye(2), np.eye(2), 2) is None
    assert lost_scores(np.eye(2), np.eye(2), np.eye(2), 0) is None


def test_what_compares_fits_warns_too():
    exog, endog = with_single_row(5)
    process = QuantileHuberMLE(endog, exog, tau=0.5).fit_process([0.3, 0.7])
    with pytest.warns(CurvatureWarning, match=FITTED_EXACTLY):
        process.test_equal_slopes()


@pytest.mark.parametrize("kappa", [0.0, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_a_score_test_beside_a_category_outside_the_zone(seed, kappa):
    exog, endog = rare(seed)
    rest = exog[:, 2] == 0.0
    added = np.where(rest, np.random.default_rng(99).standard_normal(600), 0.0)
    found = QuantileHuberMLE(endog, exog, kappa=kappa, tau=0.5).fit().score_test(added)
    plain = QuantileHuberMLE(endog[rest], exog[rest, :2], kappa=kappa, tau=0.5).fit()
    wanted = plain.score_test(added[rest]).statistic  # of a fit that the four rows do not move
    assert_allclose(found.statistic, wanted, rtol=0.1, atol=0.3)
