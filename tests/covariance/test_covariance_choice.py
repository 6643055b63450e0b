"""What is wrong with a covariance is said when it is asked for, and a table is printed without one."""

from __future__ import annotations

import numpy as np
import pytest

from qhreg import QuantileHuberDistributional, QuantileHuberMLE
from qhreg.exceptions import DataError, DomainError


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(60), rng.normal(size=60)])
    return exog, exog @ [1.0, 2.0] + rng.standard_t(4, size=60)


WRONG = [
    ("cluster", {"groups": np.ones(60)}, DataError, "groups has only one cluster: its covariance"),
    (
        "cluster",
        {"groups": np.column_stack([np.arange(60) % 9, np.ones(60)])},
        DataError,
        "groups column 1 has only one cluster",
    ),
    (
        "cluster",
        {"groups": [np.arange(60) % 9] * 3},
        DataError,
        "at most two columns, got a list of 3",
    ),
    ("HAC", {"maxlags": -1}, DomainError, "maxlags must be a whole number from 0 to 59, got -1"),
    ("HAC", {"maxlags": 60}, DomainError, "maxlags must be a whole number"),
    ("HAC", {"maxlags": float("nan")}, DomainError, "maxlags must be a whole number"),
    ("HAC", {"maxlags": "three"}, DomainError, "maxlags must be a whole number"),
    ("HAC", {"kernel": "parzen"}, DomainError, "kernel must be callable or one of"),
    ("HC1", {"width": 1.0}, DomainError, "cov_kwds has 'width', unknown to cov_type='HC1'"),
]


@pytest.mark.parametrize(("cov_type", "options", "error", "message"), WRONG)
def test_options_are_refused_before_the_fit(rows, cov_type, options, error, message, monkeypatch):
    exog, endog = rows
    model, other = QuantileHuberMLE(endog, exog), QuantileHuberDistributional(endog, exog)
    plain = model.fit()
    # nothing is to be solved
    monkeypatch.setattr("qhreg.specification.model_data.ModelData.solved", None)
    monkeypatch.setattr("qhreg.distributional.model.solve_distributional", None)
    for ask in (
        lambda: model.fit(cov_type=cov_type, cov_kwds=options),
        lambda: model.fit_constrained("x1 = 0", cov_type=cov_type, cov_kwds=options),
        lambda: model.fit_process([0.4, 0.6], cov_type=cov_type, cov_kwds=options),
        lambda: other.fit(cov_type=cov_type, cov_kwds=options),
        lambda: plain.get_robustcov_results(cov_type, **options),
    ):
        with pytest.raises(error, match=message):
            ask()


def test_a_cluster_without_weight_is_none(rows):
    exog, endog = rows
    groups, weights = np.arange(60) % 2, np.arange(60) % 2.0
    for name in ("weights", "freq_weights"):
        model = QuantileHuberMLE(endog, exog, **{name: weights})
        with pytest.raises(DataError, match="groups has only one cluster with weight"):
            model.fit(cov_type="cluster", cov_kwds={"groups": groups})


@pytest.mark.parametrize("model", [QuantileHuberMLE, QuantileHuberDistributional])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("iid", "got 'iid': use 'nonrobust'"),
        ("nid", "got 'nid': use 'HC3'"),
        ("robust", "got 'robust': use 'HC3', or 'cluster' or 'HAC'"),
        ("clustered", "did you mean 'cluster'?"),
        ("zzz", "got 'zzz'$"),
    ],
)
def test_a_covariance_of_another_package_is_answered_with_what_to_use(rows, model, given, message):
    exog, endog = rows
    with pytest.raises(DomainError, match=message):
        model(endog, exog).fit(cov_type=given)


