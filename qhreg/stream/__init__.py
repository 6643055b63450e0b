"""Fits of data larger than memory, read batch by batch: ``quantile_huber(formula, source).fit()``."""

from __future__ import annotations

from qhreg.stream.model import StreamModel, StreamResults, quantile_huber

__all__ = ["StreamModel", "StreamResults", "quantile_huber"]
