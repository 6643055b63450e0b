"""Hard data through the model: every fit can be printed, or is refused or warned about with a reason."""

import warnings

import numpy as np
import pytest
from model_data import skewed_frame
from numpy.testing import assert_allclose

import qhreg.formula.api as qhf
from qhreg import QuantileHuberMLE, quantile_huber
from qhreg.exceptions import DataError, DataWarning, DomainError, QhregError, RankWarning

FRAME = skewed_frame()
N = 60
RNG = np.random.default_rng(1)
X = np.column_stack([np.ones(N), RNG.standard_normal((N, 2))])
NOISE = quantile_huber.rvs(0.4, 1.0, size=N, random_state=RNG)
Y = X @ [1.0, 2.0, 0.0] + NOISE
LINE = X @ [1.0, 2.0, 0.0]

HARD = {
    "dependent columns": (Y, np.column_stack([X, X[:, 1] + X[:, 2]])),
    "the constant twice": (Y, np.column_stack([X, np.ones(N)])),
    "a column of zeros": (Y, np.column_stack([X, np.zeros(N)])),
    "nothing but zeros": (Y, np.zeros((N, 1))),
    "fewer rows than columns": (Y[:2], X[:2]),
    "as many rows as columns": (Y[:3], X[:3]),
    "one row more": (Y[:4], X[:4]),
    "one row": (Y[:1], X[:1, :1]),
    "a perfect fit": (LINE, X),
    "a constant response": (np.full(N, 3.0), X),
    "a response of zeros": (np.zeros(N), X),
    "noise above the line": (LINE + np.abs(NOISE), X),
    "noise below the line": (LINE - np.abs(NOISE), X),
    "an outlier": (np.where(np.arange(N) == 3, 1e15, Y), X),
    "tiny units": (1e-200 * Y, X),
    "huge units": (1e200 * Y, X),
    "columns in other units": (Y, X * [1.0, 1e10, 1e-10]),
    "integers": (np.round(Y), X),
    "half zeros": (np.maximum(Y - 1.0, 0.0), X),
    "two values": ((Y > 1.0) * 1.0, X),
    "nearly all tied": ((np.arange(N) > 57) * 1.0, X[:, :1]),
}
MODELS = {
    "joint": {},
    "kappa 0": {"kappa": 0.0},
    "small kappa": {"kappa": 0.05},
    "tau fixed": {"tau": 0.3},
    "sigma fixed": {"sigma": 1.0},
    "kappa estimated": {"kappa": None},
    "zero weights": {"weights": True},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("data", HARD)
def test_hard_data_give_a_summary_or_a_reason(data, model):
    endog, exog = HARD[data]
    options = dict(MODELS[model])
    if options.pop("weights", False):
        options["weights"] = 1.0 * (np.arange(len(endog)) % 3 > 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit = QuantileHuberMLE(endog, exog, **options).fit()
            text = str(fit.summary())
        except QhregError:  # a stated reason; any other exception fails the test
            return
    for warning in caught:
        assert issubclass(warning.category, UserWarning), warning
    assert np.isfinite(fit.params).all()
    assert np.isfinite(fit.llf)
    assert fit.converged or "NOT CONVERGED" in text


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
@pytest.mark.parametrize("unit", [1e150, 1e160, 1e300])
def test_a_column_whose_squares_are_no_floating_point_numbers_is_named(unit, cov_type):
    large = X * np.where(np.arange(X.shape[1]) == 2, unit, 1.0)
    fit = QuantileHuberMLE(Y, large).fit(cov_type=cov_type)
    assert_allclose(fit.params[2] * unit, QuantileHuberMLE(Y, X).fit().params[2], rtol=1e-8)
    with pytest.raises(DataError, match=r"variance of x2 is beyond .* another unit"):
        _ = fit.bse


def test_a_variance_that_is_no_floating_point_number_is_refused():
    plain = QuantileHuberMLE(Y, X).fit()
    for unit in (1e-200, 1e200):
        fit = QuantileHuberMLE(unit * Y, X).fit()
        assert_allclose(fit.params[:4], unit * plain.params[:4], rtol=1e-9)
        with pytest.raises(DataError, match="variance of const is beyond the range"):
            _ = fit.bse
    for unit in (1e-140, 1e140):
        fit = QuantileHuberMLE(unit * Y, X).fit()
        assert_allclose(fit.bse[:4], unit * plain.bse[:4], rtol=1e-6)


def test_without_independent_columns_sigma_and_tau_are_still_estimated():
    with pytest.warns(RankWarning):
        fit = QuantileHuberMLE(Y, np.zeros((N, 1))).fit()
    assert fit.params[0] == 0.0
    assert fit.df_model == 0.0
    # the law of the noise around 0 is that of a regression on a column that does not matter
    unrelated = X[:, 1] * 1e-12
    assert_allclose(
        fit.llf,
        QuantileHuberMLE(Y, unrelated).loglike([0.0, fit.sigma, fit.tau]),
        rtol=1e-12,
    )


def test_the_share_below_does_not_count_interpolated_rows():
    fit = QuantileHuberMLE(np.sqrt(np.arange(11)), np.ones(11), kappa=0.0, tau=0.5).fit()
    assert fit.share_below == 5 / 11  # the sixth of eleven values is the median
    doubled = QuantileHuberMLE(
        FRAME.y, FRAME[["x", "z"]], kappa=0.0, tau=0.5, freq_weights=FRAME.w
    ).fit()
    rows = FRAME.loc[FRAME.index.repeat(FRAME.w.astype(int))]
    repeated = QuantileHuberMLE(rows.y, rows[["x", "z"]], kappa=0.0, tau=0.5).fit()
    assert_allclose(doubled.share_below, repeated.share_below, rtol=1e-12)


def test_pseudo_r_squared_is_undefined_where_a_constant_fits_exactly():
    with pytest.warns(DataWarning, match="100% of the responses equal 3"):
        fit = QuantileHuberMLE(np.full(N, 3.0), X, sigma=1.0).fit()
    assert np.isnan(fit.prsquared)
    assert "nan" in str(fit.summary())


def test_nothing_depends_on_the_unit_of_sampling_weights():
    one, other = (
        qhf.quantile_huber("y ~ x", FRAME, weights=unit * FRAME.w).fit() for unit in (1.0, 100.0)
    )
    assert_allclose(other.llf, one.llf, rtol=1e-9)
    assert np.isnan(one.llr_pvalue)
    assert_allclose(other.pseudo_rsquared("cs"), one.pseudo_rsquared("cs"), rtol=1e-9)
    assert str(one.summary()).count("none (weights)") == 4


def test_every_fit_warns_at_the_line_that_asked_for_it():
    bounded = QuantileHuberMLE(LINE + np.abs(NOISE), X, tau_bounds=(0.1, 0.2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # once for each line
        bounded.fit()
        bounded.fit()
        QuantileHuberMLE(Y, np.column_stack([X, X[:, 1]])).fit()
    assert [warning.filename for warning in caught] == [__file__] * len(caught)
    assert len({warning.lineno for warning in caught}) == 3


def test_the_share_below_does_not_count_the_only_row_of_a_category():
    shares = set()
    for unit in (1.0, 3.0, 1e6, 1e-3):
        exog = np.column_stack([X, unit * (np.arange(N) == 5)])
        fit = QuantileHuberMLE(Y, exog, kappa=3.0).fit()
        shares.add(fit.share_below)
        assert abs(fit.resid[5]) < 1e-10
    assert len(shares) == 1


def test_rows_without_weight_are_no_observations():
    weights = np.where(np.arange(N) % 3 > 0, 1.0 + np.arange(N) % 2, 0.0)
    kept = weights > 0.0
    whole = QuantileHuberMLE(Y, X, weights=weights).fit()
    part = QuantileHuberMLE(Y[kept], X[kept], weights=weights[kept]).fit()
    assert whole.nobs == part.nobs == 40.0
    assert whole.df_resid == part.df_resid == 37.0
    assert_allclose(whole.bic, part.bic, rtol=1e-9)
    counted = QuantileHuberMLE(Y, X, weights=weights, freq_weights=np.full(N, 2.0)).fit()
    assert counted.nobs == 80.0


@pytest.mark.parametrize("use_t", [False, True])
def test_a_term_without_columns_has_no_statistic(use_t):
    frame = FRAME.assign(one="a")
    fit = qhf.quantile_huber("y ~ x + C(one)", frame).fit(use_t=use_t)
    table = fit.wald_test_terms().table
    assert np.isnan(table.loc["C(one)", ["statistic", "pvalue"]].to_numpy(dtype=float)).all()
    assert table.loc["C(one)", "df_constraint"] == 0
    plain = qhf.quantile_huber("y ~ x", FRAME).fit(use_t=use_t).wald_test_terms().table
    assert_allclose(table.loc["x"].to_numpy(dtype=float), plain.loc["x"].to_numpy(dtype=float))


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.RankWarning")
def test_a_column_that_only_rows_without_weight_have_has_no_influence_in_standard_errors():
    exog = np.column_stack([X, np.arange(N) < 3])
    fit = QuantileHuberMLE(Y, exog, weights=1.0 * (np.arange(N) >= 3)).fit()
    changes = fit.get_influence().dfbetas
    assert np.isnan(changes[:, 3]).all()
    assert np.isfinite(changes[3:, :3]).all()


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "cluster", "HAC"])
def test_all_coefficients_may_be_fixed(cov_type):
    kwds = {"groups": np.arange(N) % 10} if cov_type == "cluster" else None
    model = QuantileHuberMLE(Y, X)
    known = "const = 1, x1 = 2, x2 = 0"
    fit = model.fit_constrained(known, cov_type=cov_type, cov_kwds=kwds)
    assert_allclose(fit.params[:3], [1.0, 2.0, 0.0], atol=1e-12)
    assert np.isnan(fit.bse[:3]).all()
    assert (fit.bse[3:] > 0.0).all()
    assert "nan" not in str(fit.summary())
    tables = "".join(map(str, fit.summary().tables))
    assert tables.count("(fixed)") == 4  # kappa too
    # the law of the noise alone, as beside a column that explains none of it
    alone = QuantileHuberMLE(Y, np.zeros((N, 1)), offset=LINE)
    with pytest.warns(RankWarning):
        noise = alone.fit(cov_type=cov_type, cov_kwds=kwds)
    assert_allclose(fit.bse[3:], noise.bse[1:], rtol=1e-6)
    every = model.fit_constrained(
        f"{known}, sigma = 1, tau = 0.4", cov_type=cov_type, cov_kwds=kwds
    )
    assert np.isnan(every.bse).all()
    assert "fix every parameter" in " ".join(str(every.summary()).split())
    assert_allclose(every.llf, model.loglike([1.0, 2.0, 0.0, 1.0, 0.4]), rtol=1e-12)
    assert np.isnan(every.llr_pvalue)


def test_constraints_that_contradict_each_other_or_name_what_is_fixed_are_refused():
    model = QuantileHuberMLE(Y, X)
    with pytest.raises(DomainError, match=r"contradict each other: tau = 0\.4 and 0\.5"):
        model.fit_constrained("tau = 0.4, tau = 0.5")
    twice = model.fit_constrained("tau = 0.4, tau = 0.4, x2 = 0, 2 * x2 = 0")
    assert_allclose(twice.llf, model.fit_constrained("tau = 0.4, x2 = 0").llf, rtol=1e-12)
    with pytest.raises(
        DomainError, match=r"(?s)'kappa = 1' cannot be read.*const, x1, x2, sigma, tau"
    ):
        model.fit_constrained("kappa = 1")