def test_the_letter_case_of_a_covariance_does_not_matter(rows):
    exog, endog = rows
    model, other = QuantileHuberMLE(endog, exog), QuantileHuberDistributional(endog, exog)
    for given, name in [("hc1", "HC1"), ("NonRobust", "nonrobust"), ("hac", "HAC")]:
        assert model.fit(cov_type=given).cov_type == name
        assert other.fit(cov_type=given).cov_type == name
        np.testing.assert_array_equal(model.fit(cov_type=given).bse, model.fit(cov_type=name).bse)
    options = {"n_boot": 5, "rng": 0}
    assert other.fit(cov_type="Bootstrap", cov_kwds=options).cov_type == "bootstrap"


LIKELIHOOD = {
    "profile": lambda fit, _: fit.conf_int(method="profile"),
    "profile of some": lambda fit, _: fit.conf_int(method="profile", cols=["x1"]),
    "intervals": lambda fit, _: fit.profile_intervals(),
    "lr_test": lambda fit, small: fit.lr_test(small),
    "compare_lr_test": lambda fit, small: fit.compare_lr_test(small),
}


@pytest.mark.parametrize("name", LIKELIHOOD)
@pytest.mark.parametrize("constrained", [False, True])
def test_the_likelihood_is_the_same_whatever_the_covariance(rows, name, constrained):
    exog, endog = rows

    def fit(exog, **options):
        if constrained:
            return QuantileHuberMLE(endog, exog).fit_constrained("tau = 0.4", **options)
        return QuantileHuberMLE(endog, exog, tau=0.4).fit(**options)

    small = fit(exog[:, :1])
    robust = LIKELIHOOD[name](fit(exog), small)
    plain = LIKELIHOOD[name](fit(exog, cov_type="nonrobust"), small)
    if name == "lr_test":
        assert (robust.note, plain.note) == ("assumes the density, which HC3 does not", "")
        assert robust.pvalue == plain.pvalue
    else:
        np.testing.assert_allclose(robust, plain, rtol=1e-5)


def test_a_fit_with_tau_fixed_is_nested_in_one_that_estimates_it(rows):
    exog, endog = rows
    fit = QuantileHuberMLE(endog, exog, tau=0.4).fit()
    full = QuantileHuberMLE(endog, exog).fit(cov_type="HC1")
    assert full.lr_test(fit).df == 1
    with pytest.raises(DataError, match="not nested"):
        fit.lr_test(full)


def test_the_likelihood_of_a_distributional_fit_says_what_it_assumes(rows):
    exog, endog = rows
    model = QuantileHuberDistributional(endog, exog, exog_scale=exog, tau=0.4)
    small = QuantileHuberMLE(endog, exog, tau=0.4)
    robust, plain = model.fit(), model.fit(cov_type="nonrobust")
    for test in (lambda fit: fit.lr_test(small.fit()), lambda fit: fit.test_homoskedastic()):
        assert "assumes the density, which HC3 does not" in repr(test(robust))
        assert test(plain).note == ""
        assert test(robust).pvalue == test(plain).pvalue
    # whichever way the smaller model was fitted
    ordinary = robust.lr_test(small.fit(reml=False)).statistic
    np.testing.assert_allclose(robust.lr_test(small.fit()).statistic, ordinary, rtol=1e-6)


def test_every_fit_is_hc3_unless_asked_otherwise(rows):
    exog, endog = rows
    weights = np.linspace(0.5, 1.5, 60)
    for model in (
        QuantileHuberMLE(endog, exog),
        QuantileHuberMLE(endog, exog, tau=0.4),
        QuantileHuberMLE(endog, exog, weights=weights),
        QuantileHuberDistributional(endog, exog, exog_scale=exog),
    ):
        assert model.fit().cov_type == "HC3"
    assert QuantileHuberMLE(endog, exog).fit_process([0.4, 0.6]).cov_type == "HC3"
    held = QuantileHuberMLE(endog, exog).fit_constrained("tau = 0.4")
    fixed = QuantileHuberMLE(endog, exog, tau=0.4).fit()
    assert held.cov_type == fixed.cov_type == "HC3"
    np.testing.assert_allclose(held.bse[:3], fixed.bse, rtol=1e-6)
    assert held.df_resid == fixed.df_resid
