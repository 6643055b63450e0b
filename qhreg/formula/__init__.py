"""Models described by a formula: see :mod:`qhreg.formula.api`."""
