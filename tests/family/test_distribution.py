"""The quantile Huber distribution: tails, quantiles, moments, limits, scipy's own checks."""

import csv
import pathlib
import pickle

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import integrate, stats

from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer, log_normalizer_derivatives

REFERENCE = pathlib.Path(__file__).parents[1] / "reference"
TAUS = [1e-3, 0.1, 0.5, 0.9, 0.999]
KAPPAS = [0.0, 1e-6, 0.05, 1.0, 8.0, 1e4]
SHAPES = [(tau, kappa) for tau in TAUS for kappa in KAPPAS]
MODERATE = [(0.5, 0.0), (0.3, 0.05), (0.7, 1.0), (0.4, 8.0)]


def columns(name):
    with (REFERENCE / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}


# ------------------------------------------------------------------------------ density


@pytest.mark.parametrize(("tau", "kappa"), SHAPES)
def test_density_is_exp_minus_loss_over_c(tau, kappa):
    x = np.array([-30.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 30.0])
    expected = -quantile_huber_loss(x, tau, kappa) - log_normalizer(tau, kappa)
    np.testing.assert_allclose(quantile_huber.logpdf(x, tau, kappa), expected, rtol=1e-14)
    np.testing.assert_allclose(quantile_huber.pdf(x, tau, kappa), np.exp(expected), rtol=1e-13)


def test_location_and_scale_move_and_stretch_the_density():
    expected = quantile_huber.pdf((3.0 - 1.0) / 2.0, 0.3, 1.5) / 2.0
    assert quantile_huber.pdf(3.0, 0.3, 1.5, loc=1.0, scale=2.0) == pytest.approx(expected)


def test_high_tau_means_a_heavy_right_tail():
    assert quantile_huber.sf(5.0, 0.9, 1.0) > 10 * quantile_huber.cdf(-5.0, 0.9, 1.0)
    assert quantile_huber.mean(0.9, 1.0) > 0


# ------------------------------------------------------------------------------ tails


@pytest.mark.parametrize("tail", ["cdf", "sf"])
def test_both_tails_agree_with_quadrature_to_1e_12_down_to_1e_300(tail):
    exact = columns("family_tails.csv")
    assert exact[tail].min() < 1e-298
    result = getattr(quantile_huber, tail)(exact["x"], exact["tau"], exact["kappa"])
    np.testing.assert_allclose(result, exact[tail], rtol=1e-12)


@pytest.mark.parametrize(
    ("log_tail", "tail", "other"), [("logcdf", "cdf", "sf"), ("logsf", "sf", "cdf")]
)
def test_log_tails_agree_with_quadrature_to_1e_12(log_tail, tail, other):
    exact = columns("family_tails.csv")
    exact = {name: column[exact[tail] > 1e-300] for name, column in exact.items()}
    result = getattr(quantile_huber, log_tail)(exact["x"], exact["tau"], exact["kappa"])
    small = exact[tail] < 0.5
    expected = np.where(small, np.log(exact[tail]), np.log1p(-np.minimum(exact[other], 0.5)))
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("tau", "kappa"), SHAPES)
def test_log_tails_stay_finite_where_the_tails_underflow(tau, kappa):
    for sign, slope, log_tail in (
        (-1, tau, quantile_huber.logcdf),
        (1, 1 - tau, quantile_huber.logsf),
    ):
        edge = kappa * slope
        x = sign * (edge + 1e4 / slope)
        expected = quantile_huber.logpdf(x, tau, kappa) - np.log(slope)
        assert expected < -5000
        np.testing.assert_allclose(log_tail(x, tau, kappa), expected, rtol=1e-13)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_one_light_side_keeps_its_digits(kappa):
    # at tau = 1 - 1e-8 almost everything lies right of zero, and cdf is small there too
    x = np.array([1e-3, 1.0, 100.0])
    cdf = quantile_huber.cdf(x, 1 - 1e-8, kappa)
    middle, _ = integrate.quad(quantile_huber.pdf, x[0], x[1], args=(1 - 1e-8, kappa), epsrel=1e-12)
    np.testing.assert_allclose(cdf[1] - cdf[0], middle, rtol=1e-7)
    np.testing.assert_allclose(quantile_huber.logsf(x, 1 - 1e-8, kappa), np.log1p(-cdf), rtol=1e-12)


