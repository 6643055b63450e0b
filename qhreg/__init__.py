"""Regression with the quantile Huber likelihood: the asymmetry tau is estimated, not guessed."""

from qhreg._version import __version__

__all__ = ["__version__"]
