"""Tests, intervals, resampling and influence, from the covariance and the scores of a fit.

``hypothesis_tests`` is the outcome of every test; ``symmetry``, ``score_tests`` and ``robust_score`` are
tests; ``intervals`` has the Wald intervals; ``bootstrap``, ``multiplier`` and ``bootstrap_result``
resample; ``influence`` tells what each row does to the fit.
"""