@pytest.mark.parametrize(("tau", "kappa"), SHAPES)
def test_reflection_exchanges_the_tails(tau, kappa):
    if tau > 0.5:
        tau = 1 - tau  # then 1 - tau is exact both ways
    mirrored = 1 - tau
    x = np.linspace(-20, 20, 41)
    np.testing.assert_allclose(
        quantile_huber.cdf(x, tau, kappa), quantile_huber.sf(-x, mirrored, kappa), rtol=1e-12
    )
    p = np.array([1e-250, 1e-9, 0.2, 0.7])
    np.testing.assert_allclose(
        quantile_huber.ppf(p, tau, kappa), -quantile_huber.isf(p, mirrored, kappa), rtol=1e-12
    )


# ------------------------------------------------------------------------------ quantiles


def spread(tau, kappa):
    """Return points from one far tail to the other, kinks and points inside the zone included."""
    exact = columns("family_tails.csv")
    return exact["x"][(exact["tau"] == tau) & (exact["kappa"] == kappa)]


@pytest.mark.parametrize("which", ["ppf of cdf", "isf of sf"])
@pytest.mark.parametrize(("tau", "kappa"), SHAPES)
def test_quantiles_invert_the_tails(tau, kappa, which):
    law = quantile_huber(tau, kappa)
    tail, inverse = (law.cdf, law.ppf) if which == "ppf of cdf" else (law.sf, law.isf)
    x = spread(tau, kappa)
    p = tail(x)
    inner = (p > 1e-300) & (p < 1.0)
    x, p = x[inner], p[inner]
    assert x.size > 5
    # one rounding of p moves x by eps p / pdf: no inverse can do better
    unavoidable = np.finfo(float).eps * (np.abs(x) + p / law.pdf(x))
    assert np.all(np.abs(inverse(p) - x) <= 4 * unavoidable)


@pytest.mark.parametrize(("tau", "kappa"), SHAPES)
def test_tails_invert_the_quantiles(tau, kappa):
    p = np.array([1e-300, 1e-100, 1e-20, 1e-5, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-12])
    np.testing.assert_allclose(
        quantile_huber.cdf(quantile_huber.ppf(p, tau, kappa), tau, kappa), p, rtol=1e-12
    )
    np.testing.assert_allclose(
        quantile_huber.sf(quantile_huber.isf(p, tau, kappa), tau, kappa), p, rtol=1e-12
    )


@pytest.mark.parametrize(("tau", "kappa"), SHAPES)
def test_quantiles_increase_from_minus_to_plus_infinity(tau, kappa):
    q = np.concatenate([[0.0, 1e-300], np.linspace(1e-6, 1 - 1e-6, 2001), [1.0]])
    x = quantile_huber.ppf(q, tau, kappa)
    assert x[0] == -np.inf
    assert x[-1] == np.inf
    assert np.all(np.diff(x[1:-1]) > 0)
    assert quantile_huber.isf(0.0, tau, kappa) == np.inf
    assert quantile_huber.isf(1.0, tau, kappa) == -np.inf


# ------------------------------------------------------------------------------ moments


def test_moments_and_entropy_agree_with_quadrature():
    exact = columns("family_moments.csv")
    tau, kappa = exact["tau"], exact["kappa"]
    mean, variance, skew, kurtosis = quantile_huber.stats(tau, kappa, moments="mvsk")
    np.testing.assert_allclose(mean, exact["mean"], rtol=1e-13, atol=1e-30)
    np.testing.assert_allclose(variance, exact["variance"], rtol=1e-13)
    np.testing.assert_allclose(skew, exact["skew"], rtol=1e-13, atol=1e-30)
    np.testing.assert_allclose(kurtosis, exact["kurtosis"], rtol=1e-13, atol=1e-30)
    np.testing.assert_allclose(quantile_huber.entropy(tau, kappa), exact["entropy"], rtol=1e-13)
    fifth = quantile_huber._munp(5, tau, kappa)
    np.testing.assert_allclose(fifth / variance**2.5, exact["fifth"] / variance**2.5, atol=1e-12)


@pytest.mark.parametrize(("tau", "kappa"), SHAPES)
def test_raw_moments_agree_with_the_cumulants(tau, kappa):
    mean, variance, skew, kurtosis = quantile_huber.stats(tau, kappa, moments="mvsk")
    deviation = np.sqrt(variance)
    central = [0.0, 1.0, skew, kurtosis + 3.0]
    raw = [float(quantile_huber._munp(n, tau, kappa)) for n in range(1, 5)]
    m = mean / deviation
    expected = [
        m,
        1.0 + m**2,
        central[2] + 3 * m + m**3,
        central[3] + 4 * m * central[2] + 6 * m**2 + m**4,
    ]
    scaled = [moment / deviation**n for n, moment in enumerate(raw, start=1)]
    np.testing.assert_allclose(scaled, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("tau", "kappa"), MODERATE)
