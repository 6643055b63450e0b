"""The quantile Huber family: domains, loss, normaliser and distribution."""
