"""Tests, intervals, resampling, influence and prediction, from the covariance and the scores of a fit.

``hypothesis_tests`` is the outcome of every test and the likelihood-ratio test; ``score_tests`` are
those of added columns and of symmetry; ``bootstrap`` resamples; ``influence`` tells what each row does
to the fit; ``prediction`` is about new rows.
"""