def test_cumulant_generating_function_is_the_normal_one_plus_a_shift_in_tau(tau, kappa):
    for h in (-0.6 * tau, -0.1 * tau, 0.2 * (1 - tau), 0.7 * (1 - tau)):
        mgf = quantile_huber.expect(lambda x, h=h: np.exp(h * x), args=(tau, kappa))
        shift = log_normalizer(tau + h, kappa) - log_normalizer(tau, kappa)
        np.testing.assert_allclose(np.log(mgf), kappa * h**2 / 2 + shift, rtol=1e-9)


@pytest.mark.parametrize(("tau", "kappa"), MODERATE)
def test_biconvexity_margin_is_the_variance_minus_twice_kappa(tau, kappa):
    margin = log_normalizer_derivatives(tau, kappa).d2_tau - kappa
    np.testing.assert_allclose(quantile_huber.var(tau, kappa) - 2 * kappa, margin, rtol=1e-12)


@pytest.mark.parametrize(("tau", "kappa"), [*SHAPES, (0.5, 1e8), (1e-6, 1.0)])
def test_expect_agrees_with_the_closed_forms(tau, kappa):
    law = quantile_huber(tau, kappa, loc=2.0, scale=3.0)
    deviation = law.std()
    standard = law.expect(lambda x: (x - 2.0) / deviation)
    np.testing.assert_allclose(standard, (law.mean() - 2.0) / deviation, rtol=1e-9, atol=1e-9)
    square = law.expect(lambda x: ((x - law.mean()) / deviation) ** 2)
    np.testing.assert_allclose(square, 1.0, rtol=1e-9)
    np.testing.assert_allclose(law.expect(lambda _: 1.0), 1.0, rtol=1e-12)


def test_expect_between_bounds_is_the_probability_between_them():
    for bounds in ((-1.0, 2.0), (0.5, np.inf), (-np.inf, -3.0), (40.0, 60.0), (-60.0, -40.0)):
        law = quantile_huber(0.3, 1.0)
        low, high = bounds
        inside = law.cdf(high) - law.cdf(low) if high <= 0 else law.sf(low) - law.sf(high)
        result = law.expect(lambda _: 1.0, lb=low, ub=high, epsabs=0.0)
        np.testing.assert_allclose(result, inside, rtol=1e-9)
        conditional = law.expect(lambda _: 1.0, lb=low, ub=high, conditional=True, epsabs=0.0)
        np.testing.assert_allclose(conditional, 1.0, rtol=1e-9)


def test_expect_of_the_identity_is_the_mean():
    np.testing.assert_allclose(
        quantile_huber.expect(args=(0.3, 1.0)), quantile_huber.mean(0.3, 1.0), rtol=1e-12
    )


# ------------------------------------------------------------------------------ relatives


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5, 0.8, 0.99])
def test_kappa_zero_is_the_asymmetric_laplace_of_scipy(tau):
    asymmetry, scale = np.sqrt((1 - tau) / tau), 2.0
    ours = quantile_huber(tau, 0.0, loc=1.0, scale=scale)
    theirs = stats.laplace_asymmetric(asymmetry, loc=1.0, scale=scale / np.sqrt(tau * (1 - tau)))
    x, p = np.linspace(-40, 40, 81), np.array([1e-200, 1e-5, 0.1, 0.5, 0.9])
    for method in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"):
        np.testing.assert_allclose(
            getattr(ours, method)(x), getattr(theirs, method)(x), rtol=1e-10, atol=1e-300
        )
    np.testing.assert_allclose(ours.ppf(p), theirs.ppf(p), rtol=1e-10)
    np.testing.assert_allclose(ours.isf(p), theirs.isf(p), rtol=1e-10)
    np.testing.assert_allclose(ours.stats("mvsk"), theirs.stats("mvsk"), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.entropy(), theirs.entropy(), rtol=1e-12)


