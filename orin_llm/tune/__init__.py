"""Tuning: which settings serve a goal best on this machine, found by measuring."""
