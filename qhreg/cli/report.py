"""A fit as one self-contained HTML page: a reading, pictures, tables, proofs, nothing to download."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from importlib import resources
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from qhreg._version import __version__
from qhreg.exceptions import QhregError


def _paragraph(text: object) -> str:
    return f"<p>{html.escape(str(text))}</p>"


def _scrolling(table: str) -> str:
    return f'<div class="scroll">{table}</div>'


def _section(title: str, content: Callable[[], str]) -> str:
    """Return a section, or why there is none for this fit."""
    try:
        text = content()
    except QhregError as error:
        text = _paragraph(f"Not available: {error}")
    return f"<section><h2>{html.escape(title)}</h2>{text}</section>"


def _pictures(drawings: Mapping[str, Callable[..., Any]]) -> str:
    """Return what plotting methods draw, by description, as images that carry their own data."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the report needs matplotlib: pip install 'qhreg[plot]'") from error
    images = []
    for description, draw in drawings.items():
        figure, buffer = Figure(figsize=(6.0, 4.4), layout="constrained"), io.BytesIO()
        draw(ax=figure.subplots())
        figure.savefig(buffer, format="png", dpi=120)
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        alt = html.escape(description)
        images.append(f'<img alt="{alt}" src="data:image/png;base64,{data}">')
    return f'<div class="panels">{"".join(images)}</div>'


class _Report:
    """The parts of the page, each computed once.

    Parameters
    ----------
    results, alpha, interval
        As in `html_report`.
    """

    def __init__(self, results: Any, alpha: float, interval: str) -> None:
        self.results, self.alpha, self.interval = results, alpha, interval
        self.coverage = f"{100 * (1 - alpha):g} %"

    @cached_property
    def limits(self) -> pd.DataFrame:
        """Intervals of the kind asked for."""
        limits: pd.DataFrame = self.results.conf_int(alpha=self.alpha, method=self.interval)
        return limits.set_axis(["lower", "upper"], axis=1)

    @cached_property
    def goodness(self) -> Any:
        """Tests of the fitted law."""
        return self.results.goodness_of_fit()

    @cached_property
    def proof(self) -> Any:
        """That no other tau is better; None where tau is fixed."""
        return self.results.certify_global() if self.results.tau_estimated else None

    @cached_property
    def regressors(self) -> list[str]:
        """Columns that are not constant."""
        exog, names = self.results.model.exog, self.results.model.exog_names
        return [str(names[j]) for j in np.flatnonzero(np.ptp(exog, axis=0) > 0.0)]

    # ------------------------------------------------------------------ the reading

    def reading(self) -> str:
        """Return what the numbers say, in sentences."""
        sentences = [self._rows_read(), self._noise_read(), *self._coefficients_read()]
        try:
            sentences.append(self._law_read())
        except QhregError as error:
            sentences.append(f"Whether the residuals have the fitted law is not tested: {error}.")
        items = "".join(f"<li>{html.escape(text)}</li>" for text in sentences)
        return f"<ul>{items}</ul>"

    def _rows_read(self) -> str:
        model = self.results.model
        rows, dropped = len(model.endog), model.nobs_given - len(model.endog)
        level, share = self.results.quantile_level, self.results.share_below
        gaps = f", {dropped} more left out: they have missing values" if dropped else ""
        return (
            f"{rows} rows were fitted{gaps}. The line is the level below which {100 * level:.0f} % of "
            f"the fitted distribution of {model.endog_names} lie, and {100 * share:.0f} % of the rows."
        )

    def _noise_read(self) -> str:
        tau = self.results.tau
        if not self.results.tau_estimated:
            return f"The asymmetry tau = {tau:.4g} was fixed, not estimated."
        side = "right" if tau > 0.5 else "left"
        if self.results.solution.tau_at_bound:
            return (
                f"tau = {tau:.4g} is on the bound of its range: all of the tail is on the {side}."
            )
        low, high = map(float, self.limits.loc["tau"].to_numpy())
        where = "inside" if low <= 0.5 <= high else "outside"
        return (
            f"The noise has its longer tail on the {side}: tau = {tau:.3f}, {self.coverage} interval "
            f"{low:.3f} to {high:.3f}. Symmetric noise, tau = 1/2, is {where} it."
        )

    def _coefficients_read(self) -> list[str]:
        limits = self.limits.loc[[name for name in self.regressors if name in self.limits.index]]
        away = (limits["lower"] > 0.0) | (limits["upper"] < 0.0)
        known = limits.notna().all(axis=1)
        groups = {
            f"{self.coverage} intervals without zero": limits.index[away & known],
            f"{self.coverage} intervals that hold zero": limits.index[~away & known],
            "No interval": limits.index[~known],
        }
        estimates = self.results.params
        return [
            f"{what}: {', '.join(f'{name} ({estimates[name]:.4g})' for name in names)}."
            for what, names in groups.items()
            if len(names)
        ]

    def _law_read(self) -> str:
        pvalue = self.goodness.ad_pvalue
        if pvalue >= self.alpha:
            return f"The residuals agree with the fitted law (Anderson-Darling test, p = {pvalue:.2g})."
        kind = self.results.cov_type
        errors = "rely on the law" if kind == "nonrobust" else "do not rely on the law"
        return (
            f"The residuals do not agree with the fitted law (Anderson-Darling test, p = {pvalue:.2g}): "
            f"take predicted quantiles with care. Standard errors of type {kind} {errors}."
        )

    # ------------------------------------------------------------------ tables and pictures

    def fit_pictures(self) -> str:
        """Return the data with the fit along the regressors."""
        if not self.regressors:
            return _pictures({"Residuals and fitted density": self.results.plot_density})
        drawn = self.regressors[:6]
        drawings = {
            f"Data and fit along {name}": partial(self.results.plot_fit, name) for name in drawn
        }
        more = len(self.regressors) - len(drawn)
        rest = _paragraph(f"{more} more regressors are not drawn.") if more > 0 else ""
        return _pictures(drawings) + rest

    def estimates(self) -> str:
        """Return the parameters with their intervals."""
        fit = self.results
        pvalues = fit.pvalues.map(lambda p: "" if np.isnan(p) else f"{p:.3f}")
        columns = {"estimate": fit.params, "std err": fit.bse, "p-value": pvalues}
        table = pd.concat([pd.DataFrame(columns), self.limits], axis=1)
        kind = {"wald": "Wald", "profile": "profile-likelihood"}.get(self.interval, self.interval)
        text = (
            f"{kind[0].upper()}{kind[1:]} intervals of {self.coverage}, standard errors of type "
            f"{fit.cov_type}. The p-value of tau is that of 1/2, the others are of zero."
        )
        shown = table.to_html(float_format="{:.4g}".format, na_rep="", border=0)
        return _scrolling(shown) + _paragraph(text)

    def diagnostics(self) -> str:
        """Return tests of the fitted law, and pictures of the residuals."""
        drawings = {
            "Residuals and fitted density": self.results.plot_density,
            "Residuals against fitted values": self.results.plot_residuals,
            "Quantiles of the residuals against those of the law": self.results.plot_qq,
            "Distribution function at the residuals": self.results.plot_pit,
        }
        try:
            samples = f"p-values by {self.goodness.n_boot} samples from the fit, refitted."
            tests = _scrolling(self.goodness._repr_html_()) + _paragraph(samples)
        except QhregError as error:
            tests = _paragraph(f"No test: {error}")
        return tests + _pictures(drawings)

    def asymmetry(self) -> str:
        """Return the profile likelihood of tau, and the tests of symmetry."""
        fit = self.results
        options = {} if fit.space.kappa is None else {"certificate": self.proof}
        profile = fit.profile_likelihood("tau", alpha=self.alpha, **options)
        low, high = profile.conf_int()
        text = f"{self.coverage} profile-likelihood interval of tau: {low:.4f} to {high:.4f}."
        picture = _pictures({"Profile likelihood of tau with its interval": profile.plot})
        tests = f"<pre>{html.escape(str(fit.test_symmetry()))}</pre>"
        return _paragraph(text) + picture + tests

    def proofs(self) -> str:
        """Return what is proved about the fit."""
        fit = self.results
        convexity = _scrolling(fit.certificate._repr_html_())
        if self.proof is None:
            return convexity + _paragraph(
                "tau is fixed: the problem is convex, and the duality gap bounds the distance to the "
                f"highest log-likelihood: {fit.duality_gap:.1e}."
            )
        at = f"This holds at the estimated kappa = {fit.kappa:.4g}."
        note = _paragraph(at) if fit.space.kappa is None else ""
        return convexity + _scrolling(self.proof._repr_html_()) + note

    def summary(self) -> str:
        """Return the summary of the fit."""
        return _scrolling(self.results.summary(alpha=self.alpha).as_html())


