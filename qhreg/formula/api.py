"""Formula versions of the models.

Examples
--------
>>> import statsmodels.api as sm
>>> import qhreg.formula.api as qhf
>>> engel = sm.datasets.engel.load_pandas().data
>>> qhf.quantile_huber("foodexp ~ income", engel).fit().params.index.tolist()
['Intercept', 'income', 'sigma', 'tau']
"""

from qhreg.distributional import QuantileHuberDistributional
from qhreg.model import QuantileHuberMLE

__all__ = ["quantile_huber", "quantile_huber_distributional"]

# a function of its own would add a frame between the caller and the names in the formula
quantile_huber = QuantileHuberMLE.from_formula
quantile_huber_distributional = QuantileHuberDistributional.from_formula
