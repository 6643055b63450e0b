"""Tests, intervals, resampling and influence, from the covariance and the scores of a fit.

``hypothesis_tests`` is the outcome of every test and the likelihood-ratio test; ``score_tests`` and
``symmetry`` are tests; ``intervals`` has the Wald intervals; ``bootstrap`` and ``bootstrap_result``
resample; ``influence`` tells what each row does to the fit.
"""
