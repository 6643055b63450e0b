"""Fits of data larger than memory, read batch by batch."""
