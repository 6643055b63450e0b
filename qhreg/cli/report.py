"""A fit as one self-contained HTML page: tables, certificates, pictures, nothing to download."""

from __future__ import annotations

import base64
import html
import io
from typing import Any

from qhreg._version import __version__
from qhreg.exceptions import DataError

__all__ = ["html_report"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid #ccc; }
section { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { padding: 0.15rem 0.7rem; text-align: right; border-top: 1px solid #e4e4e4; }
th:first-child { text-align: left; }
img { max-width: 100%; height: auto; }
pre { overflow-x: auto; }
@media screen { .simpletable :is(th, td) { white-space: nowrap; } }
@media (max-width: 40rem) {
  img.wide { max-width: none; width: 52rem; }
  pre { white-space: pre-wrap; }
}
@media print {
  main { max-width: none; padding: 0; }
  section { overflow: visible; }
  h2 { break-after: avoid; }
  img, table, pre { break-inside: avoid; }
  pre { white-space: pre-wrap; }
}
footer { color: #666; font-size: 0.85rem; margin-top: 2rem; }
"""


def _png(figure: Any, description: str, kind: str = "") -> str:
    """Return a figure as an image element that carries its own data; a wide one scrolls on a phone."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    name = f' class="{kind}"' if kind else ""
    return f'<img{name} alt="{html.escape(description)}" src="data:image/png;base64,{data}">'


def _figure(width: float, height: float) -> Any:
    """Return a figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError("the report needs matplotlib: pip install 'qhreg[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def _paragraph(text: object) -> str:
    return f"<p>{html.escape(str(text))}</p>"


def _certificates(results: Any, proof: Any) -> str:
    parts = [results.certificate._repr_html_()]
    if proof is None:
        parts.append(
            _paragraph(
                "tau is fixed: the problem is convex, and the duality gap bounds the distance to "
                f"the highest log-likelihood: {results.duality_gap:.1e}."
            )
        )
    else:
        parts.append(proof._repr_html_())
        if results.space.kappa is None:
            parts.append(_paragraph(f"This holds at the estimated kappa = {results.kappa:.4g}."))
    return _section("Certificates", *parts)


def _profile(results: Any, proof: Any, alpha: float) -> str:
    figure = _figure(7.0, 4.6)
    options = {} if results.space.kappa is None else {"certificate": proof}
    profile = results.profile_likelihood("tau", alpha=alpha, **options)
    profile.plot(ax=figure.subplots())
    low, high = profile.conf_int()
    text = (
        f"{100 * (1 - alpha):g} % profile-likelihood interval of tau: {low:.4f} to {high:.4f}. "
        "tau = 1/2 is symmetric noise."
    )
    symmetry = f"<pre>{html.escape(str(results.test_symmetry()))}</pre>"
    picture = _png(figure, "Profile likelihood of tau with its interval")
    return _section("Asymmetry", _paragraph(text), picture, symmetry)


def _diagnostics(results: Any) -> str:
    figure = _figure(13.5, 8.0)
    results.plot_diagnostics(fig=figure)
    return _section("Diagnostics", _png(figure, "Diagnostics of the residuals", "wide"))


def html_report(results: Any, *, title: str = "", alpha: float = 0.05) -> str:
    """Return a fit as one HTML page that needs no other file.

    Parameters
    ----------
    results : QuantileHuberResultsWrapper
        The fit.
    title : str
        Heading, such as the formula.
    alpha : float
        One minus the coverage of the intervals.

    Returns
    -------
    str
        The page: summary, certificates, profile likelihood of an estimated tau, diagnostics.

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
    heading = html.escape(title or "Quantile Huber regression")
    proof = results.certify_global() if results.tau_estimated else None
    sections = [
        _section("Summary", results.summary(alpha=alpha).as_html()),
        _certificates(results, proof),
    ]
    if proof is not None:
        sections.append(_profile(results, proof, alpha))
    sections.append(_diagnostics(results))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>{STYLE}</style></head><body><main><h1>{heading}</h1>"
        f"{''.join(sections)}<footer>qhreg {html.escape(__version__)}</footer></main></body></html>\n"
    )
