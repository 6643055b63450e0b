"""Certificates: enclosures against mpmath, the theorem behind them, verdicts that are proved."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize

from qhreg.certificate import (
    KAPPA_STAR,
    biconvexity_certificate,
    critical_kappa,
    data_certificate,
    joint_indefiniteness_witness,
)
from qhreg.certificate import biconvexity as engine
from qhreg.certificate.biconvexity import (
    curvature,
    curvature_at_half,
    curvature_second_derivative,
    end_bound,
    interval_context,
    lower,
    scaled_half,
    upper,
)
from qhreg.exceptions import DataError, DomainError, QhregError
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer, log_normalizer_derivatives

MP = mpmath.mp.clone()
MP.dps = 50
KAPPA_STAR_40 = "4.630913775254134286677582876816719400485"

taus = st.floats(1e-6, 0.5)
kappas = st.one_of(st.just(0.0), st.floats(1e-6, 1e3))


def log_c(tau, kappa):
    """The textbook form of log c, at the digits of MP."""
    kappa, root = MP.mpf(kappa), MP.sqrt(kappa)
    tails = sum(MP.exp(-kappa * t * t / 2) / t for t in (tau, 1 - tau))
    return MP.log(
        tails + MP.sqrt(2 * MP.pi) * root * (MP.ncdf((1 - tau) * root) - MP.ncdf(-tau * root))
    )


def derivative(tau, kappa, order):
    with MP.workdps(150):  # numeric differentiation loses digits that tiny derivatives need
        return MP.diff(lambda t: log_c(t, kappa), MP.mpf(tau), order)


def exact_d(x):
    x = MP.mpf(x)
    return 1 + MP.sqrt(MP.pi * x / 2) * MP.exp(x / 2) * MP.erf(MP.sqrt(x / 2))


# --- enclosures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0, 1e-9, 0.3, 1, 7, 60, 119.999, 120, 121, 500, 5000])
@pytest.mark.parametrize("precision", [53, 100])
def test_scaled_half_encloses_its_closed_form_tightly(x, precision):
    iv = interval_context(precision)
    enclosure = scaled_half(iv.mpf(x), iv)
    exact = exact_d(x)
    assert MP.mpf(enclosure.a) <= exact <= MP.mpf(enclosure.b)
    assert MP.mpf(enclosure.delta) / exact < 2.0 ** (10 - precision) * max(1, x)


def test_scaled_half_encloses_its_values_over_an_interval():
    iv = interval_context(53)
    for low, high in [(0, 0.5), (1, 3), (119, 121), (200, 230)]:
        enclosure = scaled_half(iv.mpf([low, high]), iv)
        for x in np.linspace(low, high, 7):
            assert MP.mpf(enclosure.a) <= exact_d(x) <= MP.mpf(enclosure.b)


@pytest.mark.parametrize("kappa", [0.0, 0.1, 1.0, 4.5, 8.0, 60.0, 900.0])
@pytest.mark.parametrize("tau", [0.001, 0.1, 0.3, 0.45, 0.5, 0.8])
def test_curvature_encloses_the_second_derivative_of_log_c(tau, kappa):
    iv = interval_context(80)
    enclosure = curvature(iv.mpf(tau), iv.mpf(kappa), iv)
    exact = derivative(tau, kappa, 2)
    assert MP.mpf(enclosure.a) * (1 - MP.mpf(10) ** -20) <= exact
    assert exact <= MP.mpf(enclosure.b) * (1 + MP.mpf(10) ** -20)
    assert_allclose(float(enclosure.mid), float(exact), rtol=1e-14)


def test_log_c_of_these_tests_is_the_log_of_the_integral_of_the_density():
    for tau, kappa in [(0.3, 2.0), (0.1, 0.5)]:
        edges = [-MP.inf, -kappa * tau, kappa * (1 - tau), MP.inf]

        def density(r, tau=tau, kappa=kappa):
            slope = min(max(r / kappa, -tau), 1 - tau)
            return MP.exp(-(r * slope - kappa * slope**2 / 2))

        assert abs(MP.log(MP.quad(density, edges)) - log_c(MP.mpf(tau), kappa)) < 1e-15


@pytest.mark.parametrize("kappa", [0.0, 1.0, 4.63, 20.0])
@pytest.mark.parametrize("tau", [0.1, 0.3, 0.45, 0.7])
def test_second_derivative_of_the_curvature_encloses_the_fourth_of_log_c(tau, kappa):
    iv = interval_context(80)
    enclosure = curvature_second_derivative(iv.mpf(tau), iv.mpf(kappa), iv)
    assert_allclose(float(enclosure.mid), float(derivative(tau, kappa, 4)), rtol=1e-13)
    assert float(enclosure.delta) < 1e-15 * abs(float(enclosure.mid))


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 0.99), st.floats(0, 0.2), st.floats(0, 1), st.floats(0, 200))
def test_an_enclosure_over_an_interval_contains_the_values_inside(left, width, position, kappa):
    iv = interval_context(53)
    right = min(left + width, 0.995)
    inner = iv.mpf(min(left + position * (right - left), right))
    box, k = iv.mpf([left, right]), iv.mpf(kappa)
    for enclose in (curvature, curvature_second_derivative):
        wide, narrow = enclose(box, k, iv), enclose(inner, k, iv)
        assert wide.a <= narrow.b
        assert narrow.a <= wide.b


def test_curvature_at_half_is_the_general_formula_there():
    iv = interval_context(120)
    for kappa in (0.0, 0.5, 3.0, 100.0, 5000.0):
        special, general = (
            curvature_at_half(iv.mpf(kappa), iv),
            curvature(iv.mpf(0.5), iv.mpf(kappa), iv),
        )
        assert abs(special.mid / general.mid - 1).b < 1e-30


@settings(max_examples=150, deadline=None)
@given(taus, st.floats(0, 1))
def test_curvature_exceeds_the_bound_at_the_ends(tau, x):
    kappa = x / tau**2
    iv = interval_context(80)
    bound = end_bound(iv.mpf(tau), iv.mpf(kappa))
    assert curvature(iv.mpf(tau), iv.mpf(kappa), iv).b >= bound.a
    if (iv.mpf(kappa) * tau * tau).b <= 1:
        assert curvature(iv.mpf(tau), iv.mpf(kappa), iv).a > bound.b


@pytest.mark.parametrize("numerator", [1, 2, 3, 5, 7, 10])
def test_floats_from_an_interval_lie_on_the_safe_side(numerator):
    iv = interval_context(96)
    for sign in (-1, 1):
        exact = Fraction(sign * numerator, 9)
        enclosure = iv.mpf(sign * numerator) / 9
        assert Fraction(lower(enclosure)) < exact < Fraction(upper(enclosure))
        assert upper(enclosure) - lower(enclosure) < 1e-15


def test_interval_contexts_are_private():
    before = mpmath.iv.prec, mpmath.mp.prec
    biconvexity_certificate(2.3456)
    critical_kappa(60)
    assert (mpmath.iv.prec, mpmath.mp.prec) == before


# --- the theorem: (log c)'' falls on (0, 1/2) for every kappa -------------------------------------


def test_curvature_falls_strictly_towards_one_half_for_every_width():
    iv = interval_context(160)
    grid = [*np.geomspace(1e-6, 0.1, 12), *np.linspace(0.12, 0.48, 13), 0.499, 0.49999, 0.5]
    for kappa in [0.0, *np.geomspace(1e-8, 1e6, 29)]:
        values = [curvature(iv.mpf(float(t)), iv.mpf(float(kappa)), iv) for t in grid]
        assert all(left.a > right.b for left, right in itertools.pairwise(values))


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-3, 1 - 1e-3), st.floats(0, 1e4))
def test_each_step_of_the_proof_of_monotonicity_holds(v, y):
    """v = tau / (1 - tau), y = kappa (1 - tau)^2: the chain of (QH-33)."""
    v, y = MP.mpf(v), MP.mpf(y)
    x = v * v * y
    decay = MP.exp(-(y - x) / 2)
    w = v * v * decay
    mu = 1 / (exact_d(x) + w / v * exact_d(y))
    cubic = (
        2 * (1 - w) ** 3 * mu**2
        - 3 * (1 - w) * (x + 2 + w * v * (y + 2)) * mu
        + (x * x + 3 * x + 6)
        - w * v * v * (y * y + 3 * y + 6)
    )
    regrouped = (
        3 * (1 - w) * ((x + 2) * (1 - mu) - mu * w * v * (y + 2))
        + v**4 * y * y * (1 - decay)
        + 6 * w * (1 - v * v)
        + 2 * (1 - w) ** 3 * mu**2
    )
    assert abs(cubic - regrouped) <= 1e-40 * (1 + abs(cubic) + y * y)
    assert 1 - mu >= mu * (x + w / v * (1 + y)) * (1 - MP.mpf(10) ** -40)
    assert (x + 2) * (x + w / v * (1 + y)) >= w * v * (y + 2)
    assert cubic > 0
    # and the cubic is the third derivative of log c, up to a positive factor
    s = 1 / (1 + v)
    if 0.01 < v < 0.99 and y < 50:
        third = derivative(v * s, y / s**2, 3)
        assert abs(third + cubic * mu / (v * s) ** 3) <= 1e-25 * (1 + abs(third))


@pytest.mark.parametrize("kappa", [0.0, 0.01, 1.0, 4.6, 8.0, 50.0, 500.0, 5000.0])
def test_minimum_is_the_global_one_found_by_search(kappa):
    certificate = biconvexity_certificate(kappa)

    def bend(tau):
        return float(log_normalizer_derivatives(float(tau), kappa).d2_tau)

    coarse = np.linspace(1e-3, 1 - 1e-3, 2001)
    best = coarse[np.argmin([bend(t) for t in coarse])]
    found = optimize.minimize_scalar(
        bend, bounds=(best - 1e-3, best + 1e-3), method="bounded", options={"xatol": 1e-10}
    )
    assert_allclose(certificate.min_curvature, found.fun, rtol=1e-9)
    assert_allclose(certificate.argmin_tau, found.x, atol=1e-3)


# --- the certificate ------------------------------------------------------------------------------


def test_minimum_curvature_goes_from_eight_to_six_as_the_paper_found():
    assert biconvexity_certificate(0).min_curvature == 8.0
    assert biconvexity_certificate(0).margin == 8.0
    assert_allclose(biconvexity_certificate(1).margin, 6.0760, atol=5e-5)
    exact = derivative(0.5, 1, 2)
    assert_allclose(biconvexity_certificate(1).min_curvature, float(exact), rtol=1e-15)


@pytest.mark.parametrize(
    "kappa", [0.0, 1e-300, 0.05, 1.0, 1.65, 1.7, 3.0, 4.0, 4.6309, 4.630913775]
)
def test_certificate_holds_below_the_critical_width(kappa):
    certificate = biconvexity_certificate(kappa)
    assert certificate.holds
    assert certificate.status == "proved"
    assert certificate.margin > 0
    assert certificate.argmin_tau == 0.5
    assert certificate.kappa == kappa


@pytest.mark.parametrize("kappa", [4.630913776, 4.7, 5.6, 5.7, 8.0, 1e3, 1e6, 1e300])
def test_certificate_is_refuted_above_the_critical_width(kappa):
    certificate = biconvexity_certificate(kappa)
    assert not certificate.holds
    assert certificate.status == "refuted"
    assert certificate.margin < 0
    if kappa < 1e4:
        assert derivative(certificate.argmin_tau, kappa, 2) < kappa


def test_the_floats_next_to_the_critical_width_are_told_apart():
    exact = MP.mpf(KAPPA_STAR_40)
    for steps in range(-3, 4):
        kappa = KAPPA_STAR
        for _ in range(abs(steps)):
            kappa = math.nextafter(kappa, math.copysign(math.inf, steps))
        certificate = biconvexity_certificate(kappa)
        assert certificate.holds == (MP.mpf(kappa) < exact)
        assert certificate.holds == (certificate.margin > 0)


def test_without_enough_precision_the_certificate_says_undecided():
    certificate = engine._certify(KAPPA_STAR, precisions=(20,))
    assert certificate.status == "undecided"
    assert not certificate.holds
    assert "undecided" in str(certificate)


def test_min_curvature_reads_zero_only_where_floats_end():
    assert biconvexity_certificate(5999.0).min_curvature > 0
    assert biconvexity_certificate(6000.0).min_curvature == 0


def test_the_closed_bound_alone_covers_small_widths_and_cells_the_others():
    assert biconvexity_certificate(1.65).cells == 0  # 4 (sqrt 2 - 1) = 1.6568...
    assert biconvexity_certificate(1.66).cells > 0
    assert 0 < biconvexity_certificate(4.6).cells < 40


def test_bisection_gives_up_on_what_is_false():
    assert engine._bisect(curvature, 8.0 + 1e-9, (0.4, 0.5), 0.0) is None
    assert engine._bisect(curvature, 7.9, (0.4, 0.5), 0.0) > 0
    assert engine._prove_for_every_tau(6.0) is None  # (log c)''(0.4) < 6 there


@pytest.mark.parametrize("kappa", [0.0, 1.0, 2.0, 4.6, 100.0, 1e6])
def test_the_end_width_is_where_the_bound_meets_kappa(kappa):
    width = engine.end_width(kappa, interval_context(53))
    assert 0 < width <= 0.5
    assert kappa * width**2 <= 1
    assert 1 / (width**2 * (1 + (2 + kappa / 2) * width)) > kappa
    if width < 0.5:
        wider = 1.001 * width
        assert 1 / (wider**2 * (1 + (2 + kappa / 2) * wider)) < kappa


def test_asking_twice_returns_the_kept_certificate():
    assert biconvexity_certificate(2.5) is biconvexity_certificate(np.float64(2.5))


def test_critical_width_has_the_forty_digits_known():
    assert str(critical_kappa(40)) == KAPPA_STAR_40
    assert str(critical_kappa(5)) == "4.6309"
    assert float(critical_kappa(40)) == KAPPA_STAR
    assert biconvexity_certificate.kappa_max == KAPPA_STAR


def test_critical_width_solves_curvature_equal_to_kappa():
    kappa = MP.mpf(str(critical_kappa(45)))
    assert abs(derivative(0.5, kappa, 2) - kappa) < 1e-20
    lhs = MP.sqrt(2 * MP.pi * kappa**3) * MP.exp(kappa / 8) * MP.erf(MP.sqrt(kappa / 8))
    assert abs(lhs - 32) < MP.mpf(10) ** -40


def test_a_wrong_critical_width_does_not_pass_its_verification():
    with pytest.raises(QhregError, match="could not be verified"):
        engine._check_bracket(MP.mpf(KAPPA_STAR_40) + MP.mpf(10) ** -18, 20)


def test_certificate_reads_as_text_and_as_html():
    text = str(biconvexity_certificate(1.0))
    assert "7.07595 at tau = 0.5" in text
    assert "yes, proved for every tau in (0, 1)" in text
    page = biconvexity_certificate(8.0)._repr_html_()
    assert page.startswith("<table>")
    assert "(log c)&#x27;&#x27; &lt; kappa is proved at tau = 0.5" in page


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "one", None, [1.0, 2.0]])
def test_kappa_outside_its_domain_is_an_error_that_says_so(bad):
    with pytest.raises(DomainError, match="kappa"):
        biconvexity_certificate(bad)


# --- given residuals ------------------------------------------------------------------------------


def second_derivative(u, tau, kappa, weights=None):
    weights = np.ones_like(u) if weights is None else weights
    tau = np.asarray(tau)[..., None]
    outside = (u < -kappa * tau) | (u > kappa * (1 - tau))
    bend = log_normalizer_derivatives(tau[..., 0], np.full(tau[..., 0].shape, kappa)).d2_tau
    return bend - kappa * (outside @ weights) / weights.sum()


def random_case(seed):
    rng = np.random.default_rng(seed)
    n, kappa = int(rng.integers(1, 40)), float(np.exp(rng.uniform(np.log(4), np.log(200))))
    u = kappa * (rng.uniform(0.05, 0.8) * rng.standard_normal(n) + 0.1 * rng.standard_normal())
    bounds = tuple(np.sort(rng.uniform(0, 1, 2))) if seed % 3 else (0.0, 1.0)
    weights = rng.uniform(0, 3, n) if seed % 2 else None
    return u, kappa, bounds, weights


def test_verdicts_for_residuals_agree_with_a_dense_grid():
    seen = {"proved": 0, "refuted": 0}
    for seed in range(120):
        u, kappa, bounds, weights = random_case(seed)
        certificate = data_certificate(u, kappa, bounds, weights)
        seen[certificate.status] += 1
        grid = np.linspace(*bounds, 4003)[1:-1]
        values = second_derivative(u, grid, kappa, weights)
        assert certificate.margin <= values.min() + 1e-12
        assert bounds[0] <= certificate.argmin_tau <= bounds[1]
        if certificate.holds:
            assert values.min() > 0
            assert certificate.witness_tau is None
        else:
            assert bounds[0] < certificate.witness_tau < bounds[1]
            assert second_derivative(u, certificate.witness_tau, kappa, weights) < 0
    assert min(seen.values()) > 20


def test_residuals_on_either_side_of_the_zone_count_alike():
    kappa = 8.0
    allowed = biconvexity_certificate(kappa).min_curvature / kappa
    for right, left in [(10, 10), (39, 0), (40, 0), (0, 40), (25, 20)]:
        u = np.concatenate([np.full(right, 1e3), np.full(left, -1e3), np.zeros(100 - right - left)])
        expected = (right + left) / 100 < allowed
        assert data_certificate(u, kappa).holds == expected
        assert data_certificate(u, kappa, (0.0, 0.5)).holds == expected


def test_a_residual_one_float_beyond_the_edge_is_outside():
    """40 of 100 are too many at kappa = 8; they are outside on a sliver left of 1/2 only."""
    u = np.zeros(100)
    u[:40] = 4.0
    assert data_certificate(u, 8.0, (0.0, 0.5)).holds
    u[:40] = math.nextafter(4.0, 5.0)
    assert not data_certificate(u, 8.0, (0.0, 0.5)).holds


def test_margin_for_residuals_is_the_infimum_of_the_second_derivative():
    for seed in range(40):
        u, kappa, bounds, weights = random_case(seed)
        certificate = data_certificate(u, kappa, bounds, weights)
        steps = certificate.argmin_tau + np.array([-1e-9, 1e-9])
        inside = steps[(steps > bounds[0]) & (steps < bounds[1])]
        values = second_derivative(u, inside, kappa, weights)
        assert_allclose(values.min(), certificate.margin, rtol=1e-6, atol=1e-6)


def test_the_verdict_changes_where_the_objective_stops_being_convex():
    """One residual leaves the zone at tau = 1/2 when it passes kappa / 2; it may if n is large."""
    kappa = 8.0
    allowed = biconvexity_certificate(kappa).min_curvature / kappa  # 0.3952 of the residuals
    for n, beyond in [(100, 39), (100, 40), (1000, 395), (1000, 396)]:
        u = np.zeros(n)
        u[:beyond] = 1.01 * kappa
        assert data_certificate(u, kappa).holds == (beyond / n < allowed)


def test_convexity_for_residuals_is_seen_in_the_objective_itself():
    kappa, grid = 8.0, np.linspace(0.3, 0.7, 401)
    for spread, convex in [(1.0, True), (8.0, False)]:
        u = spread * np.linspace(-3, 3, 61)
        total = np.array(
            [
                u.size * log_normalizer(t, kappa) + quantile_huber_loss(u, t, kappa).sum()
                for t in grid
            ]
        )
        assert (np.diff(total, 2).min() > 0) == convex
        assert data_certificate(u, kappa, (0.3, 0.7)).holds == convex


def test_every_residual_far_outside_gives_the_certificate_without_data():
    for kappa in (0.0, 0.5, 4.0, 4.7, 20.0):
        certificate = data_certificate(np.array([-1e9, 1e9, 1e300]), kappa)
        assert certificate.holds == biconvexity_certificate(kappa).holds
        assert_allclose(certificate.margin, biconvexity_certificate(kappa).margin, rtol=1e-12)
        assert certificate.outside == 1.0


def test_residuals_at_zero_are_convex_for_every_width():
    for kappa in (0.0, 10.0, 1e3, 1e6, 1e300):
        assert data_certificate([0.0, 0.0], kappa).holds
    assert data_certificate([0.0, 6e5], 1e6).status == "refuted"


def test_reflection_of_residuals_reflects_tau():
    for seed in range(30):
        u, kappa, (low, high), weights = random_case(seed)
        one = data_certificate(u, kappa, (low, high), weights)
        other = data_certificate(-u, kappa, (1 - high, 1 - low), weights)
        assert one.status == other.status
        assert_allclose(one.margin, other.margin, rtol=1e-9, atol=1e-12)


def test_integer_weights_are_repeated_residuals():
    rng = np.random.default_rng(5)
    u, times = 3 * rng.standard_normal(30), rng.integers(0, 4, 30)
    for kappa in (5.0, 8.0, 12.0):
        weighted = data_certificate(u, kappa, weights=times)
        repeated = data_certificate(np.repeat(u, times), kappa)
        assert weighted.status == repeated.status
        assert weighted.nobs == repeated.nobs == times.sum()
        assert_allclose(weighted.margin, repeated.margin, rtol=1e-12)


def test_narrower_bounds_can_only_help():
    u = 8.0 * np.linspace(-1, 1, 51)
    margins = [data_certificate(u, 9.0, (h, 1 - h)).margin for h in (0.0, 0.1, 0.3, 0.45)]
    assert margins == sorted(margins)
    assert not data_certificate(u, 9.0).holds
    assert data_certificate(u, 9.0, (0.01, 0.2)).holds
    assert data_certificate(u, 9.0, (0.8, 0.99)).holds


def test_the_verdict_is_right_where_the_margin_is_tiny():
    """n residuals beyond the zone as many as allowed: the next one refutes."""
    kappa, n = 8.0, 100_000
    allowed = math.floor(n * biconvexity_certificate(kappa).min_curvature / kappa)
    u = np.zeros(n)
    u[:allowed] = -1e3
    tight = data_certificate(u, kappa)
    assert tight.holds
    assert 0 < tight.margin < 1e-4
    u[allowed] = -1e3
    assert data_certificate(u, kappa).status == "refuted"


def test_data_certificate_reads_as_text_and_as_html():
    good = data_certificate(np.zeros(3), 10.0, (0.1, 0.9))
    assert "yes, proved for every tau in (0.1, 0.9)" in str(good)
    bad = data_certificate([9.0, -9.0], 10.0)
    assert f"negative curvature is proved at tau = {bad.witness_tau}" in str(bad)
    assert bad._repr_html_().startswith("<table>")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([[1.0]], 5.0), DataError, "vector"),
        (([], 5.0), DataError, "at least one"),
        (([1.0, math.nan], 5.0), DataError, "1 of 2"),
        ((["a"], 5.0), QhregError, "residuals"),
        (([1.0], -1.0), DomainError, "kappa"),
        (([1.0], 5.0, (0.5, 0.5)), DomainError, "tau_bounds"),
        (([1.0], 5.0, (-0.1, 0.5)), DomainError, "tau_bounds"),
        (([1.0], 5.0, (0.0, math.nan)), DomainError, "tau_bounds"),
        (([1.0, 2.0], 5.0, (0, 1), [1.0]), DataError, "1 and 2"),
        (([1.0, 2.0], 5.0, (0, 1), [-1.0, 1.0]), DataError, "weights"),
        (([1.0, 2.0], 5.0, (0, 1), [0.0, 0.0]), DataError, "weights"),
    ],
)
def test_data_that_cannot_be_used_is_an_error_that_says_why(arguments, error, words):
    with pytest.raises(error, match=words):
        data_certificate(*arguments)


# --- Lemma 3.1 ------------------------------------------------------------------------------------


def joint(r, tau, kappa):
    return log_normalizer(tau, kappa) + float(quantile_huber_loss(r, tau, kappa))


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0, 6.0, 50.0])
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_the_joint_loss_bends_down_along_the_witness(kappa, tau):
    witness = joint_indefiniteness_witness(kappa, tau)
    step = 0.01 * min(tau, 1 - tau)
    (dr, dtau), r, t = witness.direction, witness.r, witness.tau
    there, back = (joint(r + h * dr, t + h * dtau, kappa) for h in (step, -step))
    second = (there + back - 2 * joint(r, t, kappa)) / step**2
    assert witness.curvature < 0
    assert_allclose(second, witness.curvature, rtol=0.02, atol=1e-6)
    assert 0.5 * (there + back) < joint(r, t, kappa)


@pytest.mark.parametrize("kappa", [0.0, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("tau", [1e-4, 0.3, 0.5])
def test_the_witness_is_an_eigenvector_of_a_hessian_of_determinant_minus_one(kappa, tau):
    witness = joint_indefiniteness_witness(kappa, tau, distance=2.5)
    hessian, direction = np.array(witness.hessian), np.array(witness.direction)
    assert_allclose(np.linalg.det(hessian), -1.0, rtol=1e-12)
    assert_allclose(np.linalg.norm(direction), 1.0, rtol=1e-14)
    assert_allclose(
        hessian @ direction, witness.curvature * direction, atol=1e-15 * abs(hessian).max()
    )
    assert witness.curvature < 0
    assert_allclose(witness.r - kappa * (1 - tau), 2.5, rtol=1e-9)


def test_the_witness_curvature_keeps_its_digits_where_the_hessian_is_large():
    witness = joint_indefiniteness_witness(1.0, 1e-6)
    bend = MP.mpf(witness.hessian[1][1])
    exact = (bend - MP.sqrt(bend**2 + 4)) / 2
    assert_allclose(witness.curvature, float(exact), rtol=1e-14)


@pytest.mark.parametrize("bad", [{"tau": 1.0}, {"tau": [0.2, 0.3]}, {"distance": 0.0}])
def test_a_point_outside_the_domain_is_an_error(bad):
    with pytest.raises(DomainError):
        joint_indefiniteness_witness(1.0, **bad)
