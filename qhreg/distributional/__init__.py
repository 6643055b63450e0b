"""Regression in which scale and asymmetry depend on covariates, as the location does."""

from qhreg.distributional.model import QuantileHuberDistributional

__all__ = ["QuantileHuberDistributional"]
