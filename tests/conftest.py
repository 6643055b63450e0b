"""What tests of several rooms are run with."""

from __future__ import annotations

import sys

import pytest
import statsmodels.formula


@pytest.fixture(params=["patsy", "formulaic"])
def engine(request):
    """Run a test with each formula engine."""
    options = getattr(statsmodels.formula, "options", None)
    if options is None:
        if request.param == "formulaic":
            pytest.skip("this statsmodels knows patsy only")
        yield request.param
        return
    before = options.formula_engine
    options.formula_engine = request.param
    yield request.param
    options.formula_engine = before


@pytest.fixture(autouse=True)
def close_figures():
    """Leave no figure to the next test."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
