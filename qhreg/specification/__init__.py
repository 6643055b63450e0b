"""What a model is made of: its data, its formula, its parameters and their constraints.

``inputs`` checks what a user hands over and the names it comes under, ``alignment`` matches rows by
label, ``formulas`` reads formulas with patsy and formulaic, ``observations`` holds the arrays,
``parameters`` the parameter vector, ``constraints`` says how models restrict each other,
``model_data`` is a linear model as numbers, with its fit.
"""
