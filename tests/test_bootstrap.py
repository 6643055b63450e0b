"""Bootstrap replicates, their covariance and intervals."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from qhreg import QuantileHuberMLE
from qhreg.covariance import covariance, score_obs, smoothed_bread
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.inference.bootstrap import BootstrapResult, bootstrap
from qhreg.solver import solve


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(300), rng.standard_normal(300)])
    endog = exog @ [1.0, 2.0] + quantile_huber.rvs(0.4, 1.0, size=300, random_state=rng)
    return exog, endog, solve(exog, endog, kappa=1.0, search=False)


@pytest.mark.parametrize("kind", ["pairs", "parametric"])
def test_standard_errors_are_near_those_of_the_information(data, kind):
    exog, endog, fit = data
    result = bootstrap(exog, endog, fit, kind=kind, n_boot=300, seed=1)
    expected = np.sqrt(covariance("nonrobust", exog, endog, fit).cov.diagonal())
    assert_allclose(result.bse, expected, rtol=0.25)
    assert_allclose(np.sqrt(result.cov.diagonal()), result.bse, rtol=1e-12)
    assert result.params.shape == (300, 4)
    assert_array_equal(result.estimate, [*fit.beta, fit.sigma, fit.tau])
    assert (result.n_failed, result.failures, result.n_at_bound) == (0, {}, 0)


def test_a_replicate_is_the_fit_to_resampled_rows(data):
    exog, endog, fit = data
    offset = np.linspace(0.0, 3.0, 300)
    w = np.random.default_rng(5).uniform(0.5, 2.0, 300)
    result = bootstrap(exog, endog, fit, n_boot=2, seed=3, weights=w, offset=offset)
    for seed, params in zip(np.random.SeedSequence(3).spawn(2), result.params, strict=True):
        counts = np.random.default_rng(seed).multinomial(300, np.full(300, 1 / 300))
        rows = np.repeat(np.arange(300), counts)
        direct = solve(
            exog[rows], endog[rows], kappa=1.0, weights=w[rows], offset=offset[rows], search=False
        )
        assert_allclose(params, [*direct.beta, direct.sigma, direct.tau], rtol=1e-6)


def test_clusters_are_drawn_whole(data):
    exog, endog, fit = data
    groups = np.repeat(np.arange(30), 10)
    result = bootstrap(exog, endog, fit, kind="cluster", groups=groups, n_boot=2, seed=4)
    for seed, params in zip(np.random.SeedSequence(4).spawn(2), result.params, strict=True):
        counts = np.random.default_rng(seed).multinomial(30, np.full(30, 1 / 30))
        rows = np.concatenate(
            [np.flatnonzero(np.repeat(counts > c, 10)) for c in range(counts.max())]
        )
        direct = solve(exog[rows], endog[rows], kappa=1.0, search=False)
        assert_allclose(params, [*direct.beta, direct.sigma, direct.tau], rtol=1e-6)


def test_cluster_bootstrap_sees_dependence_that_pairs_miss():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(40), 8)
    exog = np.column_stack([np.ones(320), np.repeat(rng.standard_normal(40), 8)])
    endog = exog.sum(axis=1) + rng.standard_normal(320) + np.repeat(rng.standard_normal(40), 8)
    fit = solve(exog, endog, kappa=2.0, search=False)
    pairs = bootstrap(exog, endog, fit, n_boot=150, seed=0)
    cluster = bootstrap(exog, endog, fit, kind="cluster", groups=groups, n_boot=150, seed=0)
    assert cluster.bse[1] > 1.5 * pairs.bse[1]


def test_cases_are_resampled_one_by_one(data):
    exog, endog, _ = data
    f = np.random.default_rng(0).integers(1, 4, 300)
    fit = solve(exog, endog, kappa=1.0, weights=f, search=False)
    weighted = bootstrap(exog, endog, fit, freq_weights=f, n_boot=200, seed=0)
    x, y = np.repeat(exog, f, axis=0), np.repeat(endog, f)
    repeated = bootstrap(x, y, fit, n_boot=200, seed=0)
    assert_allclose(weighted.bse, repeated.bse, rtol=0.25)
    with pytest.raises(DataError, match="whole numbers"):
        bootstrap(exog, endog, fit, freq_weights=f + 0.5, n_boot=5)


def test_parametric_noise_follows_the_fitted_law(data):
    exog, endog, fit = data
    odd = replace(fit, tau=0.2, sigma=3.0)
    offset = np.full(300, 10.0)
    result = bootstrap(exog, endog, odd, kind="parametric", n_boot=60, seed=0, offset=offset)
    assert_allclose(np.median(result.params, axis=0), result.estimate, rtol=0.25)


@pytest.mark.parametrize(("size", "name"), [(10**9, "processes"), (0, "threads")])
def test_jobs_do_not_change_the_replicates(data, monkeypatch, size, name):
    exog, endog, fit = data
    monkeypatch.setattr("qhreg.inference.bootstrap.THREADS_FROM", size)
    one = bootstrap(exog, endog, fit, n_boot=12, seed=7)
    two = bootstrap(exog, endog, fit, n_boot=12, seed=7, n_jobs=2)
    assert_array_equal(one.params, two.params)


def test_seeds_decide_the_replicates(data):
    exog, endog, fit = data
    again = [bootstrap(exog, endog, fit, n_boot=3, seed=s).params for s in (1, 1, 2)]
    assert_array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])
    rng = np.random.default_rng(1)
    first, second = (bootstrap(exog, endog, fit, n_boot=3, seed=rng).params for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("free", [("beta",), ("beta", "sigma"), ("beta", "tau")])
def test_fixed_parameters_stay_fixed(data, free):
    exog, endog, fit = data
    result = bootstrap(exog, endog, fit, free=free, n_boot=3, seed=0)
    assert result.params.shape == (3, 2 + len(free) - 1)
    assert result.acceleration.shape == (2 + len(free) - 1,)


def test_kappa_can_be_estimated_in_every_replicate(data):
    exog, endog, fit = data
    free = ("beta", "sigma", "tau", "kappa")
    result = bootstrap(exog, endog, fit, free=free, n_boot=2, seed=0)
    assert result.params.shape == (2, 5)
    assert np.ptp(result.params[:, 4]) > 0.0


def test_failures_are_counted_with_their_reason():
    # One row alone carries the third column: a resample without it has rank two.
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(100), rng.standard_normal(100), np.zeros(100)])
    exog[0, 2] = 1.0
    endog = rng.standard_normal(100)
    fit = solve(exog, endog, kappa=1.0, tau=0.5)
    result = bootstrap(exog, endog, fit, free=("beta", "sigma"), n_boot=60, seed=0)
    assert result.failures == {"rank 2 instead of 3": result.n_failed}
    assert 10 <= result.n_failed <= 35  # 60 exp(-1) = 22
    assert len(result.params) == 60 - result.n_failed
    assert f"{result.n_failed} failed" in repr(result)


def on_free_scales(params):
    """Return replicates of (beta, sigma, tau) with the logarithm of sigma and the logit of tau."""
    moved = np.array(params)
    moved[:, 2] = np.log(moved[:, 2])
    moved[:, 3] = np.log(moved[:, 3] / (1.0 - moved[:, 3]))
    return moved


def chain(fit):
    """Return the derivatives of those scales."""
    return np.array([1.0, 1.0, 1.0 / fit.sigma, 1.0 / (fit.tau * (1.0 - fit.tau))])


@pytest.mark.parametrize("kappa", [0.0, 1.0])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_multiplier_replicates_spread_like_the_sandwich(data, kappa, clustered, weighted):
    exog, endog, _ = data
    groups = np.arange(300) % 50 if clustered else None
    rng = np.random.default_rng(2)
    rows = {"freq_weights": rng.integers(1, 4, 300), "weights": rng.uniform(0.5, 2.0, 300)}
    rows = rows if weighted else {}
    product = np.prod(list(rows.values()), axis=0) if weighted else None
    fit = solve(exog, endog, kappa=kappa, weights=product, search=False)
    made = bootstrap(
        exog, endog, fit, kind="multiplier", groups=groups, n_boot=4000, seed=0, **rows
    )
    options = {"groups": groups, "use_correction": False} if clustered else {}
    sandwich = covariance(
        "cluster" if clustered else "HC0", exog, endog, fit, **rows, **options
    ).cov * np.outer(chain(fit), chain(fit))
    spread = np.cov(on_free_scales(made.params), rowvar=False)
    size = np.sqrt(sandwich.diagonal())
    # 4000 replicates: standard errors are known to 1.1 %, correlations to 0.016
    assert_allclose(np.sqrt(spread.diagonal()) / size, 1.0, atol=0.05)
    assert_allclose(spread / np.outer(size, size), sandwich / np.outer(size, size), atol=0.09)
    centre = on_free_scales(made.params).mean(axis=0) - on_free_scales(made.estimate[None])[0]
    assert np.all(np.abs(centre) < 4.5 * size / np.sqrt(4000))


def test_a_multiplier_replicate_is_one_step_with_the_scores_of_its_seed(data):
    exog, endog, fit = data
    made = bootstrap(exog, endog, fit, kind="multiplier", n_boot=2, seed=3)
    scores, bread = score_obs(exog, endog, fit), smoothed_bread(exog, endog, fit)
    golden = (1.0 + np.sqrt(5.0)) / 2.0
    for seed, params in zip(np.random.SeedSequence(3).spawn(2), made.params, strict=True):
        draws = np.random.default_rng(seed).random(300)
        xi = np.where(draws < golden / np.sqrt(5.0), 1.0 - golden, golden)
        step = np.linalg.solve(bread, xi @ scores) * chain(fit)
        start = on_free_scales(made.estimate[None])[0]
        assert_allclose(on_free_scales(params[None])[0], start + step, rtol=1e-8)


def test_multiplier_replicates_keep_a_tau_on_its_bound_and_never_leave_the_domain(data):
    exog, endog, fit = data
    bound = replace(fit, tau_at_bound=True)
    made = bootstrap(exog, endog, bound, kind="multiplier", n_boot=20, seed=0)
    assert_array_equal(made.params[:, 3], fit.tau)
    few = bootstrap(exog[:12], endog[:12], fit, kind="multiplier", n_boot=200, seed=0)
    assert few.params[:, 2].min() > 0.0
    assert 0.0 < few.params[:, 3].min() < few.params[:, 3].max() < 1.0


def test_multiplier_replicates_have_bca_intervals_and_no_failures(data):
    exog, endog, fit = data
    made = bootstrap(exog, endog, fit, kind="multiplier", n_boot=500, seed=0)
    assert (made.kind, made.n_failed, made.n_boot) == ("multiplier", 0, 500)
    pairs = bootstrap(exog, endog, fit, n_boot=300, seed=0)
    for method in ("percentile", "bca"):
        assert_allclose(made.conf_int(method=method), pairs.conf_int(method=method), rtol=0.15)


def test_every_replicate_starts_at_the_fit(data, monkeypatch):
    exog, endog, fit = data
    starts = []

    def watched(*args, **kwargs):
        starts.append((kwargs["start"], kwargs["search"]))
        return solve(*args, **kwargs)

    monkeypatch.setattr("qhreg.inference.bootstrap.solve", watched)
    bootstrap(exog, endog, fit, n_boot=3, seed=0)
    assert starts == [(fit, False)] * 3


def test_weights_and_offset_follow_their_rows_into_clusters(data):
    exog, endog, fit = data
    offset, w = np.linspace(0.0, 3.0, 300), np.random.default_rng(5).uniform(0.5, 2.0, 300)
    codes = np.arange(300) % 25
    result = bootstrap(
        exog, endog, fit, kind="cluster", groups=codes, n_boot=2, seed=3, weights=w, offset=offset
    )
    for seed, params in zip(np.random.SeedSequence(3).spawn(2), result.params, strict=True):
        counts = np.random.default_rng(seed).multinomial(25, np.full(25, 1 / 25))
        rows = np.repeat(np.arange(300), counts[codes])
        direct = solve(
            exog[rows], endog[rows], kappa=1.0, weights=w[rows], offset=offset[rows], search=False
        )
        assert_allclose(params, [*direct.beta, direct.sigma, direct.tau], rtol=1e-6)


def made_up(params, estimate, acceleration):
    params = np.asarray(params, dtype=float).reshape(len(params), -1)
    return BootstrapResult(
        params,
        np.atleast_1d(estimate).astype(float),
        np.atleast_1d(acceleration).astype(float),
        ("beta",),
        "pairs",
        len(params),
        {},
        0,
    )


def test_percentile_interval_holds_the_middle_of_the_replicates():
    result = made_up(np.arange(1001), 500.0, 0.0)
    assert_allclose(result.conf_int(0.1), [[50.0, 950.0]])


def test_a_printed_bootstrap_is_a_table_of_what_the_replicates_say():
    result = made_up(np.arange(1001), 490.0, 0.0)
    table = result.summary_frame(0.1)
    assert table.index.tolist() == ["beta[0]"]
    assert_allclose(table, [[490.0, np.std(np.arange(1001), ddof=1), 10.0, 50.0, 950.0]])
    head, names, values = str(result).splitlines()
    assert head == "BootstrapResult: 1001 replicates, pairs; 95 % percentile limits"
    assert names.split() == ["estimate", "se", "bias", "ci_lower", "ci_upper"]
    assert values.split() == ["beta[0]", "490", "289.1", "10", "25", "975"]
    assert repr(result) == "<BootstrapResult: 1001 replicates, pairs>"


def test_a_kind_of_bootstrap_that_is_not_there_is_answered_with_those_there_are(data):
    with pytest.raises(
        DomainError, match="one of pairs, cluster, parametric, multiplier; got 'wild'"
    ):
        bootstrap(*data, kind="wild")


def test_bca_interval_follows_its_formula():
    params = np.random.default_rng(0).gamma(2.0, size=2000)
    estimate, a = 1.5, 0.05
    result = made_up(params, estimate, a)
    z0 = stats.norm.ppf((params < estimate).mean())
    levels = []
    for level in (0.025, 0.975):
        z = z0 + stats.norm.ppf(level)
        levels.append(stats.norm.cdf(z0 + z / (1 - a * z)))
    expected = np.quantile(params, levels)
    assert_allclose(result.conf_int(0.05, "bca")[0], expected, rtol=1e-10)
    symmetric = made_up(np.linspace(-1, 1, 2001), 0.0, 0.0)
    assert_allclose(symmetric.conf_int(method="bca"), symmetric.conf_int(), atol=1e-3)


def test_acceleration_is_that_of_the_jackknife(data):
    exog, endog, fit = data
    result = bootstrap(exog, endog, fit, n_boot=2, seed=0)
    left_out = []
    for i in range(300):
        keep = np.arange(300) != i
        each = solve(exog[keep], endog[keep], kappa=1.0, start=fit, search=False)
        left_out.append([*each.beta, each.sigma, each.tau])
    change = np.mean(left_out, axis=0) - left_out
    expected = (change**3).sum(axis=0) / (6 * (change**2).sum(axis=0) ** 1.5)
    assert_allclose(result.acceleration, expected, atol=0.01)


def test_estimate_on_a_bound_gives_a_finite_bca_interval():
    result = made_up(np.r_[np.full(90, 0.001), np.linspace(0.01, 0.2, 10)], 0.001, 0.0)
    low, high = result.conf_int(method="bca")[0]
    assert low == 0.001
    assert np.isfinite(high)


def test_a_quantile_beside_replicates_at_infinity_is_infinite():
    params = np.r_[np.arange(95.0), np.full(5, np.inf)]
    for method in ("percentile", "bca"):
        low, high = made_up(params, 50.0, 0.0).conf_int(method=method)[0]
        assert np.isfinite(low)
        assert high == np.inf
    inner = made_up(params, 50.0, 0.0).conf_int(0.2)[0]
    assert_allclose(inner, np.quantile(np.arange(100.0), [0.1, 0.9]))


def test_progress_bar_is_optional(data, monkeypatch, capsys):
    exog, endog, fit = data
    bootstrap(exog, endog, fit, n_boot=3, seed=0)
    assert capsys.readouterr().err == ""
    pytest.importorskip("tqdm")
    bootstrap(exog, endog, fit, n_boot=3, seed=0, progress=True)
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # as if tqdm were not installed
    assert len(bootstrap(exog, endog, fit, n_boot=3, seed=0, progress=True).params) == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": "wild"}, DomainError, "kind must be one of"),
        ({"kind": "cluster"}, DomainError, "needs groups"),
        ({"groups": np.arange(300)}, DomainError, "does not use groups"),
        ({"kind": "cluster", "groups": np.ones(300)}, DataError, "only one cluster"),
        ({"n_boot": 1}, DomainError, "n_boot"),
        ({"n_jobs": 0}, DomainError, "n_jobs"),
        ({"weights": np.ones(5)}, DataError, "weights must have shape"),
        ({"offset": np.ones(5)}, DataError, "offset must have shape"),
        ({"free": ("scale",)}, DomainError, "free must list"),
    ],
)
def test_bad_options_are_named(data, options, error, message):
    exog, endog, fit = data
    with pytest.raises(error, match=message):
        bootstrap(exog, endog, fit, **{"n_boot": 3, **options})


def test_bad_interval_options_are_named(data):
    exog, endog, fit = data
    result = bootstrap(exog, endog, fit, n_boot=3, seed=0)
    with pytest.raises(DomainError, match="alpha"):
        result.conf_int(1.5)
    with pytest.raises(DomainError, match="method"):
        result.conf_int(0.05, "basic")


def test_every_case_draws_noise_of_its_own(data):
    exog, endog, _ = data
    f = np.tile([0, 1, 4], 100)[: endog.size]
    fit = solve(exog, endog, weights=f.astype(float))
    options = {"kind": "parametric", "n_boot": 100, "seed": 0}
    counted = bootstrap(exog, endog, fit, freq_weights=f, **options)
    rows = np.repeat(np.arange(endog.size), f)
    repeated = bootstrap(exog[rows], endog[rows], fit, **options)
    assert_allclose(counted.params, repeated.params, rtol=1e-10)


@pytest.mark.parametrize("kind", ["pairs", "parametric", "multiplier"])
def test_rows_without_weight_are_not_drawn(data, kind):
    exog, endog, _ = data
    weights = np.tile([0.0, 0.5, 2.0], 100)[: endog.size]
    kept = weights > 0.0
    fit = solve(exog, endog, weights=weights)
    options = {"kind": kind, "n_boot": 20, "seed": 0}
    whole = bootstrap(exog, endog, fit, weights=weights, **options)
    part = bootstrap(exog[kept], endog[kept], fit, weights=weights[kept], **options)
    assert_allclose(whole.params, part.params, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.CurvatureWarning")
@pytest.mark.parametrize("kind", ["pairs", "parametric", "multiplier"])
def test_a_tau_on_its_bound_in_every_replicate_is_held_as_with_other_covariances(kind):
    rng = np.random.default_rng(2)
    exog = np.column_stack([np.ones(60), rng.normal(size=60)])
    plain = QuantileHuberMLE(exog @ [1.0, 2.0] + rng.exponential(size=60), exog).fit()
    fit = plain.get_robustcov_results("bootstrap", n_boot=20, seed=1, kind=kind)
    assert fit.held_fixed == plain.held_fixed == {"tau": "at bound"}
    assert np.isnan(fit.bse[-1])
    assert np.isnan(fit.tvalues[-1])
    assert (fit.cov_params()[-1] == 0.0).all()
    assert np.isnan(fit.conf_int()[-1]).all()
    assert "(at bound)" in str(fit.summary())
    assert "tau is 0.999 in every replicate" in fit.cov_kwds["description"]
    with pytest.raises(DomainError, match=r"tau is on its bound 0\.999"):
        fit.wald_test("tau = 0.5")


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_a_tau_on_its_bound_that_replicates_leave_keeps_their_spread(data):
    exog, endog, fit = data
    plain = QuantileHuberMLE(endog, exog, tau_bounds=(0.1, fit.tau - 0.01)).fit()
    assert plain.solution.tau_at_bound
    fit = plain.get_robustcov_results("bootstrap", n_boot=40, seed=1)
    replicates = fit._replicates
    assert 0 < replicates.n_at_bound < len(replicates.params)
    assert fit.held_fixed == {}
    assert fit.bse[-1] == pytest.approx(replicates.params[:, -1].std(ddof=1))
