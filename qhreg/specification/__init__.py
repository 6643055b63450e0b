"""What a model is made of: its data, its formula, its parameters and their constraints.

``given`` checks what a user hands over, ``keywords`` the names it comes under, ``alignment`` matches
rows by label, ``formulas`` reads formulas with patsy and formulaic, ``observations`` holds the arrays,
``parameters`` the parameter vector, ``constraints`` and ``nesting`` say how models restrict each other.
"""
