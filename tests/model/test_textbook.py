"""The default fit of textbook data: tau inside its bounds, with standard errors."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_diabetes

import qhreg.formula.api as qhf
from qhreg.exceptions import BoundaryWarning, DataWarning

FORMULAS = {
    "cancer": "cancer ~ population",
    "ccard": "AVGEXP ~ AGE + INCOME + INCOMESQ + OWNRENT",
    "co2": "co2 ~ year",
    "committee": "BILLS104 ~ SIZE + SUBS + np.log(STAFF) + PRESTIGE + BILLS103",
    "copper": "WORLDCONSUMPTION ~ COPPERPRICE + INCOMEINDEX + ALUMPRICE + INVENTORYINDEX + TIME",
    "danish_data": "lrm ~ lry + lpy + ibo + ide",
    "elnino": "JUL ~ JAN + YEAR",
    "engel": "foodexp ~ income",
    "fertility": "Q('2010') ~ Q('1960')",
    "grunfeld": "invest ~ value + capital",
    "heart": "survival ~ age",
    "interest_inflation": "R ~ Dp",
    "longley": "TOTEMP ~ GNPDEFL + GNP + UNEMP + ARMED + POP + YEAR",
    "macrodata": "infl ~ unemp + tbilrate",
    "modechoice": "invt ~ ttme + hinc",
    "nile": "volume ~ year",
    "scotland": "YES ~ COUTAX * UNEMPF + MOR + ACT + GDP + AGE",
    "spector": "GPA ~ TUCE + PSI",
    "stackloss": "STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC",
    "star98": "np.log(NABOVE / NBELOW) ~ LOWINC + PERASIAN + PERBLACK + PERHISP + PTRATIO",
    "statecrime": "murder ~ hs_grad + poverty + single + white + urban",
    "strikes": "duration ~ iprod",
    "sunspots": "SUNACTIVITY ~ YEAR",
}
"""statsmodels' data sets with a continuous response."""

MASS_POINTS = {
    "fair": ("affairs ~ age + yrs_married + children + religious + educ", "68% .* equal 0"),
    "randhie": ("mdvis ~ lncoins + idp + lpi + fmde", "31% .* equal 0"),
}
"""Those in which so many responses are equal that tau ends on its bound, and what is said of it."""


def textbook(name: str) -> pd.DataFrame:
    data = getattr(sm.datasets, name).load_pandas().data
    return data.assign(year=data.index.year) if name == "co2" else data


def textbook_fit(name: str):
    if name == "diabetes":
        data = load_diabetes(as_frame=True).frame
        columns = " + ".join(column for column in data if column != "target")
        return qhf.quantile_huber(f"target ~ {columns}", data).fit()
    return qhf.quantile_huber(FORMULAS[name], textbook(name)).fit()


@pytest.mark.parametrize("name", [*FORMULAS, "diabetes"])
def test_textbook_data_have_tau_inside_its_bounds_and_standard_errors(name):
    results = textbook_fit(name)
    assert 0.001 < results.params["tau"] < 0.999
    assert results.cov_type == "HC3"
    assert np.isfinite(results.bse).all()
    assert np.isfinite(results.conf_int()).all(axis=None)
    assert results.llf == results.model.loglike(results.params)


@pytest.mark.parametrize("name", MASS_POINTS)
def test_a_mass_point_in_the_response_is_told_with_its_share(name):
    formula, share = MASS_POINTS[name]
    model = qhf.quantile_huber(formula, textbook(name))
    with (
        pytest.warns(BoundaryWarning, match="tau ended on its bound 0.999"),
        pytest.warns(DataWarning, match=share),
    ):
        results = model.fit()
    assert results.cov_type == "HC3"
    assert np.isfinite(results.bse.drop("tau")).all()
    assert results.llf == model.loglike(results.params)


def test_a_mass_point_of_half_the_responses_is_told_though_tau_is_inside():
    formula = "EXECUTIONS ~ INCOME + PERPOVERTY + PERBLACK + np.log(VC100k96) + SOUTH + DEGREE"
    with pytest.warns(DataWarning, match="53% of the responses equal 1"):
        results = qhf.quantile_huber(formula, textbook("cpunish")).fit()
    assert 0.001 < results.params["tau"] < 0.999
    assert np.isfinite(results.bse).all()


@pytest.mark.parametrize("name", ["copper", "stackloss", "statecrime"])
def test_plain_maximum_likelihood_ends_on_the_bound_where_restricted_does_not(name):
    model = qhf.quantile_huber(FORMULAS[name], textbook(name))
    with pytest.warns(BoundaryWarning, match="tau ended on its bound"):
        likelihood = model.fit(reml=False)
    assert likelihood.params["tau"] in (0.001, 0.999)
    assert likelihood.llf > model.fit().llf
