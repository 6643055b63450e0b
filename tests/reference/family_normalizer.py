"""Write family_normalizer.csv: log c and its derivatives, from the definition of c, at 60 digits.

Run as ``python tests/reference/family_normalizer.py``. The derivatives in tau and kappa are typed
here from the definition with the two normal distribution functions; where they are large enough to
be seen by it, numeric differentiation of log c at 120 digits must agree, or the script stops.
"""

import csv
import pathlib

import mpmath as mp

LEFT = [1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.25, 0.35, 0.4, 0.49, 0.499999, 0.49999999]
RIGHT = [0.50000001, 0.500001, 0.51, 0.6, 0.65, 0.75, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-6, 1 - 1e-8]
TAUS = [*LEFT, 0.5, *RIGHT]
KAPPAS = [0.0, *(10.0**power for power in range(-12, 9)), 5e3]
COLUMNS = ["tau", "kappa", "value", "d_tau", "d2_tau", "d_kappa"]


def phi_difference(tau, kappa):
    """Return Phi((1 - tau) sqrt(kappa)) - Phi(-tau sqrt(kappa))."""
    root = mp.sqrt(kappa / 2)
    return (mp.erf((1 - tau) * root) + mp.erf(tau * root)) / 2


def log_c(tau, kappa):
    left = mp.exp(-kappa * tau**2 / 2) / tau
    right = mp.exp(-kappa * (1 - tau) ** 2 / 2) / (1 - tau)
    return mp.log(left + right + mp.sqrt(2 * mp.pi * kappa) * phi_difference(tau, kappa))


def derivatives(tau, kappa):
    c = mp.exp(log_c(tau, kappa))
    left, right = mp.exp(-kappa * tau**2 / 2), mp.exp(-kappa * (1 - tau) ** 2 / 2)
    first = (right / (1 - tau) ** 2 - left / tau**2) / c
    second = (kappa / tau + 2 / tau**3) * left
    second += (kappa / (1 - tau) + 2 / (1 - tau) ** 3) * right
    if kappa == 0:
        in_kappa = mp.mpf(1) / 2 / c
    else:
        in_kappa = mp.sqrt(mp.pi / (2 * kappa)) * phi_difference(tau, kappa) / c
    return log_c(tau, kappa), first, second / c - first**2, in_kappa


def check_numerically(tau, kappa, exact):
    _, first, second, in_kappa = exact
    with mp.workdps(120):
        pairs = [
            (first, mp.diff(lambda t: log_c(t, kappa), tau)),
            (second, mp.diff(lambda t: log_c(t, kappa), tau, 2)),
        ]
        if kappa > 0:
            pairs.append((in_kappa, mp.diff(lambda k: log_c(tau, k), kappa)))
    for closed_form, numeric in pairs:
        if abs(closed_form) > 1e-20:
            assert abs(numeric / closed_form - 1) < 1e-25, (tau, kappa, closed_form, numeric)


def main():
    mp.mp.dps = 60
    target = pathlib.Path(__file__).with_suffix(".csv")
    with target.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for tau in TAUS:
            for kappa in KAPPAS:
                exact = derivatives(mp.mpf(tau), mp.mpf(kappa))
                check_numerically(mp.mpf(tau), mp.mpf(kappa), exact)
                writer.writerow([repr(tau), repr(kappa), *(mp.nstr(x, 20) for x in exact)])


if __name__ == "__main__":
    main()
