"""What a model is made of: its data, its formula, its parameters and their constraints.

``inputs`` checks what a user hands over and matches it to the rows, ``formulas`` reads formulas with
patsy and formulaic, ``observations`` holds the arrays, ``parameters`` the parameter vector and its
constraints, ``model_data`` is a linear model as numbers, with its fit, ``typical`` has rows in which
one regressor varies.
"""
