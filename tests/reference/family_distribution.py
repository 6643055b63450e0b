"""Write family_tails.csv and family_moments.csv: tails and moments by quadrature at 40 digits.

Run as ``python tests/reference/family_distribution.py``; it takes minutes. Nothing here knows a
closed form of the distribution: the density is typed as the piecewise definition of the loss, and
the normaliser, both tails, the moments and the entropy are integrals of it between its kinks.
"""

import csv
import pathlib

import mpmath as mp

TAUS = [1e-3, 0.1, 0.5, 0.9, 0.999]
KAPPAS = [0.0, 1e-6, 0.05, 1.0, 8.0, 1e4]
LOG_LEVELS = [-690, -230, -23, -3]
FOLDER = pathlib.Path(__file__).parent


def loss(x, tau, kappa):
    if x < -kappa * tau:
        return -tau * x - kappa * tau**2 / 2
    if x > kappa * (1 - tau):
        return (1 - tau) * x - kappa * (1 - tau) ** 2 / 2
    return x**2 / (2 * kappa) if kappa else mp.mpf(0)


def cuts(start, tau, kappa):
    """Return points from start outwards, dense enough for Gauss-Legendre quadrature."""
    scale = min(1 / tau, mp.sqrt(kappa) + 1 / tau)
    steps = [start + scale * mp.mpf(2) ** k for k in range(-3, 9)]
    edge = kappa * tau
    widths = [start + mp.sqrt(kappa) * k for k in (1, 2, 4, 8, 16, 32)] if kappa else []
    inside = {*steps, *widths, edge, edge + 8 / tau, edge + 64 / tau}
    last = max([start, edge]) + 400 / tau
    return sorted({start, *(point for point in inside if start < point < last), last})


def integral(function, start, tau, kappa):
    """Return the integral of function times exp(-loss) from start >= 0 outwards, slope tau."""
    shift = loss(-start, tau, kappa)  # keeps the quadrature's error relative to a tiny tail

    def integrand(x):
        return function(x) * mp.exp(shift - loss(-x, tau, kappa))

    return mp.quad(integrand, cuts(start, tau, kappa)) * mp.exp(-shift)


def tail(x, tau, kappa):
    """Return the integral of exp(-loss) up to x."""
    if x <= 0:
        return integral(lambda _: 1, -x, tau, kappa)
    whole = integral(lambda _: 1, mp.mpf(0), tau, kappa)
    whole += integral(lambda _: 1, mp.mpf(0), 1 - tau, kappa)
    other = integral(lambda _: 1, x, 1 - tau, kappa)
    if other < whole / 2:
        return whole - other
    inner = mp.quad(lambda u: mp.exp(-loss(u, tau, kappa)), between(x, tau, kappa))
    return integral(lambda _: 1, mp.mpf(0), tau, kappa) + inner


def between(x, tau, kappa):
    edge = kappa * (1 - tau)
    return [mp.mpf(0), edge, x] if 0 < edge < x else [mp.mpf(0), x]


def points(tau, kappa):
    """Return floats from the far left tail to the far right one, kinks included."""
    chosen = {0.0, 1e-3, -1e-3, 0.5, -0.5}
    for sign, slope in ((-1, tau), (1, 1 - tau)):
        edge = kappa * slope
        chosen |= {sign * edge, sign * edge / 2, sign * edge * 0.999}
        for level in LOG_LEVELS:
            gauss = (2 * kappa * -level) ** 0.5
            chosen.add(sign * (gauss if gauss < edge else (-level + kappa * slope**2 / 2) / slope))
    return sorted(chosen)


def write(name, columns, rows):
    with (FOLDER / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def tail_rows():
    for tau in TAUS:
        for kappa in KAPPAS:
            t, k = mp.mpf(tau), mp.mpf(kappa)
            c = tail(mp.mpf(0), t, k) + tail(mp.mpf(0), 1 - t, k)
            for x in points(tau, kappa):
                cdf, sf = tail(mp.mpf(x), t, k) / c, tail(-mp.mpf(x), 1 - t, k) / c
                assert abs(cdf + sf - 1) < 1e-25, (tau, kappa, x, cdf, sf)
                yield [repr(tau), repr(kappa), repr(x), mp.nstr(cdf, 20), mp.nstr(sf, 20)]


def mean_of(function, tau, kappa):
    """Return the integral of function times exp(-loss) over the line."""
    left = integral(lambda x: function(-x), mp.mpf(0), tau, kappa)
    return left + integral(function, mp.mpf(0), 1 - tau, kappa)


def moments(tau, kappa):
    c = mean_of(lambda _: 1, tau, kappa)
    mean = mean_of(lambda x: x, tau, kappa) / c
    variance = mean_of(lambda x: (x - mean) ** 2, tau, kappa) / c
    third = mean_of(lambda x: (x - mean) ** 3, tau, kappa) / c
    fourth = mean_of(lambda x: (x - mean) ** 4, tau, kappa) / c
    entropy = mp.log(c) + mean_of(lambda x: loss(x, tau, kappa), tau, kappa) / c
    fifth = mean_of(lambda x: x**5, tau, kappa) / c
    shape = [third / variance ** mp.mpf(1.5), fourth / variance**2 - 3]
    return [mean, variance, *shape, entropy, fifth]


def moment_rows():
    for tau in TAUS:
        for kappa in KAPPAS:
            numbers = moments(mp.mpf(tau), mp.mpf(kappa))
            yield [repr(tau), repr(kappa), *(mp.nstr(mp.chop(x, 1e-30), 20) for x in numbers)]


def main():
    mp.mp.dps = 40
    write("family_tails.csv", ["tau", "kappa", "x", "cdf", "sf"], tail_rows())
    columns = ["tau", "kappa", "mean", "variance", "skew", "kurtosis", "entropy", "fifth"]
    write("family_moments.csv", columns, moment_rows())


if __name__ == "__main__":
    main()
