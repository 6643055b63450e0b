"""The numbers behind the diagnostic plots, and tests of the fitted law.

``residuals`` and ``regressors`` make what ``figures`` names, ``goodness`` the samples from a fit
that its tests and the envelopes of the plots are made of.
"""
