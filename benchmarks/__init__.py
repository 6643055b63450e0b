"""Measurements of speed, memory, accuracy and size, and the studies behind the tables of the docs."""
