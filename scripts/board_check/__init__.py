"""Collects what only a board can tell, in one archive without names and numbers of its owner."""