def html_report(
    results: Any, *, title: str = "", alpha: float = 0.05, interval: str = "wald"
) -> str:
    """Return a fit as one HTML page that needs no other file.

    Parameters
    ----------
    results : QuantileHuberResultsWrapper
        The fit.
    title : str
        Heading, such as the formula.
    alpha : float
        One minus the coverage of the intervals.
    interval : {"wald", "profile", "bootstrap"}
        The kind of intervals, as in `conf_int`.

    Returns
    -------
    str
        The page: what the numbers say, the data with the fit, estimates, tests of the fitted law,
        profile likelihood of an estimated tau, proofs, summary.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.cli.report import html_report
    >>> data = sm.datasets.engel.load_pandas().data
    >>> fit = QuantileHuberMLE.from_formula("foodexp ~ income", data, tau=0.5).fit()
    >>> html_report(fit, title="Engel")[:15]
    '<!DOCTYPE html>'
    """
    report = _Report(results, alpha, interval)
    contents = {
        "What it says": report.reading,
        "Data and fit": report.fit_pictures,
        "Estimates": report.estimates,
        "Does the law fit?": report.diagnostics,
        "Asymmetry": report.asymmetry,
        "Proofs": report.proofs,
        "Summary": report.summary,
    }
    if not results.tau_estimated:
        del contents["Asymmetry"]
    page = resources.files("qhreg.cli").joinpath("report.html").read_text("utf-8")
    return Template(page).substitute(
        title=html.escape(title or "Quantile Huber regression"),
        sections="".join(_section(name, content) for name, content in contents.items()),
        version=html.escape(__version__),
    )