def test_kappa_zero_is_the_asymmetric_laplace_of_vgam():
    theirs = columns("family_vgam.csv")
    tau = 1 - theirs["tau"]
    np.testing.assert_allclose(theirs["kappa"], np.sqrt((1 - tau) / tau), rtol=1e-15)
    scale = theirs["scale"] / np.sqrt(2 / (tau * (1 - tau)))
    for method in ("pdf", "cdf"):
        ours = getattr(quantile_huber, method)(theirs["x"], tau, 0.0, scale=scale)
        np.testing.assert_allclose(ours, theirs[method], rtol=1e-12)


def test_location_is_the_one_minus_tau_quantile_only_at_kappa_zero():
    for tau in (0.1, 0.4, 0.8):
        assert quantile_huber.cdf(0.0, tau, 0.0) == pytest.approx(1 - tau, rel=1e-15)
        assert abs(quantile_huber.cdf(0.0, tau, 1.0) - (1 - tau)) > 0.005


def test_quantreg_at_one_minus_tau_finds_the_location_at_kappa_zero():
    y = quantile_huber.rvs(0.8, 0.0, loc=5.0, size=20_001, random_state=7)
    fit = sm.QuantReg(y, np.ones((y.size, 1))).fit(q=1 - 0.8)
    assert fit.params[0] == pytest.approx(5.0, abs=0.1)
    wrong = sm.QuantReg(y, np.ones((y.size, 1))).fit(q=0.8)
    assert abs(wrong.params[0] - 5.0) > 5.0


def test_large_kappa_at_one_half_is_normal():
    kappa = 1e4
    ours, normal = quantile_huber(0.5, kappa), stats.norm(scale=np.sqrt(kappa))
    x = np.linspace(-3000, 3000, 61)
    for method in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"):
        np.testing.assert_allclose(getattr(ours, method)(x), getattr(normal, method)(x), rtol=1e-12)
    p = np.array([1e-200, 1e-6, 0.3, 0.5, 0.99])
    np.testing.assert_allclose(ours.ppf(p), normal.ppf(p), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.stats("mvsk"), normal.stats("mvsk"), rtol=1e-12, atol=1e-12)


def test_normal_limit_is_approached_as_kappa_grows():
    x = np.linspace(-4, 4, 81)
    gaps = []
    for kappa in (4.0, 16.0, 64.0):
        ours = quantile_huber.cdf(x * np.sqrt(kappa), 0.5, kappa)
        gaps.append(np.abs(ours - stats.norm.cdf(x)).max())
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


# ------------------------------------------------------------------------------ scipy's rules


@pytest.mark.parametrize(
    ("tau", "kappa"),
    [(0.0, 1.0), (1.0, 1.0), (-0.1, 1.0), (np.nan, 1.0), (0.5, -1.0), (0.5, np.inf), (0.5, np.nan)],
)
def test_bad_shapes_give_nan(tau, kappa):
    for method in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        assert np.isnan(getattr(quantile_huber, method)(0.3, tau, kappa))
    assert np.all(np.isnan(quantile_huber.stats(tau, kappa, moments="mvsk")))
    assert np.isnan(quantile_huber.entropy(tau, kappa))
    mixed = quantile_huber.cdf([0.3, 0.3], [0.5, tau], [1.0, kappa])
    np.testing.assert_array_equal(np.isnan(mixed), [False, True])


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_bad_scales_give_nan(scale):
    with np.errstate(divide="ignore"):  # scipy divides by the scale before it looks at it
        assert np.isnan(quantile_huber.cdf(0.3, 0.5, 1.0, scale=scale))


def test_shapes_broadcast_against_points():
    x, tau, kappa = np.linspace(-2, 2, 5), np.array([[0.2], [0.7]]), np.array([[[0.0]], [[1.5]]])
    for method in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"):
        result = getattr(quantile_huber, method)(x, tau, kappa)
        assert result.shape == (2, 2, 5)
        for i, j, k in np.ndindex(2, 2, 5):
            alone = getattr(quantile_huber, method)(x[k], tau[j, 0], kappa[i, 0, 0])
            np.testing.assert_allclose(result[i, j, k], alone, rtol=1e-14)
    assert quantile_huber.cdf(0.3, [0.4, 0.4, 0.4], 1.0).shape == (3,)
    assert quantile_huber.mean([0.4, 0.4, 0.4], 1.0).shape == (3,)


def test_points_at_infinity_and_nan_follow_scipy():
    law = quantile_huber(0.3, 1.0)
    np.testing.assert_array_equal(law.cdf([-np.inf, np.inf]), [0.0, 1.0])
    np.testing.assert_array_equal(law.sf([-np.inf, np.inf]), [1.0, 0.0])
    np.testing.assert_array_equal(law.pdf([-np.inf, np.inf]), [0.0, 0.0])
    assert np.isnan(law.cdf(np.nan))
    assert np.isnan(law.pdf(np.nan))


