"""What others need for the same data: R and Python peers, timed on one thread.

``python -m benchmarks.peers`` prints a table of the peers alone. Every function returns a
dictionary with ``seconds`` (the minimum over the repeats) and ``coef``.
"""
