"""A keyword that is not there is answered with the one that is meant."""

import numpy as np
import pytest
from model_data import skewed_frame

import qhreg.formula.api as qhf
from qhreg import QuantileHuberDistributional, QuantileHuberMLE
from qhreg.exceptions import DataError

FRAME = skewed_frame()
Y = FRAME["y"].to_numpy()
X = np.column_stack([np.ones(len(FRAME)), FRAME["x"]])
MODELS = [QuantileHuberMLE, QuantileHuberDistributional]


@pytest.mark.parametrize("model", MODELS)
def test_the_level_of_a_quantile_is_translated_to_tau(model):
    message = r"give the model tau = 1 - q \(here tau=0\.1\) and kappa=0"
    for ask in (
        lambda: model(Y, X).fit(q=0.9),
        lambda: model(Y, X, q=0.9),
        lambda: model.from_formula("y ~ x", FRAME, q=0.9),
    ):
        with pytest.raises(TypeError, match=message):
            ask()
    with pytest.raises(TypeError, match="tau = 1 - q and kappa=0"):
        model(Y, X).fit(q=[0.1, 0.9])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vcov": "robust"}, "'vcov': cov_type chooses the standard errors, one of nonrobust, HC0"),
        ({"kernel": "epa"}, "'kernel': cov_type chooses the standard errors"),
        ({"groups": "g"}, r'fit\(cov_type="cluster", cov_kwds=\{"groups": \'g\'\}\)'),
        ({"maxlags": 3}, r'fit\(cov_type="HAC", cov_kwds=\{"maxlags": 3\}\)'),
        ({"groups": Y}, r'cov_kwds=\{"groups": \.\.\.\}'),
        ({"tau": 0.5}, "fit has no 'tau': give it to the model"),
        ({"freq_weights": Y}, "fit has no 'freq_weights': give it to the model"),
        ({"cov_tpe": "HC1"}, "unknown keyword 'cov_tpe'; did you mean 'cov_type'?"),
        ({"zzz": 1}, "unknown keyword 'zzz'; there are start_params, method"),
    ],
)
def test_fit_says_where_a_keyword_belongs(model, given, message):
    with pytest.raises(TypeError, match=message):
        model(Y, X).fit(**given)


@pytest.mark.parametrize("model", MODELS)
def test_fit_says_what_its_first_argument_is(model):
    with pytest.raises(DataError, match=r"is start_params, 4 number.*got 0\.9\..*here tau=0\.1"):
        model(Y, X).fit(0.9)
    with pytest.raises(DataError, match=r"is start_params, 4 number.*got 'HC1'$"):
        model(Y, X).fit("HC1")


@pytest.mark.parametrize("model", MODELS)
def test_a_limit_on_the_iterations_is_said_not_to_be_used(model):
    with pytest.warns(UserWarning, match="maxiter=1 is not used"):
        fit = model(Y, X).fit(maxiter=1)
    assert fit.converged


def test_an_unknown_keyword_of_a_formula_names_the_one_that_is_meant():
    with pytest.raises(TypeError, match=r"QuantileHuberMLE got an unknown .*mean 'weights'"):
        qhf.quantile_huber("y ~ x", FRAME, weigths="w")
    with pytest.raises(TypeError, match=r"QuantileHuberDistributional got .*mean 'scale'"):
        qhf.quantile_huber_distributional("y ~ x", FRAME, scal="~ x")