@pytest.mark.parametrize("tau", [0.001, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("kappa", [0.0, 1e-6, 0.05, 4.0, 100.0, 1e6])
def test_crps_is_the_integral_of_the_squared_difference_of_the_cdfs(tau, kappa):
    law = quantile_huber(tau, kappa)
    for x in (-30.0, -0.2, 0.0, 2.0, 50.0):
        low, high = min(law.ppf(1e-14), x) - 1.0, max(law.isf(1e-14), x) + 1.0
        kinks = [-kappa * tau, 0.0, kappa * (1.0 - tau), x]
        edges = np.unique(np.clip([*np.linspace(low, high, 40), *kinks], low, high))
        nodes, weights = np.polynomial.legendre.leggauss(40)
        half = 0.5 * np.diff(edges)[:, None]
        z = edges[:-1, None] + half * (nodes + 1.0)
        integral = float(np.sum(half * weights * np.where(z < x, law.cdf(z), law.sf(z)) ** 2))
        assert quantile_huber.crps(x, tau, kappa) == pytest.approx(integral, rel=1e-8)


def test_crps_has_the_units_of_the_response_and_broadcasts():
    x, loc = np.array([1.0, 4.0]), np.array([[0.0], [1.0], [2.0]])
    scores = quantile_huber.crps(x, 0.3, 1.0, loc=loc, scale=2.0)
    assert scores.shape == (3, 2)
    np.testing.assert_allclose(scores, 2.0 * quantile_huber.crps((x - loc) / 2.0, 0.3, 1.0))
    np.testing.assert_allclose(
        quantile_huber.crps(x, 0.3, 1.0), quantile_huber.crps(-x, 0.7, 1.0), rtol=1e-12
    )
    assert np.isnan(quantile_huber.crps(0.0, 1.5, 1.0))
    assert np.isnan(quantile_huber.crps(0.0, 0.5, 1.0, scale=-1.0))


@pytest.mark.parametrize(("tau", "kappa"), [*MODERATE, (0.999, 1.0)])
def test_samples_follow_the_distribution(tau, kappa):
    law = quantile_huber(tau, kappa, loc=1.0, scale=2.0)
    sample = law.rvs(size=20_000, random_state=np.random.default_rng(5))
    assert stats.kstest(sample, law.cdf).pvalue > 1e-3
    again = law.rvs(size=20_000, random_state=np.random.default_rng(5))
    np.testing.assert_array_equal(sample, again)


def test_sampling_leaves_the_global_random_state_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    quantile_huber.rvs(0.3, 1.0, size=10, random_state=3)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_distribution_and_frozen_distribution_survive_pickling():
    for law in (quantile_huber(0.3, 1.5, loc=1.0, scale=2.0), quantile_huber(tau=0.3, kappa=1.5)):
        copy = pickle.loads(pickle.dumps(law))
        np.testing.assert_array_equal(copy.cdf([-1.0, 2.0]), law.cdf([-1.0, 2.0]))
    copy = pickle.loads(pickle.dumps(quantile_huber))
    assert copy.mean(0.3, 1.5) == quantile_huber.mean(0.3, 1.5)


@pytest.mark.parametrize(("tau", "kappa"), MODERATE)
def test_the_generic_checks_of_scipy_pass(tau, kappa):
    common = pytest.importorskip("scipy.stats.tests.common_tests")
    shapes = (tau, kappa)
    methods = [getattr(quantile_huber, m) for m in ("pdf", "logpdf", "cdf", "logcdf", "logsf")]
    mean, variance, skew, kurtosis = quantile_huber.stats(*shapes, moments="mvsk")
    common.check_normalization(quantile_huber, shapes, "quantile_huber")
    common.check_moment(quantile_huber, shapes, mean, variance, "quantile_huber")
    common.check_mean_expect(quantile_huber, shapes, mean, "quantile_huber")
    common.check_var_expect(quantile_huber, shapes, mean, variance, "quantile_huber")
    common.check_skew_expect(quantile_huber, shapes, mean, variance, skew, "quantile_huber")
    common.check_kurt_expect(quantile_huber, shapes, mean, variance, kurtosis, "quantile_huber")
    common.check_munp_expect(quantile_huber, shapes, "quantile_huber")
    common.check_entropy(quantile_huber, shapes, "quantile_huber")
    common.check_private_entropy(quantile_huber, shapes, stats.rv_continuous)
    with np.errstate(invalid="ignore"):  # the check asks for scale = -3
        common.check_entropy_vect_scale(quantile_huber, shapes)
    common.check_named_args(quantile_huber, 0.5, shapes, (0, 1), methods)
    common.check_random_state_property(quantile_huber, shapes)
    common.check_pickling(quantile_huber, shapes)
    common.check_freezing(quantile_huber, shapes)
    common.check_edge_support(quantile_huber, shapes)
    common.check_meth_dtype(quantile_huber, shapes, methods)
    common.check_ppf_dtype(quantile_huber, shapes)


@pytest.mark.parametrize(("tau", "kappa"), MODERATE)
def test_private_and_public_methods_agree_with_one_another(tau, kappa):
    x = quantile_huber.ppf([0.001, 0.25, 0.5, 0.75, 0.999], tau, kappa)
    cdf, sf = quantile_huber.cdf(x, tau, kappa), quantile_huber.sf(x, tau, kappa)
    np.testing.assert_allclose(cdf, [0.001, 0.25, 0.5, 0.75, 0.999], rtol=1e-13)
    np.testing.assert_allclose(cdf + sf, 1.0, rtol=1e-15)
    np.testing.assert_allclose(np.log(cdf), quantile_huber.logcdf(x, tau, kappa), rtol=1e-12)
    np.testing.assert_allclose(np.log(sf), quantile_huber.logsf(x, tau, kappa), rtol=1e-12)
    np.testing.assert_allclose(quantile_huber.isf(sf, tau, kappa), x, rtol=1e-12, atol=1e-14)
    step = 1e-5
    slope = quantile_huber.cdf(x + step, tau, kappa) - quantile_huber.cdf(x - step, tau, kappa)
    np.testing.assert_allclose(slope / (2 * step), quantile_huber.pdf(x, tau, kappa), rtol=1e-5)
    assert quantile_huber.support(tau, kappa) == (-np.inf, np.inf)


# ------------------------------------------------------------------------------ fitting


def test_the_fit_method_beats_the_truth_on_the_sample():
    sample = quantile_huber.rvs(0.9, 1.0, loc=3.0, scale=2.0, size=2000, random_state=3)
    fitted = quantile_huber.fit(sample)
    assert quantile_huber.nnlf(fitted, sample) < quantile_huber.nnlf((0.9, 1.0, 3.0, 2.0), sample)
    assert fitted[0] == pytest.approx(0.9, abs=0.03)


def test_the_fit_method_keeps_fixed_shapes():
    sample = quantile_huber.rvs(0.7, 0.0, loc=3.0, scale=2.0, size=2000, random_state=3)
    tau, kappa, loc, scale = quantile_huber.fit(sample, fkappa=0.0)
    assert kappa == 0.0
    assert (tau, loc, scale) == pytest.approx((0.7, 3.0, 2.0), abs=0.2)


def test_scipy_fit_takes_it():
    sample = quantile_huber.rvs(0.8, 1.0, loc=3.0, scale=2.0, size=300, random_state=1)
    bounds = {"tau": (0.01, 0.99), "kappa": (0.0, 20.0), "loc": (-10, 10), "scale": (0.1, 20)}
    result = stats.fit(quantile_huber, sample, bounds=bounds)
    assert result.success
    truth = quantile_huber.nnlf((0.8, 1.0, 3.0, 2.0), sample)
    assert result.nllf() < truth
    assert result.params.tau == pytest.approx(0.8, abs=0.1)


@pytest.mark.slow
def test_goodness_of_fit_takes_it():
    sample = quantile_huber.rvs(0.8, 1.0, loc=3.0, scale=2.0, size=100, random_state=1)
    arguments = {
        "known_params": {"kappa": 1.0},
        "guessed_params": {"tau": 0.7, "loc": 3.0, "scale": 2.0},
        "n_mc_samples": 19,
    }
    good = stats.goodness_of_fit(quantile_huber, sample, rng=np.random.default_rng(1), **arguments)
    assert good.pvalue > 0.05
    bimodal = np.concatenate([sample, sample + 200.0])
    bad = stats.goodness_of_fit(quantile_huber, bimodal, rng=np.random.default_rng(1), **arguments)
    assert bad.pvalue <= 0.05
