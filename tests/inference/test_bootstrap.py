"""Bootstrap replicates, their covariance and intervals."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from qhreg import QuantileHuberMLE
from qhreg.covariance import covariance_parts, sandwich
from qhreg.covariance.choice import cluster_codes
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.inference.bootstrap import BootstrapResult, bootstrap
from qhreg.solver import solve
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace

FREE = ("beta", "sigma", "tau")


def model_of(exog, endog, fit, free=FREE, freq_weights=None, weights=None, offset=None):
    rows = (freq_weights, weights)
    rows = [None if w is None else np.asarray(w, dtype=float) for w in rows]
    fixed = {name: getattr(fit, name) for name in ("sigma", "tau", "kappa") if name not in free}
    space = ParameterSpace(exog.shape[1], **fixed)
    names = tuple(f"x{j}" for j in range(exog.shape[1]))
    return ModelData(Observations(exog, endog, offset, *rows), space, (1e-3, 0.999), names)


def parts_of(exog, endog, fit, **rows):
    return covariance_parts(model_of(exog, endog, fit, **rows), fit)


def resampled(exog, endog, fit, **options):
    """Replicates of a fit to arrays."""
    names = ("free", "freq_weights", "weights", "offset")
    rows = {name: options.pop(name) for name in names if name in options}
    return bootstrap(model_of(exog, endog, fit, **rows), fit, **options)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(300), rng.standard_normal(300)])
    endog = exog @ [1.0, 2.0] + quantile_huber.rvs(0.4, 1.0, size=300, random_state=rng)
    return exog, endog, solve(exog, endog, kappa=1.0, search=False)


@pytest.mark.parametrize("kind", ["pairs", "parametric"])
def test_standard_errors_are_near_those_of_the_information(data, kind):
    exog, endog, fit = data
    result = resampled(exog, endog, fit, kind=kind, n_boot=300, rng=1)
    plain = QuantileHuberMLE(endog, exog, kappa=1.0).fit(cov_type="nonrobust")
    assert_allclose(result.bse, plain.bse, rtol=0.25)
    assert_allclose(np.sqrt(result.cov.diagonal()), result.bse, rtol=1e-12)
    assert result.params.shape == (300, 4)
    assert_array_equal(result.estimate, [*fit.beta, fit.sigma, fit.tau])
    assert (result.n_failed, result.failures, result.n_at_bound) == (0, {}, 0)


def test_a_replicate_is_the_fit_to_resampled_rows(data):
    exog, endog, fit = data
    offset = np.linspace(0.0, 3.0, 300)
    w = np.random.default_rng(5).uniform(0.5, 2.0, 300)
    result = resampled(exog, endog, fit, n_boot=2, rng=3, weights=w, offset=offset)
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
    result = resampled(exog, endog, fit, kind="cluster", groups=groups, n_boot=2, rng=4)
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
    pairs = resampled(exog, endog, fit, n_boot=150, rng=0)
    cluster = resampled(exog, endog, fit, kind="cluster", groups=groups, n_boot=150, rng=0)
    assert cluster.bse[1] > 1.5 * pairs.bse[1]


def test_cases_are_resampled_one_by_one(data):
    exog, endog, _ = data
    f = np.random.default_rng(0).integers(1, 4, 300)
    fit = solve(exog, endog, kappa=1.0, weights=f, search=False)
    weighted = resampled(exog, endog, fit, freq_weights=f, n_boot=200, rng=0)
    x, y = np.repeat(exog, f, axis=0), np.repeat(endog, f)
    repeated = resampled(x, y, fit, n_boot=200, rng=0)
    assert_allclose(weighted.bse, repeated.bse, rtol=0.25)
    with pytest.raises(DataError, match="whole numbers"):
        resampled(exog, endog, fit, freq_weights=f + 0.5, n_boot=5)


def test_parametric_noise_follows_the_fitted_law(data):
    exog, endog, fit = data
    odd = replace(fit, tau=0.2, sigma=3.0)
    offset = np.full(300, 10.0)
    result = resampled(exog, endog, odd, kind="parametric", n_boot=60, rng=0, offset=offset)
    assert_allclose(np.median(result.params, axis=0), result.estimate, rtol=0.25)


def test_jobs_do_not_change_the_replicates(data):
    exog, endog, fit = data
    one = resampled(exog, endog, fit, n_boot=12, rng=7)
    two = resampled(exog, endog, fit, n_boot=12, rng=7, n_jobs=2)
    assert_array_equal(one.params, two.params)


def test_seeds_decide_the_replicates(data):
    exog, endog, fit = data
    again = [resampled(exog, endog, fit, n_boot=3, rng=s).params for s in (1, 1, 2)]
    assert_array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])
    rng = np.random.default_rng(1)
    first, second = (resampled(exog, endog, fit, n_boot=3, rng=rng).params for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("free", [("beta",), ("beta", "sigma"), ("beta", "tau")])
def test_fixed_parameters_stay_fixed(data, free):
    exog, endog, fit = data
    result = resampled(exog, endog, fit, free=free, n_boot=3, rng=0)
    assert result.params.shape == (3, 2 + len(free) - 1)
    assert result.acceleration.shape == (2 + len(free) - 1,)


def test_kappa_can_be_estimated_in_every_replicate(data):
    exog, endog, fit = data
    free = ("beta", "sigma", "tau", "kappa")
    result = resampled(exog, endog, fit, free=free, n_boot=2, rng=0)
    assert result.params.shape == (2, 5)
    assert np.ptp(result.params[:, 4]) > 0.0


def test_failures_are_counted_with_their_reason():
    # One row alone carries the third column: a resample without it has rank two.
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(100), rng.standard_normal(100), np.zeros(100)])
    exog[0, 2] = 1.0
    endog = rng.standard_normal(100)
    fit = solve(exog, endog, kappa=1.0, tau=0.5)
    result = resampled(exog, endog, fit, free=("beta", "sigma"), n_boot=60, rng=0)
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
    made = resampled(exog, endog, fit, kind="multiplier", groups=groups, n_boot=4000, rng=0, **rows)
    parts = parts_of(exog, endog, fit, **rows)
    codes = cluster_codes(groups, 300) if clustered else None
    expected = sandwich(
        parts.scores, parts.inverse, freq=parts.freq, groups=codes, use_correction=False
    )
    spread = np.cov(on_free_scales(made.params), rowvar=False)
    size = np.sqrt(expected.diagonal())
    # 4000 replicates: standard errors are known to 1.1 %, correlations to 0.016
    assert_allclose(np.sqrt(spread.diagonal()) / size, 1.0, atol=0.05)
    assert_allclose(spread / np.outer(size, size), expected / np.outer(size, size), atol=0.09)
    centre = on_free_scales(made.params).mean(axis=0) - on_free_scales(made.estimate[None])[0]
    assert np.all(np.abs(centre) < 4.5 * size / np.sqrt(4000))


def test_a_multiplier_replicate_is_one_step_with_the_scores_of_its_seed(data):
    exog, endog, fit = data
    made = resampled(exog, endog, fit, kind="multiplier", n_boot=2, rng=3)
    parts = parts_of(exog, endog, fit)
    golden = (1.0 + np.sqrt(5.0)) / 2.0
    for seed, params in zip(np.random.SeedSequence(3).spawn(2), made.params, strict=True):
        draws = np.random.default_rng(seed).random(300)
        xi = np.where(draws < golden / np.sqrt(5.0), 1.0 - golden, golden)
        step = np.linalg.solve(parts.bread, xi @ parts.scores)
        start = on_free_scales(made.estimate[None])[0]
        assert_allclose(on_free_scales(params[None])[0], start + step, rtol=1e-8)


def test_multiplier_replicates_keep_a_tau_on_its_bound_and_never_leave_the_domain(data):
    exog, endog, fit = data
    bound = replace(fit, tau_at_bound=True)
    made = resampled(exog, endog, bound, kind="multiplier", n_boot=20, rng=0)
    assert_array_equal(made.params[:, 3], fit.tau)
    few = resampled(exog[:12], endog[:12], fit, kind="multiplier", n_boot=200, rng=0)
    assert few.params[:, 2].min() > 0.0
    assert 0.0 < few.params[:, 3].min() < few.params[:, 3].max() < 1.0


def test_multiplier_replicates_have_bca_intervals_and_no_failures(data):
    exog, endog, fit = data
    made = resampled(exog, endog, fit, kind="multiplier", n_boot=500, rng=0)
    assert (made.kind, made.n_failed, made.n_boot) == ("multiplier", 0, 500)
    pairs = resampled(exog, endog, fit, n_boot=300, rng=0)
    for method in ("percentile", "bca"):
        assert_allclose(made.conf_int(method=method), pairs.conf_int(method=method), rtol=0.15)


@pytest.mark.parametrize("reml", [False, True])
def test_every_replicate_has_the_criterion_of_the_fit(data, reml):
    exog, endog, _ = data
    model = QuantileHuberMLE(endog[:60], exog[:60], kappa=1.0)
    made = model.fit(reml=reml).bootstrap(n_boot=2, rng=3)
    for seed, params in zip(np.random.SeedSequence(3).spawn(2), made.params, strict=True):
        counts = np.random.default_rng(seed).multinomial(60, np.full(60, 1 / 60))
        rows = np.repeat(np.arange(60), counts)
        direct = QuantileHuberMLE(endog[rows], exog[rows], kappa=1.0).fit(reml=reml)
        assert_allclose(params, direct.params, rtol=1e-5)


def test_weights_and_offset_follow_their_rows_into_clusters(data):
    exog, endog, fit = data
    offset, w = np.linspace(0.0, 3.0, 300), np.random.default_rng(5).uniform(0.5, 2.0, 300)
    codes = np.arange(300) % 25
    result = resampled(
        exog, endog, fit, kind="cluster", groups=codes, n_boot=2, rng=3, weights=w, offset=offset
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
    with pytest.raises(DomainError, match="cluster, parametric, wild, multiplier; got 'jackknife'"):
        resampled(*data, kind="jackknife")


# --- wild ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kappa", "tau"), [(0.0, 0.3), (0.0, 0.5), (2.0, 0.5)])
def test_a_wild_replicate_has_the_residuals_with_two_point_weights(kappa, tau):
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(80), rng.standard_normal(80)])
    endog = exog.sum(axis=1) + rng.standard_normal(80)
    fit = solve(exog, endog, kappa=kappa, tau=tau)
    made = resampled(exog, endog, fit, free=("beta", "sigma"), kind="wild", n_boot=2, rng=3)
    residuals = np.abs(endog - exog @ fit.beta)
    for seed, params in zip(np.random.SeedSequence(3).spawn(2), made.params, strict=True):
        positive = np.random.default_rng(seed).random(80) < tau
        response = exog @ fit.beta + np.where(positive, 2 * tau, -2 * (1 - tau)) * residuals
        direct = solve(exog, response, kappa=kappa, tau=tau, sigma=fit.sigma)
        assert_allclose(params[:2], direct.beta, atol=1e-5)
        assert params[2] == pytest.approx(fit.sigma, rel=1e-12)


def test_the_two_points_of_the_wild_weights_meet_the_conditions_of_feng_he_and_hu():
    for tau in (0.1, 0.5, 0.8):
        points, chances = np.array([2 * tau, -2 * (1 - tau)]), np.array([tau, 1 - tau])
        halves = chances / points
        assert_allclose(halves, [0.5, -0.5])  # the integrals of 1 / w over both sides
        level = chances[points < 0].sum()
        assert_allclose(
            level, 1 - tau
        )  # zero is the quantile of the weights at the level of the line


@pytest.mark.parametrize("tau", [0.3, 0.5])
def test_the_wild_bootstrap_sees_noise_that_grows_with_the_regressor(tau):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(600)
    exog = np.column_stack([np.ones(600), x])
    endog = x + rng.standard_normal(600) * (0.3 + np.abs(x))
    fit = solve(exog, endog, kappa=0.0, tau=tau)
    options = {"free": ("beta", "sigma"), "n_boot": 150, "rng": 0}
    wild = resampled(exog, endog, fit, kind="wild", **options)
    pairs = resampled(exog, endog, fit, kind="pairs", **options)
    parametric = resampled(exog, endog, fit, kind="parametric", **options)
    assert_allclose(wild.bse[1], pairs.bse[1], rtol=0.3)
    assert wild.bse[1] > 1.3 * parametric.bse[1]


def test_the_wild_bootstrap_is_not_offered_where_it_is_not_centred(data):
    with pytest.raises(DomainError, match=r"for kappa = 0 or tau = 1/2.*use 'pairs'"):
        resampled(*data, kind="wild")


# --- intervals -------------------------------------------------------------------------------------


def test_the_basic_interval_mirrors_the_percentile_one_on_the_scale_of_the_parameter(data):
    exog, endog, fit = data
    made = resampled(exog, endog, fit, kind="multiplier", n_boot=300, rng=0)
    percentile, basic = (
        on_free_scales(made.conf_int(method=m).T).T for m in ("percentile", "basic")
    )
    middle = on_free_scales(made.estimate[None])[0][:, None]
    assert_allclose(basic, 2 * middle - percentile[:, ::-1], rtol=1e-8)


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
    result = resampled(exog, endog, fit, n_boot=2, rng=0)
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
    resampled(exog, endog, fit, n_boot=3, rng=0)
    assert capsys.readouterr().err == ""
    pytest.importorskip("tqdm")
    resampled(exog, endog, fit, n_boot=3, rng=0, progress=True)
    assert "bootstrap:" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # as if tqdm were not installed
    assert len(resampled(exog, endog, fit, n_boot=3, rng=0, progress=True).params) == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": "jackknife"}, DomainError, "kind must be one of"),
        ({"kind": "cluster"}, DomainError, "needs groups"),
        ({"groups": np.arange(300)}, DomainError, "does not use groups"),
        ({"kind": "cluster", "groups": np.ones(300)}, DataError, "only one cluster"),
        ({"n_boot": 1}, DomainError, "n_boot"),
        ({"n_jobs": 0}, DomainError, "n_jobs"),
    ],
)
def test_bad_options_are_named(data, options, error, message):
    exog, endog, fit = data
    with pytest.raises(error, match=message):
        resampled(exog, endog, fit, **{"n_boot": 3, **options})


def test_bad_interval_options_are_named(data):
    exog, endog, fit = data
    result = resampled(exog, endog, fit, n_boot=3, rng=0)
    with pytest.raises(DomainError, match="alpha"):
        result.conf_int(1.5)
    with pytest.raises(DomainError, match="method"):
        result.conf_int(0.05, "normal")


def test_every_case_draws_noise_of_its_own(data):
    exog, endog, _ = data
    f = np.tile([0, 1, 4], 100)[: endog.size]
    fit = solve(exog, endog, weights=f.astype(float))
    options = {"kind": "parametric", "n_boot": 100, "rng": 0}
    counted = resampled(exog, endog, fit, freq_weights=f, **options)
    rows = np.repeat(np.arange(endog.size), f)
    repeated = resampled(exog[rows], endog[rows], fit, **options)
    assert_allclose(counted.params, repeated.params, rtol=1e-10)


@pytest.mark.parametrize("kind", ["pairs", "parametric", "multiplier"])
def test_rows_without_weight_are_not_drawn(data, kind):
    exog, endog, _ = data
    weights = np.tile([0.0, 0.5, 2.0], 100)[: endog.size]
    kept = weights > 0.0
    fit = solve(exog, endog, weights=weights)
    options = {"kind": kind, "n_boot": 20, "rng": 0}
    whole = resampled(exog, endog, fit, weights=weights, **options)
    part = resampled(exog[kept], endog[kept], fit, weights=weights[kept], **options)
    assert_allclose(whole.params, part.params, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.CurvatureWarning")
@pytest.mark.parametrize("kind", ["pairs", "parametric", "multiplier"])
def test_a_tau_on_its_bound_in_every_replicate_is_held_as_with_other_covariances(kind):
    rng = np.random.default_rng(2)
    exog = np.column_stack([np.ones(60), rng.normal(size=60)])
    endog = exog @ [1.0, 2.0] + rng.exponential(size=60)
    plain = QuantileHuberMLE(endog, exog, kappa=1.0).fit(reml=False)
    fit = plain.get_robustcov_results("bootstrap", n_boot=20, rng=1, kind=kind)
    assert fit.held_fixed == plain.held_fixed == {"tau": "at bound"}
    assert np.isnan(fit.bse[-1])
    assert np.isnan(fit.tvalues[-1])
    assert (fit.cov_params()[-1] == 0.0).all()
    assert np.isnan(fit.conf_int()[-1]).all()
    assert "(at bound)" in str(fit.summary())
    with pytest.raises(DomainError, match=r"tau is on its bound 0\.999"):
        fit.wald_test("tau = 0.5")


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_a_tau_on_its_bound_that_replicates_leave_keeps_their_spread(data):
    exog, endog, fit = data
    plain = QuantileHuberMLE(endog, exog, tau_bounds=(0.1, fit.tau - 0.01)).fit()
    assert plain.solution.tau_at_bound
    fit = plain.get_robustcov_results("bootstrap", n_boot=40, rng=1)
    replicates = fit._replicates
    assert 0 < replicates.n_at_bound < len(replicates.params)
    assert fit.held_fixed == {}
    assert fit.bse[-1] == pytest.approx(replicates.params[:, -1].std(ddof=1))
